// What a checkpoint costs a server that goes on with pushes, and how fast it is
// saved and restored, beside a sequential writer and reader of the same bytes.
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/worker_thread.h"
#include "bench/harness/report.h"
#include "bench/harness/samples.h"
#include "checkpoint/directory.h"
#include "checkpoint/file.h"
#include "checkpoint/restore_reader.h"
#include "checkpoint/shard_file.h"
#include "server/core/shard.h"
#include "server/core/testing/configurations.h"
#include "tensor/buffer.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

using testing::MakeAdamConfiguration;
using testing::MakeSeal;
using testing::Pair;
using testing::Zeros;

constexpr uint64_t kRowElements = 1024;
constexpr uint64_t kBytesPerElement = 3 * sizeof(float);  // With two moments.
constexpr size_t kPieceBytes = size_t{8} << 20;
constexpr double kSecondsBetween = 30;  // Checkpoints.

double Seconds(Time begin) {
  return absl::ToDoubleSeconds(MonotonicNow() - begin);
}

double ResidentBytes() {
  const std::string statm = [] {
    std::FILE* const file = std::fopen("/proc/self/statm", "r");
    char text[256] = {};
    CHECK(file != nullptr && std::fgets(text, sizeof(text), file) != nullptr,
          "/proc says how much memory there is");
    std::fclose(file);
    return std::string(text);
  }();
  return std::strtod(statm.c_str() + statm.find(' '), nullptr) *
         static_cast<double>(sysconf(_SC_PAGESIZE));
}

// Its pages are on disk, and not in memory.
void Forget(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  CHECK(fd >= 0 && fsync(fd) == 0 &&
            posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0,
        path);
  close(fd);
}

// Seconds to write so many bytes as one durable file.
double WritePlainly(const std::string& path, uint64_t bytes) {
  const std::vector<std::byte> piece(kPieceBytes, std::byte{42});
  const Time begin = MonotonicNow();
  const int fd =
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  CHECK(fd >= 0, path);
  for (uint64_t left = bytes; left > 0;) {
    const ssize_t written =
        write(fd, piece.data(), std::min<uint64_t>(left, piece.size()));
    CHECK(written > 0, path);
    left -= written;
  }
  CHECK(fsync(fd) == 0 && close(fd) == 0, path);
  return Seconds(begin);
}

// Memory on huge pages, as blocks have it, that nobody has touched.
class FreshMemory {
 public:
  explicit FreshMemory(size_t bytes)
      : bytes_(bytes),
        memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    CHECK(memory_ != MAP_FAILED, "there is memory");
    madvise(memory_, bytes_, MADV_HUGEPAGE);
  }
  ~FreshMemory() { munmap(memory_, bytes_); }
  FreshMemory(const FreshMemory&) = delete;
  FreshMemory& operator=(const FreshMemory&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(memory_); }

 private:
  const size_t bytes_;
  void* const memory_;
};

// From now on there is so much free memory that the host of a virtual machine
// has backed: it was touched just now.
void HaveMemoryAtHand(size_t bytes) {
  bytes += bytes / 4;
  const FreshMemory memory(bytes);
  for (size_t at = 0; at < bytes; at += 4096) memory.data()[at] = std::byte{1};
}

// Such a host takes it back after a while.
void HaveNoMemoryAtHand() {
  std::this_thread::sleep_for(std::chrono::seconds(3));
}

// Into memory that is used again and again, or `fresh`.
double ReadPlainly(const std::string& path, bool fresh) {
  Forget(path);
  const std::unique_ptr<std::byte[]> warm(new std::byte[kPieceBytes]());
  const Time begin = MonotonicNow();
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  CHECK(fd >= 0, path);
  const size_t bytes = static_cast<size_t>(lseek(fd, 0, SEEK_END));
  lseek(fd, 0, SEEK_SET);
  const FreshMemory all(bytes + kPieceBytes);
  for (size_t at = 0;;) {
    const ssize_t got =
        read(fd, fresh ? all.data() + at : warm.get(), kPieceBytes);
    if (got <= 0) break;
    at += static_cast<size_t>(got);
  }
  const double seconds = Seconds(begin);
  close(fd);
  return seconds;
}

// Reads slices as a server's process does. Thread-safe.
class ReadingThread {
 public:
  void Read(Outbox::IoItem item) {
    const auto work = std::make_shared<Outbox::IoItem>(std::move(item));
    thread_.Post([this, work] {
      IoResult result;
      result.io = work->io;
      result.payload = std::exchange(work->payload, {});
      auto read = std::make_unique<v1::ReadSlicesResult>();
      result.status =
          reader_.Read(static_cast<const v1::ReadSlices&>(*work->head),
                       read.get(), &result.payload);
      result.head = std::move(read);
      MutexLock lock(&mutex_);
      results_.push_back(std::move(result));
      changed_.NotifyAll();
    });
  }
  // The next result, in the order of reading.
  IoResult Wait() {
    MutexLock lock(&mutex_);
    while (results_.empty()) changed_.Wait(&mutex_);
    IoResult result = std::move(results_.front());
    results_.pop_front();
    return result;
  }

 private:
  RestoreReader reader_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<IoResult> results_ ABSL_GUARDED_BY(mutex_);
  WorkerThread thread_{"restore"};  // Last: uses all of the above.
};

// A server's core, called as its process does: pushes on this thread, files on
// another. Not thread-safe.
class Server {
 public:
  Server(uint64_t bytes, std::string root)
      : shard_(Options()),
        configuration_(MakeAdamConfiguration({Zeros(
            "w", {bytes / kBytesPerElement / kRowElements, kRowElements})})),
        directory_(std::move(root), /*nonce=*/1) {
    Outbox out;
    shard_.Start(now_, &out);
    v1::ConfigureRequest request;
    request.mutable_header()->set_term(1);
    *request.mutable_configuration() = configuration_;
    Receive(PeerId::Coordinator(), request, {});
    while (shard_.next_tick() <= now_) shard_.Tick(now_, &out);
    gradient_ = Buffer::Allocate(kMaxBlockElements * sizeof(float));
    // One of zeros would change nothing, and cost nothing.
    std::byte* const numbers = gradient_.mutable_bytes().data();
    for (uint64_t i = 0; i < kMaxBlockElements; ++i) {
      const float value = 1e-3f * static_cast<float>(1 + i % 7);
      std::memcpy(numbers + i * sizeof(float), &value, sizeof(float));
    }
    for (int s = 0; s < layout().slices_size(); ++s) {
      const v1::Slice& slice = layout().slices(s);
      uint64_t left = (slice.row_end() - slice.row_begin()) * kRowElements;
      for (uint32_t b = 0; left > 0; ++b) {
        const uint64_t elements = std::min<uint64_t>(left, kMaxBlockElements);
        chunks_.push_back(MakeChunk(s, b, elements));
        left -= elements;
      }
    }
  }
  ~Server() {
    if (writer_.joinable()) writer_.join();
  }

  size_t chunks() const { return chunks_.size(); }
  uint64_t bytes() const {
    return layout().variables(0).shape(0) * kRowElements * kBytesPerElement;
  }

  // Every `stride`th block, one chunk each: how long each took. Empty: the
  // snapshot that is being written has been, before the first.
  void Push(size_t stride, Samples* milliseconds) {
    for (size_t c = 0; c < chunks_.size(); c += stride) {
      const Time begin = MonotonicNow();
      v1::PushRequest& chunk = chunks_[c];
      chunk.mutable_header()->set_sequence(pushes_ + 1);
      Receive(PeerId::Worker(1), chunk,
              {gradient_.Part(0, chunk.blocks(0).elements() * sizeof(float))});
      milliseconds->Add(1e3 * Seconds(begin));
    }
    ++pushes_;
  }

  // Freezes all blocks and begins to write them.
  void BeginSave() {
    v1::PrepareCheckpoint prepare;
    *prepare.mutable_snapshot() = Pair(1, ++snapshots_);
    const auto prepared = directory_.Prepare(prepare);
    CHECK(prepared.ok(), prepared.status().message());
    prepared_ = prepared->directory();
    v1::SealRequest seal = MakeSeal(snapshots_);
    seal.set_directory(prepared_);
    written_ = false;
    Receive(PeerId::Coordinator(), seal, {});
    CHECK(writer_.joinable(), "a sealed server writes");
  }
  bool HasWritten() const { return written_; }
  // Commits what has been written, alone; the path.
  std::string EndSave() {
    writer_.join();
    Outbox out;
    IoResult result;
    result.io = io_;
    result.head = std::make_unique<v1::WriteShardResult>(result_);
    shard_.Completed(std::move(result), now_, &out);
    v1::CommitCheckpoint commit;
    commit.set_directory(prepared_);
    v1::Manifest* const manifest = commit.mutable_manifest();
    *manifest->mutable_snapshot() = Pair(1, snapshots_);
    *manifest->mutable_variables() = layout().variables();
    *manifest->add_files() = result_.file();
    manifest->add_slots("momentum");
    manifest->add_slots("variance");
    const auto committed = directory_.Commit(commit);
    CHECK(committed.ok(), committed.status().message());
    return committed->path();
  }

  // Finds the checkpoint, reads and checks it, in the pieces that a server
  // reads, and drops it.
  void Read() {
    const auto found = directory_.Find({});
    CHECK(found.ok(), found.status().message());
    RestoreReader reader;
    const int slices = layout().slices_size();
    for (int s = 0; s < slices; ++s) {
      v1::ReadSlices read;
      read.set_path(found->path());
      read.set_first(s == 0);
      read.set_last(s + 1 == slices);
      read.mutable_check()->set_of(1);
      read.add_slots("momentum");
      read.add_slots("variance");
      auto* const want = read.add_slices();
      want->set_variable("w");
      *want->mutable_shape() = layout().variables(0).shape();
      want->set_row_begin(layout().slices(s).row_begin());
      want->set_row_end(layout().slices(s).row_end());
      v1::ReadSlicesResult result;
      BufferChain payload;
      const absl::Status status = reader.Read(read, &result, &payload);
      CHECK(status.ok(), status.message());
    }
  }

  // As a chief that looks for a checkpoint and a server that begins do: the
  // core fills in what another thread reads and checks.
  void Restore() {
    const auto found = directory_.Find({});
    CHECK(found.ok(), found.status().message());
    v1::ConfigureRequest request;
    request.mutable_header()->set_term(1);
    *request.mutable_configuration() = configuration_;
    request.mutable_configuration()->mutable_servers(0)->set_restore_directory(
        found->path());
    Shard shard(Options());
    Outbox out;
    shard.Start(now_, &out);
    Message message;
    message.from = PeerId::Coordinator();
    message.call = 1;
    message.head = &request;
    shard.Receive(std::move(message), now_, &out);
    ReadingThread files;
    while (!IsRestored(shard)) {
      for (Outbox::IoItem& item : out.ios) files.Read(std::move(item));
      out.ios.clear();
      if (shard.next_tick() <= now_) {
        shard.Tick(now_, &out);
      } else {
        IoResult result = files.Wait();
        CHECK(result.status.ok(), result.status.message());
        shard.Completed(std::move(result), now_, &out);
      }
    }
  }

 private:
  static bool IsRestored(const Shard& shard) {
    v1::StatusReply status;
    shard.FillStatus(&status);
    return status.server().restored();
  }
  static Shard::Options Options() {
    Shard::Options options;
    options.incarnation = 100;
    options.life_seed = 1;
    return options;
  }
  static v1::PushRequest MakeChunk(uint32_t slice, uint32_t block,
                                   uint64_t elements) {
    v1::PushRequest request;
    request.mutable_header()->set_worker(1);
    *request.mutable_header()->mutable_generation() = Pair(1, 11);
    request.set_encoding(v1::FP32);
    v1::PushBlock* const pushed = request.add_blocks();
    pushed->set_slice(slice);
    pushed->set_block(block);
    pushed->set_elements(elements);
    return request;
  }
  const v1::Layout& layout() const { return configuration_.layout(); }

  void Receive(PeerId from, const google::protobuf::Message& head,
               BufferChain payload) {
    Outbox out;
    Message message;
    message.from = from;
    message.call = 1;
    message.head = &head;
    message.payload = std::move(payload);
    shard_.Receive(std::move(message), now_, &out);
    for (Outbox::IoItem& item : out.ios) {
      CHECK(!writer_.joinable(), "one file is written at a time");
      io_ = item.io;
      writer_ = std::thread([this, work = std::move(item)]() mutable {
        const auto written = WriteShardFile(
            static_cast<const v1::WriteShard&>(*work.head), work.payload);
        CHECK(written.ok(), written.status().message());
        work.payload.clear();
        result_ = *written;
        written_ = true;
      });
    }
  }

  Shard shard_;
  const v1::Configuration configuration_;
  CheckpointDirectory directory_;
  const Time now_ = Time::FromNanoseconds(1);
  std::vector<v1::PushRequest> chunks_;
  Buffer gradient_;
  uint64_t pushes_ = 0;
  uint64_t snapshots_ = 0;
  std::string prepared_;
  std::thread writer_;
  IoId io_ = 0;
  v1::WriteShardResult result_;  // Once written_.
  std::atomic<bool> written_ = false;
};

// MB/s, of what is measured and of its peer.
struct DiskSamples {
  Samples save, write;
  Samples read, read_plainly;
  Samples fill, read_beside_fill;
  Samples fill_freshly, read_freshly;
};

// The times of the two, of which each begins every other time: a disk that gave
// much just now may give less.
std::pair<double, double> InTurn(int round, const std::function<double()>& one,
                                 const std::function<double()>& other) {
  if (round % 2 == 0) {
    const double first = one();
    return {first, other()};
  }
  const double first = other();
  return {one(), first};
}

// Each reads the same file, which is on disk and not in memory.
void MeasureReading(const std::string& path, int round, Server* server,
                    DiskSamples* samples) {
  const std::string file = path + "/ps-00001-of-00001.safetensors";
  const double megabytes = 1e-6 * static_cast<double>(server->bytes());
  // With memory that is at hand, or `fresh`.
  const auto have_memory = [&](bool fresh) {
    fresh ? HaveNoMemoryAtHand() : HaveMemoryAtHand(server->bytes());
  };
  const auto restoring = [&](void (Server::*restore)(), bool fresh) {
    return [&have_memory, &file, server, restore, fresh] {
      have_memory(fresh);
      Forget(file);
      const Time begin = MonotonicNow();
      (server->*restore)();
      return Seconds(begin);
    };
  };
  const auto reading = [&](bool fresh) {
    return [&have_memory, &file, fresh] {
      have_memory(fresh);
      return ReadPlainly(file, fresh);
    };
  };
  const auto compare = [&](void (Server::*restore)(), bool fresh, Samples* ours,
                           Samples* plain) {
    const auto [restored, read] =
        InTurn(round, restoring(restore, fresh), reading(fresh));
    if (round < 0) return;
    ours->Add(megabytes / restored);
    plain->Add(megabytes / read);
  };
  compare(&Server::Read, false, &samples->read, &samples->read_plainly);
  compare(&Server::Restore, false, &samples->fill, &samples->read_beside_fill);
  if (round < 0) return;
  compare(&Server::Restore, true, &samples->fill_freshly,
          &samples->read_freshly);
}

void MeasureDisk(const std::string& directory, Server* server, Report* report) {
  report->Progress("disk");
  const std::string plain = directory + "/plain";
  const double megabytes = 1e-6 * static_cast<double>(server->bytes());
  DiskSamples samples;
  const int rounds = report->quick() ? 2 : 6;
  Samples unused;
  server->Push(1, &unused);  // What is written is no zeros.
  for (int round = -2; round < rounds; ++round) {
    std::string path;
    const auto [saved, written] = InTurn(
        round,
        [&] {
          const Time begin = MonotonicNow();
          server->BeginSave();
          path = server->EndSave();
          return Seconds(begin);
        },
        [&] { return WritePlainly(plain, server->bytes()); });
    MeasureReading(path, round, server, &samples);
    CHECK(RemoveTree(path).ok(), path);
    if (round < 0) continue;
    samples.save.Add(megabytes / saved);
    samples.write.Add(megabytes / written);
  }
  auto& [save, write, read, read_plainly, fill, read_beside_fill, fill_freshly,
         read_freshly] = samples;
  report->Add({"save_over_disk", "MB/s", save,
               Figure::Peer{"sequential writer", write}});
  report->Add({"restore_over_disk", "MB/s", read,
               Figure::Peer{"sequential reader", read_plainly}});
  report->Add({"restore_filled", "MB/s", fill,
               Figure::Peer{"sequential reader", read_beside_fill}});
  report->Add({"restore_filled_fresh", "MB/s", fill_freshly,
               Figure::Peer{"reader into fresh huge pages", read_freshly}});
}

// What pushes feel of one checkpoint.
struct Felt {
  double calm_p99 = 0;  // ms
  double saving_p99 = 0;
  double late = 0;  // Seconds, of all of them together.
};

Felt PushWhileSaving(int calm_pushes, Server* server) {
  Samples calm, saving;
  const Time calm_begin = MonotonicNow();
  for (int push = 0; push < calm_pushes; ++push) server->Push(1, &calm);
  const double push_seconds = Seconds(calm_begin) / calm_pushes;
  const Time begin = MonotonicNow();
  server->BeginSave();
  int pushes = 0;
  for (; !server->HasWritten(); ++pushes) server->Push(1, &saving);
  Felt felt;
  felt.late = Seconds(begin) - pushes * push_seconds;
  CHECK(RemoveTree(server->EndSave()).ok(), "a checkpoint is deleted");
  felt.calm_p99 = calm.Quantile(0.99);
  felt.saving_p99 = saving.Quantile(0.99);
  return felt;
}

// Of a server that has memory from the checkpoint before, which it keeps for a
// minute, and of one that has none.
void MeasurePushes(const std::function<std::unique_ptr<Server>()>& make_server,
                   Report* report) {
  report->Progress("push");
  Samples added, calm_p99, first_added, first_calm_p99, lost, allowed;
  const int rounds = report->quick() ? 2 : 5;
  const int calm_pushes = report->quick() ? 5 : 20;
  for (int round = 0; round < rounds; ++round) {
    const std::unique_ptr<Server> server = make_server();
    const Felt first = PushWhileSaving(calm_pushes, server.get());
    first_calm_p99.Add(first.calm_p99);
    first_added.Add(first.saving_p99 - first.calm_p99);
    const Felt next = PushWhileSaving(calm_pushes, server.get());
    calm_p99.Add(next.calm_p99);
    added.Add(next.saving_p99 - next.calm_p99);
    lost.Add(next.late / kSecondsBetween);
    allowed.Add(0.02);
  }
  report->Add({"push_p99_added_ms", "ms", added,
               Figure::Peer{"a calm push's p99", calm_p99}});
  report->Add({"push_p99_added_first_ms", "ms", first_added,
               Figure::Peer{"a calm push's p99", first_calm_p99}});
  report->Add({"throughput_lost", "", lost, Figure::Peer{"allowed", allowed}});
}

// Of a server that has no memory to spare from earlier ones, each time.
void MeasureMemory(const std::function<std::unique_ptr<Server>()>& make_server,
                   Report* report) {
  report->Progress("memory");
  constexpr size_t kStride = 8;
  Samples extra, overwritten, unused;
  for (int round = 0; round < (report->quick() ? 1 : 3); ++round) {
    const std::unique_ptr<Server> server = make_server();
    malloc_trim(0);  // What is free is not counted as there before.
    const double before = ResidentBytes();
    server->BeginSave();
    double most = before;
    while (!server->HasWritten()) {
      server->Push(kStride, &unused);
      most = std::max(most, ResidentBytes());
    }
    CHECK(RemoveTree(server->EndSave()).ok(), "a checkpoint is deleted");
    const size_t blocks = (server->chunks() + kStride - 1) / kStride;
    extra.Add(1e-6 * (most - before));
    overwritten.Add(1e-6 * static_cast<double>(blocks) * kMaxBlockElements *
                    kBytesPerElement);
  }
  report->Add({"extra_memory", "MB", extra,
               Figure::Peer{"overwritten meanwhile", overwritten}});
}

void Run(Report* report) {
  const char* const temporary = std::getenv("TMPDIR");
  const std::string directory =
      absl::StrCat(temporary == nullptr ? "/tmp" : temporary,
                   "/paramd-checkpoint-benchmark-", getpid());
  CHECK(MakeDirectories(directory).ok(), directory);
  const auto make_server = [&] {
    const uint64_t bytes = report->quick() ? 100'000'000 : 500'000'000;
    return std::make_unique<Server>(bytes, directory + "/checkpoints");
  };
  if (report->Wants("disk")) {
    MeasureDisk(directory, make_server().get(), report);
  }
  if (report->Wants("push")) MeasurePushes(make_server, report);
  if (report->Wants("memory")) MeasureMemory(make_server, report);
  CHECK(RemoveTree(directory).ok(), directory);
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  paramd::Report report("checkpoint", argc, argv);
  paramd::Run(&report);
}
