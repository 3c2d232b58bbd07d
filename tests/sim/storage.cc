#include "tests/sim/storage.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

#include "base/crc32c.h"
#include "base/status_macros.h"
#include "checkpoint/retention.h"
#include "proto/refusal.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

std::string PreparedPathOf(const v1::Version& snapshot) {
  return absl::StrCat(SimStorage::PathOf(snapshot), ".partial");
}

uint32_t CrcOf(const std::map<std::string, std::string>& tensors) {
  uint32_t crc = 0;
  for (const auto& [name, bytes] : tensors) {
    crc = Crc32c(
        absl::MakeConstSpan(reinterpret_cast<const std::byte*>(bytes.data()),
                            bytes.size()),
        crc);
  }
  return crc;
}

IoResult Failed(absl::Status status) {
  IoResult result;
  result.status = std::move(status);
  return result;
}

template <typename M>
IoResult Done(std::unique_ptr<M> head) {
  IoResult result;
  result.head = std::move(head);
  return result;
}

// What every directory's nonce is.
constexpr uint64_t kNonce = 17;

template <typename Tensors>
const std::string& TensorOf(const Tensors& named, const std::string& slot) {
  static const std::string none;
  if (slot.empty()) return named.values_tensor();
  const auto tensor = named.slot_tensors().find(slot);
  return tensor == named.slot_tensors().end() ? none : tensor->second;
}

// Of the files that have the wanted rows, what they list as lost.
v1::Manifest SourcesOf(const v1::ReadSlices& request,
                       const v1::Manifest& manifest) {
  v1::Manifest sources;
  sources.set_run_id(manifest.run_id());
  for (const v1::ShardFile& file : manifest.files()) {
    const auto has = [&file](const v1::ReadSlices::Want& want) {
      return std::any_of(file.slices().begin(), file.slices().end(),
                         [&want](const v1::SavedSlice& slice) {
                           return slice.variable() == want.variable() &&
                                  slice.row_begin() < want.row_end() &&
                                  want.row_begin() < slice.row_end();
                         });
    };
    if (!std::any_of(request.slices().begin(), request.slices().end(), has)) {
      continue;
    }
    v1::ShardFile* const source = sources.add_files();
    source->set_name(file.name());
    *source->mutable_lost() = file.lost();
    *source->mutable_slices() = file.slices();
  }
  return sources;
}

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

void SimStorage::Tear(const v1::WriteShard& request) {
  const auto directory = files_.find(request.directory());
  if (directory == files_.end()) return;
  Tensors& torn = directory->second[request.file().name()];
  torn.clear();
  if (request.tensors_size() > 0) {
    torn[request.tensors(0).name()] =
        std::string(request.tensors(0).bytes() / 2, '\0');
  }
}

std::string SimStorage::PathOf(const v1::Version& snapshot) {
  return absl::StrCat("checkpoints/", VersionName(snapshot));
}

std::vector<SimStorage::Work> SimStorage::CoordinatorWorks() {
  return {
      MakeWork<v1::ReadLog>(
          kFast, [this](const auto&, const auto&) { return ReadLog(); }),
      MakeWork<v1::AppendLog>(
          kFast, [this](const auto& r, const auto&) { return AppendLog(r); }),
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
                                    return ReadSlices(r.read());
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
      MakeWork<v1::ReadSlices>(
          kSlow,
          [this](const auto& r, const auto&) {
            if (blind_ == 0 || !blind_random_->Chance(blind_)) {
              return ReadSlices(r);
            }
            auto unseen = std::make_unique<v1::ReadSlicesResult>();
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
    std::string value(tensor.bytes(), '\0');
    uint64_t size = sizeof(float);
    for (const uint64_t dimension : tensor.shape()) size *= dimension;
    if (size != tensor.bytes() ||
        !reader.Read(absl::MakeSpan(reinterpret_cast<std::byte*>(value.data()),
                                    value.size())) ||
        !tensors.emplace(tensor.name(), std::move(value)).second) {
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
    IoResult written =
        WriteShard(write, {Buffer::Copy(text.substr(head_end))});
    if (!written.status.ok()) return written;
    result->set_crc32c(
        static_cast<const v1::WriteShardResult&>(*written.head)
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
  for (const v1::Version& old : ToRetire(request.retention(), summaries)) {
    *result->add_to_retire() = old;
  }
  return Done(std::move(result));
}

IoResult SimStorage::DeleteCheckpoints(const v1::DeleteCheckpoints& request) {
  auto result = std::make_unique<v1::DeleteCheckpointsResult>();
  for (const v1::Version& old : request.snapshots()) {
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

IoResult SimStorage::FindCheckpoint(const v1::FindCheckpoint& request) const {
  auto result = std::make_unique<v1::FindCheckpointResult>();
  for (auto it = visible_.rbegin(); it != visible_.rend(); ++it) {
    const bool passed_over =
        std::any_of(request.retired().begin(), request.retired().end(),
                    [&](const v1::Version& version) {
                      return version == it->second.snapshot();
                    }) ||
        std::any_of(request.damaged().begin(), request.damaged().end(),
                    [&](const v1::FindCheckpoint::Damaged& damaged) {
                      return damaged.snapshot() == it->second.snapshot();
                    });
    if (passed_over) continue;
    result->set_path(PathOf(it->second.snapshot()));
    *result->mutable_manifest() = it->second;
    break;
  }
  return Done(std::move(result));
}

IoResult SimStorage::ReadSlices(const v1::ReadSlices& request) {
  const auto manifest =
      std::find_if(visible_.begin(), visible_.end(), [&](const auto& entry) {
        return PathOf(entry.second.snapshot()) == request.path();
      });
  if (manifest == visible_.end()) {
    return Failed(absl::NotFoundError(
        absl::StrCat("no checkpoint '", request.path(), "'")));
  }
  auto head = std::make_unique<v1::ReadSlicesResult>();
  if (request.check().of() == 0) {
    *head->mutable_manifest() = manifest->second;
  } else {
    *head->mutable_manifest() = SourcesOf(request, manifest->second);
  }
  IoResult result;
  for (const v1::ShardFile& file : manifest->second.files()) {
    const absl::Status base = CheckBase(file);
    if (!base.ok()) return Failed(base);
    based_reads_ += file.has_base() ? 1 : 0;
  }
  for (const v1::ReadSlices::Want& want : request.slices()) {
    v1::ReadSlicesResult::Got* const got = head->add_slices();
    auto values = ReadRows(request.path(), manifest->second, want, "", got);
    if (!values.ok()) return Failed(values.status());
    result.payload.push_back(Buffer::Copy(*values));
    for (const std::string& slot : request.slots()) {
      auto slots =
          ReadRows(request.path(), manifest->second, want, slot, nullptr);
      if (!slots.ok()) return Failed(slots.status());
      result.payload.push_back(Buffer::Copy(*slots));
    }
  }
  result.head = std::move(head);
  return result;
}

absl::StatusOr<std::string> SimStorage::ReadSlice(
    const std::string& path, const v1::ShardFile& file,
    const v1::SavedSlice& saved, const std::string& slot,
    uint64_t bytes) const {
  const auto find = [&](const std::string& directory, const std::string& name,
                        const std::string& tensor,
                        uint64_t size) -> absl::StatusOr<std::string> {
    const auto files = files_.find(directory);
    if (files != files_.end() && files->second.contains(name)) {
      const Tensors& tensors = files->second.at(name);
      const auto found = tensors.find(tensor);
      if (found != tensors.end() && found->second.size() == size) {
        return found->second;
      }
    }
    return absl::DataLossError(absl::StrCat("file '", directory, "/", name,
                                            "' has no tensor '", tensor,
                                            "' of ", size, " bytes"));
  };
  const std::string& whole = TensorOf(saved, slot);
  if (!file.has_base()) return find(path, file.name(), whole, bytes);
  ASSIGN_OR_RETURN(std::string slice, find(PathOf(file.base().snapshot()),
                                           file.base().name(), whole, bytes));
  const uint64_t block_bytes = kBlockElements * sizeof(float);
  for (const v1::ChangedBlocks& changed : saved.changed()) {
    const uint64_t begin = changed.first_block() * block_bytes;
    const uint64_t end =
        std::min(begin + changed.blocks() * block_bytes, bytes);
    if (begin >= end) return absl::DataLossError("a run of no blocks");
    ASSIGN_OR_RETURN(
        const std::string run,
        find(path, file.name(), TensorOf(changed, slot), end - begin));
    slice.replace(begin, end - begin, run);
  }
  return slice;
}

absl::StatusOr<std::string> SimStorage::ReadRows(
    const std::string& path, const v1::Manifest& manifest,
    const v1::ReadSlices::Want& want, const std::string& slot,
    v1::ReadSlicesResult::Got* got) const {
  ASSIGN_OR_RETURN(const RowShape shape, ToRowShape(want.shape()));
  const uint64_t row_bytes = shape.row_elements * sizeof(float);
  std::string rows((want.row_end() - want.row_begin()) * row_bytes, '\0');
  uint64_t found = 0;
  for (const v1::ShardFile& file : manifest.files()) {
    for (const v1::SavedSlice& saved : file.slices()) {
      const uint64_t begin = std::max(saved.row_begin(), want.row_begin());
      const uint64_t end = std::min(saved.row_end(), want.row_end());
      if (saved.variable() != want.variable() || begin >= end) continue;
      ASSIGN_OR_RETURN(
          const std::string slice,
          ReadSlice(path, file, saved, slot,
                    (saved.row_end() - saved.row_begin()) * row_bytes));
      std::memcpy(
          rows.data() + (begin - want.row_begin()) * row_bytes,
          slice.data() + (begin - saved.row_begin()) * row_bytes,
          (end - begin) * row_bytes);
      found += end - begin;
      if (got == nullptr) continue;
      v1::ReadSlicesResult::Piece* const piece = got->add_pieces();
      piece->set_row_begin(begin);
      piece->set_row_end(end);
      *piece->mutable_saved() = saved;
    }
  }
  if (found != want.row_end() - want.row_begin()) {
    return absl::DataLossError(absl::StrCat(
        "the checkpoint has ", found, " of ", want.row_end() - want.row_begin(),
        " rows of '", want.variable(), "'"));
  }
  return rows;
}

absl::StatusOr<std::vector<float>> SimStorage::ReadVariable(
    const v1::Manifest& manifest, const std::string& variable,
    const std::string& slot) const {
  v1::ReadSlices::Want want;
  for (const v1::Variable& known : manifest.variables()) {
    if (known.name() != variable) continue;
    ASSIGN_OR_RETURN(const RowShape shape, ToRowShape(known.shape()));
    want.set_variable(variable);
    *want.mutable_shape() = known.shape();
    want.set_row_end(shape.rows);
  }
  ASSIGN_OR_RETURN(
      const std::string bytes,
      ReadRows(PathOf(manifest.snapshot()), manifest, want, slot, nullptr));
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace paramd
