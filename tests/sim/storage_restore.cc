// What is read of checkpoints, and what may be wrong with them by then.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "checkpoint/read_buffers.h"
#include "checkpoint/read_target.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/slice_reader.h"
#include "checkpoint/warm_start.h"
#include "proto/refusal.h"
#include "tensor/shape.h"
#include "tests/sim/storage.h"

namespace paramd {
namespace {

template <typename Tensors>
const std::string& TensorOf(const Tensors& named, const std::string& slot) {
  static const std::string none;
  if (slot.empty()) return named.values_tensor();
  const auto tensor = named.slot_tensors().find(slot);
  return tensor == named.slot_tensors().end() ? none : tensor->second;
}

template <typename Tensors>
uint64_t SizeOf(const Tensors& tensors) {
  uint64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += tensor.bytes.size();
  return bytes;
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

}  // namespace

void SimStorage::Unreadable(double chance, RandomStream* random) {
  unreadable_ = chance;
  unreadable_random_ = random;
}

bool SimStorage::IsUnreadable() {
  if (unreadable_ == 0 || !unreadable_random_->Chance(unreadable_))
    return false;
  ++unread_;
  return true;
}

IoResult SimStorage::FindCheckpoint(const v1::FindCheckpoint& request) {
  auto result = std::make_unique<v1::FindCheckpointResult>();
  bool is_damaged = false;
  bool may_pass = false;
  for (auto it = visible_.rbegin(); it != visible_.rend(); ++it) {
    const bool is_retired =
        std::any_of(request.retired().begin(), request.retired().end(),
                    [&](const v1::SnapshotNumber& version) {
                      return version == it->second.snapshot();
                    });
    if (is_retired) continue;
    const bool passed_over =
        std::any_of(request.damaged().begin(), request.damaged().end(),
                    [&](const v1::FindCheckpoint::Damaged& damaged) {
                      return damaged.snapshot() == it->second.snapshot();
                    });
    is_damaged |= passed_over;
    if (passed_over) continue;
    if (IsUnreadable()) {
      may_pass = true;
      continue;
    }
    MayDamage(it->second, damage_.when_found);
    const auto& files = it->second.files();
    const std::string path = PathOf(it->second.snapshot());
    // The chief looks at sizes, and leaves sums to those who read.
    if (!std::all_of(files.begin(), files.end(), [&](const auto& file) {
          return CheckFile(path, file, /*sum=*/false).ok();
        })) {
      is_damaged = true;
      continue;
    }
    result->set_path(path);
    *result->mutable_manifest() = it->second;
    break;
  }
  if (may_pass && !result->has_manifest()) {
    return Failed(absl::UnavailableError("no checkpoint can be read now"));
  }
  if (is_damaged && !result->has_manifest()) {
    return Failed(absl::DataLossError("no checkpoint verifies"));
  }
  if (!result->has_manifest() && request.has_warm_start()) {
    *result->mutable_warm_start() = request.warm_start();
  }
  IoResult done;
  done.head = std::move(result);
  return done;
}

class SimStorage::Source : public TensorSource {
 public:
  Source(const SimStorage& storage, std::string path)
      : storage_(storage), path_(std::move(path)) {}

  absl::StatusOr<const TensorInfo*> Find(const File& file,
                                         const std::string& name) override {
    const Tensor* const tensor = TensorIn(file, name);
    if (tensor == nullptr) {
      return absl::DataLossError(
          absl::StrCat("file '", file.name, "' has no tensor '", name, "'"));
    }
    uint64_t bytes = ElementBytes(tensor->dtype);
    for (const uint64_t dimension : tensor->shape) bytes *= dimension;
    if (bytes != tensor->bytes.size()) {
      return absl::DataLossError(
          absl::StrCat("file '", file.name, "' ends inside '", name, "'"));
    }
    found_ = {name, std::string(SafetensorsDType(tensor->dtype)), tensor->shape,
              0, bytes};
    return &found_;
  }

  absl::Status Read(const File& file, const std::string& name, uint64_t offset,
                    absl::Span<std::byte> out) override {
    std::memcpy(out.data(), TensorIn(file, name)->bytes.data() + offset,
                out.size());
    return absl::OkStatus();
  }

 private:
  const Tensor* TensorIn(const File& file, const std::string& name) const {
    const Tensors* const tensors = storage_.FileNow(
        file.directory.empty() ? path_
                               : absl::StrCat("checkpoints/", file.directory),
        file.name);
    if (tensors == nullptr) return nullptr;
    const auto found = tensors->find(name);
    return found == tensors->end() ? nullptr : &found->second;
  }

  const SimStorage& storage_;
  const std::string path_;
  TensorInfo found_;
};

IoResult SimStorage::ReadSlices(const v1::ReadSlices& request) {
  const auto manifest =
      std::find_if(visible_.begin(), visible_.end(), [&](const auto& entry) {
        return PathOf(entry.second.snapshot()) == request.path();
      });
  if (manifest == visible_.end()) {
    return Failed(absl::NotFoundError(
        absl::StrCat("no checkpoint '", request.path(), "'")));
  }
  if (IsUnreadable()) {
    return Failed(absl::UnavailableError(
        absl::StrCat("cannot read '", request.path(), "': stale file handle")));
  }
  const auto index = SliceIndex::Create(manifest->second);
  if (!index.ok()) return Failed(index.status());
  for (const v1::ShardFile& file : manifest->second.files()) {
    const absl::Status base = CheckBase(file);
    if (!base.ok()) return Failed(base);
    based_reads_ += file.has_base() ? 1 : 0;
  }
  if (request.first() && request.check().alone()) {
    MayDamage(manifest->second, damage_.when_read);
  }
  const absl::Status checked = CheckShare(request, manifest->second);
  if (!checked.ok()) {
    ++damage_found_;
    found_alone_ += request.check().alone() ? 1 : 0;
    return Failed(checked);
  }
  auto head = std::make_unique<v1::ReadSlicesResult>();
  IoResult result;
  Source source(*this, request.path());
  ReadBuffers buffers;
  ChainTarget target(&buffers, &result.payload);
  result.status =
      paramd::ReadSlices(request, *index, &source, head.get(), &target);
  if (!result.status.ok()) return Failed(result.status);
  head->mutable_manifest()->set_run_id(manifest->second.run_id());
  if (request.check().of() == 0) *head->mutable_manifest() = manifest->second;
  result.head = std::move(head);
  return result;
}

IoResult SimStorage::ReadWarmStart(const v1::ReadWarmStart& request) {
  if (trained_ == nullptr) {
    return Failed(absl::NotFoundError("there is nothing to begin with"));
  }
  if (IsUnreadable()) {
    return Failed(absl::UnavailableError(
        "cannot read what the job begins with: stale file handle"));
  }
  ++trained_reads_;
  auto head = std::make_unique<v1::ReadWarmStartResult>();
  IoResult result;
  result.status = paramd::ReadWarmStart(request, trained_.get(), head.get(),
                                        &result.payload);
  if (!result.status.ok()) return Failed(result.status);
  result.head = std::move(head);
  return result;
}

bool SimStorage::IsWhole(const v1::Manifest& manifest) const {
  const std::string path = PathOf(manifest.snapshot());
  return std::all_of(
      manifest.files().begin(), manifest.files().end(), [&](const auto& file) {
        return CheckBase(file).ok() && CheckFile(path, file, /*sum=*/true).ok();
      });
}

void SimStorage::MayDamage(const v1::Manifest& manifest, double chance) {
  if (chance == 0 || !damage_.random->Chance(chance)) return;
  const auto newest = visible_.find(
      {manifest.snapshot().term(), manifest.snapshot().counter()});
  const bool one_is_left =
      std::any_of(visible_.begin(), newest, [this](const auto& older) {
        return !to_retire_.contains(older.first) && IsWhole(older.second);
      });
  const std::string path = PathOf(manifest.snapshot());
  if (!one_is_left || damaged_.contains(path)) return;
  const auto& [name, tensors] = *std::next(
      files_.at(path).begin(),
      static_cast<int64_t>(damage_.random->Below(files_.at(path).size())));
  if (tensors.empty()) return;  // A server without slices.
  Tensors& damaged = damaged_[path][name] = tensors;
  std::string& tensor =
      std::next(damaged.begin(),
                static_cast<int64_t>(damage_.random->Below(damaged.size())))
          ->second.bytes;
  const uint64_t byte = damage_.random->Below(tensor.size());
  if (damage_.random->Chance(0.2)) {
    tensor.resize(byte);
  } else {
    tensor[byte] =
        static_cast<char>(tensor[byte] ^ (1 << damage_.random->Below(8)));
  }
}

const SimStorage::Tensors* SimStorage::FileNow(const std::string& directory,
                                               const std::string& name) const {
  for (const Files* files : {&damaged_, &files_}) {
    const auto there = files->find(directory);
    if (there == files->end()) continue;
    const auto file = there->second.find(name);
    if (file != there->second.end()) return &file->second;
  }
  return nullptr;
}

absl::Status SimStorage::CheckFile(const std::string& path,
                                   const v1::ShardFile& expected,
                                   bool sum) const {
  const auto check = [&](const std::string& directory, const auto& file) {
    const Tensors* const now = FileNow(directory, file.name());
    if (now != nullptr &&
        SizeOf(*now) == SizeOf(files_.at(directory).at(file.name())) &&
        (!sum || CrcOf(*now) == file.crc32c())) {
      return absl::OkStatus();
    }
    return absl::DataLossError(
        absl::StrCat("'", directory, "/", file.name(), "' is damaged"));
  };
  RETURN_IF_ERROR(check(path, expected));
  return expected.has_base()
             ? check(PathOf(expected.base().snapshot()), expected.base())
             : absl::OkStatus();
}

absl::Status SimStorage::CheckShare(const v1::ReadSlices& request,
                                    const v1::Manifest& manifest) const {
  const v1::ReadSlices::Share& share = request.check();
  const v1::Manifest sources = SourcesOf(request, manifest);
  const auto is_source = [&sources](const v1::ShardFile& file) {
    return std::any_of(
        sources.files().begin(), sources.files().end(),
        [&file](const auto& source) { return source.name() == file.name(); });
  };
  for (int f = 0; f < manifest.files_size(); ++f) {
    const v1::ShardFile& file = manifest.files(f);
    const bool is_own =
        request.last() && share.of() != 0 && f % share.of() == share.index();
    if (is_own || (share.alone() && is_source(file))) {
      RETURN_IF_ERROR(CheckFile(request.path(), file, /*sum=*/true));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> SimStorage::ReadSlice(const std::string& path,
                                                  const v1::ShardFile& file,
                                                  const v1::SavedSlice& saved,
                                                  const std::string& slot,
                                                  uint64_t bytes,
                                                  uint64_t block_bytes) const {
  const auto find = [&](const std::string& directory, const std::string& name,
                        const std::string& tensor,
                        uint64_t size) -> absl::StatusOr<std::string> {
    const auto written = files_.find(directory);
    if (written != files_.end() && written->second.contains(name)) {
      const Tensors& tensors = written->second.at(name);
      const auto found = tensors.find(tensor);
      if (found != tensors.end() && found->second.bytes.size() == size) {
        return found->second.bytes;
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

absl::StatusOr<std::string> SimStorage::ReadSlot(const v1::Manifest& manifest,
                                                 const std::string& variable,
                                                 const std::string& slot,
                                                 bool by_row) const {
  RowShape shape = {0, 1};
  BlockCut cut = BlockCut::OfDense();
  for (const v1::Variable& known : manifest.variables()) {
    if (known.name() != variable) continue;
    ASSIGN_OR_RETURN(shape, ToRowShape(known.shape()));
    cut = BlockCut::Of(known.sparse(), shape.row_elements);
  }
  const uint64_t row_bytes =
      by_row ? sizeof(uint64_t) : shape.row_elements * sizeof(float);
  const uint64_t block_bytes =
      by_row ? cut.elements() / shape.row_elements * row_bytes
             : cut.elements() * sizeof(float);
  std::string bytes(shape.rows * row_bytes, '\0');
  uint64_t found = 0;
  for (const v1::ShardFile& file : manifest.files()) {
    for (const v1::SavedSlice& saved : file.slices()) {
      if (saved.variable() != variable) continue;
      const uint64_t rows = saved.row_end() - saved.row_begin();
      ASSIGN_OR_RETURN(const std::string slice,
                       ReadSlice(PathOf(manifest.snapshot()), file, saved, slot,
                                 rows * row_bytes, block_bytes));
      if (saved.row_end() > shape.rows) break;
      bytes.replace(saved.row_begin() * row_bytes, slice.size(), slice);
      found += rows;
    }
  }
  if (shape.rows == 0 || found != shape.rows) {
    return absl::DataLossError(absl::StrCat("the checkpoint has ", found,
                                            " of ", shape.rows, " rows of '",
                                            variable, "'"));
  }
  return bytes;
}

absl::StatusOr<std::vector<float>> SimStorage::ReadVariable(
    const v1::Manifest& manifest, const std::string& variable,
    const std::string& slot) const {
  ASSIGN_OR_RETURN(const std::string bytes,
                   ReadSlot(manifest, variable, slot, /*by_row=*/false));
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

absl::StatusOr<std::vector<uint64_t>> SimStorage::ReadRowNumbers(
    const v1::Manifest& manifest, const std::string& variable,
    const std::string& slot) const {
  ASSIGN_OR_RETURN(const std::string bytes,
                   ReadSlot(manifest, variable, slot, /*by_row=*/true));
  std::vector<uint64_t> numbers(bytes.size() / sizeof(uint64_t));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

}  // namespace paramd
