#include "tests/sim/storage.h"

#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/status_macros.h"
#include "checkpoint/blocks_target.h"
#include "checkpoint/manifest.h"
#include "checkpoint/retention.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

std::string PreparedPathOf(const v1::SnapshotNumber& snapshot) {
  return absl::StrCat(SimStorage::PathOf(snapshot), ".partial");
}

template <typename M>
IoResult Done(std::unique_ptr<M> head) {
  IoResult result;
  result.head = std::move(head);
  return result;
}

// What every directory's nonce is.
constexpr uint64_t kNonce = 17;

// A file as it travels: the request to write it, and the payload.
std::string FileText(const v1::WriteShard& request,
                     const BufferChain& payload) {
  std::string head;
  {
    // Maps in one order: the same seed gives the same bytes.
    google::protobuf::io::StringOutputStream stream(&head);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    request.SerializeToCodedStream(&coded);
  }
  return absl::StrCat(absl::Dec(head.size(), absl::kZeroPad8), head,
                      FlattenForTest(payload));
}

constexpr absl::Duration kFast = absl::Milliseconds(50);
constexpr absl::Duration kSlow = absl::Seconds(1);

bool Writes(const google::protobuf::Descriptor* type) {
  return type != v1::ReadLog::descriptor() &&
         type != v1::FindCheckpoint::descriptor() &&
         type != v1::ReadSlices::descriptor() &&
         type != v1::ReadForServer::descriptor();
}

// What was read lies in the blocks' memory that came with the request.
void PutInto(const v1::ReadSlices& request, BufferChain memory,
             IoResult* result) {
  if (memory.empty()) return;
  auto target = BlocksTarget::Create(request, &memory);
  CHECK(target.ok(), target.status().message());
  ChainReader reader(result->payload);
  while (!target->full()) {
    CHECK(reader.Read(target->Next(reader.remaining())),
          "as much was read as there is memory for");
  }
  CHECK(reader.remaining() == 0, "there is memory for all that was read");
  result->payload = std::move(memory);
}

void Serve(PeerId self, std::vector<SimStorage::Work> works,
           Simulation* simulation) {
  for (SimStorage::Work& work : works) {
    simulation->HandleIo(
        self, work.type,
        {.shortest = absl::Microseconds(20), .longest = work.longest},
        std::move(work.handler));
  }
}

}  // namespace

IoResult Failed(absl::Status status) {
  IoResult result;
  result.status = std::move(status);
  return result;
}

template <typename Request, typename Function>
SimStorage::Work SimStorage::MakeWork(absl::Duration longest, Function work) {
  return {Request::descriptor(), longest, [this, work](Outbox::IoItem item) {
            const auto& request = static_cast<const Request&>(*item.head);
            if (!Writes(Request::descriptor())) {
              return work(request, item.payload);
            }
            const bool is_shard = std::is_same_v<Request, v1::WriteShard>;
            if (full_ || (is_shard && std::exchange(fail_next_shard_, false))) {
              if constexpr (std::is_same_v<Request, v1::WriteShard>) {
                Tear(request);
              }
              return Failed(
                  absl::ResourceExhaustedError("no space left on device"));
            }
            IoResult result = work(request, item.payload);
            if (lose_result_ > 0 && random_->Chance(lose_result_)) {
              return Failed(absl::UnavailableError("connection timed out"));
            }
            return result;
          }};
}

void SimStorage::SetFull(bool full) {
  full_ = full;
  was_bad_ = true;
}

void SimStorage::LoseResults(double chance, RandomStream* random) {
  lose_result_ = chance;
  random_ = random;
  was_bad_ = true;
}

void SimStorage::Blind(double chance, RandomStream* random) {
  blind_ = chance;
  blind_random_ = random;
}

bool SimStorage::IsBlind() {
  return blind_ > 0 && blind_random_->Chance(blind_);
}

void SimStorage::StartFrom(std::unique_ptr<TrainedTensors> trained) {
  trained_ = std::move(trained);
}

void SimStorage::Tear(const v1::WriteShard& request) {
  const auto directory = files_.find(request.directory());
  if (directory == files_.end()) return;
  Tensors& torn = directory->second[request.file().name()];
  torn.clear();
  if (request.tensors_size() > 0) {
    torn[request.tensors(0).name()].bytes =
        std::string(request.tensors(0).bytes() / 2, '\0');
  }
}

uint32_t SimStorage::CrcOf(const Tensors& tensors) {
  uint32_t crc = 0;
  for (const auto& [name, tensor] : tensors) {
    crc = Crc32c(absl::MakeConstSpan(
                     reinterpret_cast<const std::byte*>(tensor.bytes.data()),
                     tensor.bytes.size()),
                 crc);
  }
  return crc;
}

std::string SimStorage::PathOf(const v1::SnapshotNumber& snapshot) {
  return absl::StrCat("checkpoints/", VersionName(snapshot));
}

std::vector<SimStorage::Work> SimStorage::CoordinatorWorks() {
  return {
      MakeWork<v1::ReadLog>(
          kFast, [this](const auto&, const auto&) { return ReadLog(); }),
      MakeWork<v1::AppendLog>(
          longest_append_,
          [this](const auto& r, const auto&) { return AppendLog(r); }),
      MakeWork<v1::PrepareCheckpoint>(
          kFast,
          [this](const auto& r, const auto&) { return PrepareCheckpoint(r); }),
      MakeWork<v1::WriteFetched>(kFast,
                                 [this](const auto& r, const auto& payload) {
                                   return WriteFetched(r, payload);
                                 }),
      MakeWork<v1::CommitCheckpoint>(
          kSlow,
          [this](const auto& r, const auto&) { return CommitCheckpoint(r); }),
      MakeWork<v1::DeleteCheckpoints>(
          kSlow,
          [this](const auto& r, const auto&) { return DeleteCheckpoints(r); }),
      MakeWork<v1::FindCheckpoint>(
          kSlow,
          [this](const auto& r, const auto&) { return FindCheckpoint(r); }),
      MakeWork<v1::ReadForServer>(kSlow,
                                  [this](const auto& r, const auto&) {
                                    ++reads_for_servers_;
                                    return r.has_initial()
                                               ? ReadWarmStart(r.initial())
                                               : ReadSlices(r.read());
                                  }),
      MakeWork<v1::WriteSummary>(
          kFast, [](const auto&, const auto&) { return IoResult{}; }),
      MakeWork<v1::WriteResult>(kFast,
                                [this](const auto& r, const auto&) {
                                  results_.push_back(r);
                                  return IoResult{};
                                }),
  };
}

std::vector<SimStorage::Work> SimStorage::ShardWorks() {
  return {
      MakeWork<v1::WriteShard>(kSlow,
                               [this](const auto& r, const auto& payload) {
                                 return WriteShard(r, payload);
                               }),
      MakeWork<v1::ReadSlices>(kSlow,
                               [this](const auto& r, auto& memory) {
                                 if (!IsBlind()) {
                                   IoResult result = ReadSlices(r);
                                   if (result.status.ok())
                                     PutInto(r, std::move(memory), &result);
                                   return result;
                                 }
                                 auto unseen =
                                     std::make_unique<v1::ReadSlicesResult>();
                                 unseen->set_unseen(true);
                                 return Done(std::move(unseen));
                               }),
      MakeWork<v1::ReadWarmStart>(
          kSlow,
          [this](const auto& r, const auto&) {
            if (!IsBlind()) return ReadWarmStart(r);
            auto unseen = std::make_unique<v1::ReadWarmStartResult>();
            unseen->set_unseen(true);
            return Done(std::move(unseen));
          }),
  };
}

void SimStorage::ServeCoordinator(PeerId self, Simulation* simulation) {
  Serve(self, CoordinatorWorks(), simulation);
}

void SimStorage::ServeShard(PeerId self, Simulation* simulation) {
  Serve(self, ShardWorks(), simulation);
}

absl::optional<uint64_t> SimStorage::first_take_over() const {
  for (const v1::LogEntry& entry : log_) {
    if (entry.has_input_left()) return entry.configuration().version().term();
  }
  return absl::nullopt;
}

IoResult SimStorage::ReadLog() const {
  auto result = std::make_unique<v1::ReadLogResult>();
  for (const v1::LogEntry& entry : log_) *result->add_entries() = entry;
  return Done(std::move(result));
}

IoResult SimStorage::AppendLog(const v1::AppendLog& request) {
  const uint64_t next = log_.size() + 1;
  if (request.entry().number() != next) {
    return Failed(absl::AbortedError(
        absl::StrCat("entry ", request.entry().number(),
                     " was to be appended; the next is ", next)));
  }
  log_.push_back(request.entry());
  finished_ |= request.entry().has_finished();
  return {};
}

IoResult SimStorage::PrepareCheckpoint(const v1::PrepareCheckpoint& request) {
  auto result = std::make_unique<v1::PrepareCheckpointResult>();
  result->set_directory(PreparedPathOf(request.snapshot()));
  result->set_nonce(kNonce);
  files_[result->directory()].clear();
  return Done(std::move(result));
}

IoResult SimStorage::WriteShard(const v1::WriteShard& request,
                                const BufferChain& payload) {
  const auto directory = files_.find(request.directory());
  if (directory == files_.end()) {
    return Failed(absl::NotFoundError(
        absl::StrCat("no directory '", request.directory(), "'")));
  }
  if (request.nonce() != 0 && blind_ > 0 && blind_random_->Chance(blind_)) {
    auto unseen = std::make_unique<v1::WriteShardResult>();
    *unseen->mutable_file() = request.file();
    unseen->set_unseen(true);
    v1::WriteShard seen = request;
    seen.clear_nonce();
    IoResult result = Done(std::move(unseen));
    const std::string text = FileText(seen, payload);
    // In pieces, as a header and blocks are.
    result.payload = {Buffer::Copy(text.substr(0, text.size() / 3)),
                      Buffer::Copy(text.substr(text.size() / 3))};
    return result;
  }
  Tensors tensors;
  ChainReader reader(payload);
  uint64_t bytes = 0;
  for (const v1::WriteShard::Tensor& tensor : request.tensors()) {
    Tensor written = {std::string(tensor.bytes(), '\0'),
                      {tensor.shape().begin(), tensor.shape().end()},
                      tensor.dtype()};
    std::string& value = written.bytes;
    uint64_t size = ElementBytes(tensor.dtype());
    for (const uint64_t dimension : tensor.shape()) size *= dimension;
    if (size != tensor.bytes() ||
        !reader.Read(absl::MakeSpan(reinterpret_cast<std::byte*>(value.data()),
                                    value.size())) ||
        !tensors.emplace(tensor.name(), std::move(written)).second) {
      return Failed(absl::InvalidArgumentError(
          absl::StrCat("tensor '", tensor.name(), "' comes twice or has not ",
                       size, " bytes")));
    }
    bytes += tensor.bytes();
  }
  if (reader.remaining() != 0) {
    return Failed(absl::InvalidArgumentError("bytes of no tensor"));
  }
  auto result = std::make_unique<v1::WriteShardResult>();
  *result->mutable_file() = request.file();
  result->mutable_file()->set_bytes(bytes);
  result->mutable_file()->set_crc32c(CrcOf(tensors));
  directory->second[request.file().name()] = std::move(tensors);
  return Done(std::move(result));
}

IoResult SimStorage::WriteFetched(const v1::WriteFetched& request,
                                  const BufferChain& payload) {
  const std::string path =
      absl::StrCat(request.directory(), "/", request.name());
  if (request.offset() == 0) fetching_[path].clear();
  std::string& text = fetching_[path];
  if (text.size() != request.offset()) {
    return Failed(absl::FailedPreconditionError(
        absl::StrCat("bytes from ", request.offset(), " of '", path,
                     "' were to be written; it has ", text.size())));
  }
  text += FlattenForTest(payload);
  auto result = std::make_unique<v1::WriteFetchedResult>();
  result->set_bytes(text.size());
  if (text.size() == request.total()) {
    const size_t head_end = 8 + std::stoul(text.substr(0, 8));
    v1::WriteShard write;
    if (!write.ParseFromString(text.substr(8, head_end - 8)) ||
        write.directory() != request.directory() ||
        write.file().name() != request.name()) {
      return Failed(
          absl::InvalidArgumentError(absl::StrCat("'", path, "' is no file")));
    }
    IoResult written = WriteShard(write, {Buffer::Copy(text.substr(head_end))});
    if (!written.status.ok()) return written;
    result->set_crc32c(static_cast<const v1::WriteShardResult&>(*written.head)
                           .file()
                           .crc32c());
    ++fetched_files_;
    fetching_.erase(path);
  }
  return Done(std::move(result));
}

absl::Status SimStorage::CheckBase(const v1::ShardFile& file) const {
  if (!file.has_base()) return absl::OkStatus();
  const v1::BaseFile& base = file.base();
  const std::string path = absl::StrCat("checkpoints/", base.directory());
  const auto manifest =
      visible_.find({base.snapshot().term(), base.snapshot().counter()});
  if (manifest != visible_.end() && path == PathOf(base.snapshot())) {
    for (const v1::ShardFile& known : manifest->second.files()) {
      if (known.name() == base.name() && known.crc32c() == base.crc32c() &&
          known.bytes() == base.bytes() && !known.has_base()) {
        return absl::OkStatus();
      }
    }
  }
  return absl::DataLossError(
      absl::StrCat("file '", file.name(), "' has for its base '", base.name(),
                   "' in '", base.directory(), "', which is not there"));
}

IoResult SimStorage::CommitCheckpoint(const v1::CommitCheckpoint& request) {
  const v1::Manifest& manifest = request.manifest();
  const auto prepared = files_.find(request.directory());
  if (prepared == files_.end()) {
    return Failed(absl::NotFoundError(
        absl::StrCat("no directory '", request.directory(), "'")));
  }
  auto result = std::make_unique<v1::CommitCheckpointResult>();
  for (const v1::ShardFile& file : manifest.files()) {
    const auto found = prepared->second.find(file.name());
    if (found == prepared->second.end() ||
        CrcOf(found->second) != file.crc32c()) {
      return Failed(absl::DataLossError(
          absl::StrCat("file '", file.name(), "' is not what was written")));
    }
    const absl::Status base = CheckBase(file);
    if (!base.ok()) return Failed(base);
    result->set_bytes(result->bytes() + file.bytes());
  }
  result->set_path(PathOf(manifest.snapshot()));
  files_[result->path()] = std::move(prepared->second);
  files_.erase(prepared);
  committed_.push_back(manifest);
  visible_[{manifest.snapshot().term(), manifest.snapshot().counter()}] =
      manifest;
  std::vector<CheckpointSummary> summaries;
  for (const auto& [number, there] : visible_) {
    summaries.push_back(Summarize(there));
  }
  for (const v1::SnapshotNumber& old :
       ToRetire(request.retention(), summaries)) {
    *result->add_to_retire() = old;
    to_retire_.insert({old.term(), old.counter()});
  }
  return Done(std::move(result));
}

IoResult SimStorage::DeleteCheckpoints(const v1::DeleteCheckpoints& request) {
  auto result = std::make_unique<v1::DeleteCheckpointsResult>();
  for (const v1::SnapshotNumber& old : request.snapshots()) {
    const bool is_retired =
        std::any_of(log_.begin(), log_.end(), [&](const v1::LogEntry& entry) {
          return entry.has_retired() && entry.retired() == old;
        });
    const auto found = visible_.find({old.term(), old.counter()});
    const bool is_newest =
        found != visible_.end() && std::next(found) == visible_.end();
    if (!is_retired || is_newest) {
      misuse_.Update(absl::InternalError(absl::StrCat(
          "checkpoint ", VersionName(old), " is deleted, and ",
          is_newest ? "is the newest" : "is not retired in the log")));
    }
    if (found != visible_.end()) visible_.erase(found);
    *result->add_deleted() = old;
  }
  return Done(std::move(result));
}

}  // namespace paramd
