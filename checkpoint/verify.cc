#include "checkpoint/verify.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

#include "base/crc32c.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint_files.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/slice_reader.h"
#include "proto/refusal.h"
#include "tensor/buffer.h"

namespace paramd {
namespace {

// Digits alone, as many as printed at least.
bool TakeNumber(absl::string_view text, size_t least_digits, uint64_t* number) {
  return text.size() >= least_digits &&
         text.find_first_not_of("0123456789") == absl::string_view::npos &&
         absl::SimpleAtoi(text, number);
}

// Whether the tensors that `file` and its base have of the slices are there.
absl::Status CheckTensors(const v1::ShardFile& file, const SliceIndex& index,
                          CheckpointFiles* files) {
  const TensorSource::File whole = WholeSlicesOf(file);
  const TensorSource::File own = {"", file.name()};
  // A file without slices is one all the same.
  RETURN_IF_ERROR(files->Open(own).status());
  for (const v1::SavedSlice& slice : file.slices()) {
    const v1::Variable& variable = *index.Find(slice.variable())->variable;
    const auto check = [&](const std::string& slot,
                           const std::string& tensor) -> absl::Status {
      ASSIGN_OR_RETURN(const TensorInfo* const info,
                       files->Find(whole, tensor));
      return CheckSavedTensor(*info, variable, slot, slice.row_begin(),
                              slice.row_end());
    };
    RETURN_IF_ERROR(check("", slice.values_tensor()));
    for (const auto& [slot, tensor] : slice.slot_tensors()) {
      RETURN_IF_ERROR(check(slot, tensor));
    }
    for (const v1::ChangedBlocks& changed : slice.changed()) {
      const auto check_changed =
          [&](const std::string& slot,
              const std::string& tensor) -> absl::Status {
        ASSIGN_OR_RETURN(const TensorInfo* const info,
                         files->Find(own, tensor));
        return CheckChangedTensor(*info, variable, slot, slice, changed);
      };
      RETURN_IF_ERROR(check_changed("", changed.values_tensor()));
      for (const auto& [slot, tensor] : changed.slot_tensors()) {
        RETURN_IF_ERROR(check_changed(slot, tensor));
      }
    }
  }
  return absl::OkStatus();
}

// Whether the index is what the files make it.
absl::Status CheckTensorIndex(const std::string& directory,
                              const v1::Manifest& manifest) {
  ASSIGN_OR_RETURN(const auto expected, EncodeTensorIndex(directory, manifest));
  if (!expected.has_value()) return absl::OkStatus();
  const std::string path = absl::StrCat(directory, "/", kTensorIndexFile);
  const auto found = ReadWholeFile(path, kMaxManifestBytes);
  if (!found.ok()) return found.status();
  if (*found == *expected) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "'", path, "' does not list the tensors of the files beside it"));
}

// The directory in which the checkpoints lie; nothing if `path` is itself one.
absl::optional<std::string> RootOf(const std::string& path) {
  const std::string manifest = absl::StrCat(path, "/", kManifestFile);
  const std::string name = path.substr(path.rfind('/') + 1);
  if (ParseCheckpointName(name).has_value() ||
      ReadableFile::Open(manifest).ok()) {
    return absl::nullopt;
  }
  const std::string below = absl::StrCat(path, "/checkpoints");
  return IsDirectory(below) ? below : path;
}

}  // namespace

std::string FormatCheckpointName(const v1::SnapshotNumber& snapshot,
                                 uint64_t step) {
  return absl::StrFormat("%06d-%08d.step-%d", snapshot.term(),
                         snapshot.counter(), step);
}

absl::optional<CheckpointName> ParseCheckpointName(absl::string_view name) {
  CheckpointName parsed;
  const size_t dash = name.find('-');
  const size_t dot = name.find('.');
  if (dash == absl::string_view::npos || dot == absl::string_view::npos ||
      dash > dot) {
    return absl::nullopt;
  }
  absl::string_view step = name.substr(dot);
  uint64_t term, counter;
  if (!absl::ConsumePrefix(&step, ".step-") ||
      !TakeNumber(name.substr(0, dash), 6, &term) ||
      !TakeNumber(name.substr(dash + 1, dot - dash - 1), 8, &counter) ||
      !TakeNumber(step, 1, &parsed.step)) {
    return absl::nullopt;
  }
  parsed.snapshot.set_term(term);
  parsed.snapshot.set_counter(counter);
  parsed.name = std::string(name);
  return parsed;
}

absl::StatusOr<std::vector<CheckpointName>> ListCheckpointNames(
    const std::string& root) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(root));
  std::vector<CheckpointName> found;
  for (const std::string& name : names) {
    auto parsed = ParseCheckpointName(name);
    if (parsed.has_value()) found.push_back(*std::move(parsed));
  }
  std::sort(found.begin(), found.end(),
            [](const CheckpointName& a, const CheckpointName& b) {
              if (a.snapshot != b.snapshot) return a.snapshot > b.snapshot;
              return a.step > b.step;
            });
  return found;
}

absl::StatusOr<v1::Manifest> ReadManifest(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", kManifestFile);
  ASSIGN_OR_RETURN(const std::string text,
                   ReadWholeFile(path, kMaxManifestBytes));
  ASSIGN_OR_RETURN(
      const std::string sum,
      ReadWholeFile(absl::StrCat(directory, "/", kManifestSumFile), 64));
  const uint32_t crc = Crc32c(AsBytes<char>({text.data(), text.size()}));
  if (sum != absl::StrFormat("%08x\n", crc)) {
    return absl::DataLossError(absl::StrFormat(
        "'%s' has the crc32c %08x; '%s' beside it says otherwise", path, crc,
        kManifestSumFile));
  }
  auto manifest = ParseManifest(text);
  if (manifest.ok()) return manifest;
  return absl::Status(
      manifest.status().code(),
      absl::StrCat("'", path, "': ", manifest.status().message()));
}

absl::Status CheckCheckpointName(const std::string& directory,
                                 const v1::Manifest& manifest) {
  const auto name = ParseCheckpointName(
      absl::string_view(directory).substr(directory.rfind('/') + 1));
  if (!name.has_value() || name->snapshot == manifest.snapshot()) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("'", directory, "' holds snapshot ",
                                          VersionName(manifest.snapshot())));
}

CheckpointVerifier::CheckpointVerifier(Options options)
    : options_(std::move(options)) {}

std::vector<absl::Status> CheckpointVerifier::Faults(
    const std::string& directory) {
  const auto manifest = ReadManifest(directory);
  if (!manifest.ok()) return {manifest.status()};
  std::vector<absl::Status> faults =
      FileFaults(directory, *manifest, /*all=*/true);
  const absl::Status named = CheckCheckpointName(directory, *manifest);
  if (!named.ok()) faults.push_back(named);
  // Of files that are not as they were there is nothing to be said.
  const absl::Status index = faults.empty()
                                 ? CheckTensorIndex(directory, *manifest)
                                 : absl::OkStatus();
  if (!index.ok()) faults.push_back(index);
  return faults;
}

absl::Status CheckpointVerifier::CheckFiles(const std::string& directory,
                                            const v1::Manifest& manifest) {
  const auto faults = FileFaults(directory, manifest, /*all=*/false);
  return faults.empty() ? absl::OkStatus() : faults.front();
}

std::vector<absl::Status> CheckpointVerifier::FileFaults(
    const std::string& directory, const v1::Manifest& manifest, bool all) {
  const auto index = SliceIndex::Create(manifest);
  if (!index.ok()) return {index.status()};
  CheckpointFiles files(directory);
  read_ = 0;
  total_ = 0;
  for (const v1::ShardFile& file : manifest.files()) {
    total_ += file.bytes();
    if (file.has_base() && options_.sums == Options::Sums::kAll)
      total_ += file.base().bytes();
  }
  std::vector<absl::Status> faults;
  for (const v1::ShardFile& file : manifest.files()) {
    absl::Status status =
        CheckFile(files.PathOf({"", file.name()}), file.bytes(), file.crc32c());
    if (status.ok() && file.has_base() &&
        options_.sums != Options::Sums::kOwn) {
      const absl::Status base =
          CheckFile(files.PathOf(WholeSlicesOf(file)), file.base().bytes(),
                    file.base().crc32c());
      if (!base.ok()) {
        status = absl::Status(
            base.code(),
            absl::StrCat("the base of '", file.name(), "': ", base.message()));
      }
    }
    if (status.ok()) status = CheckTensors(file, *index, &files);
    if (status.ok()) continue;
    faults.push_back(status);
    if (!all) break;
  }
  return faults;
}

absl::Status CheckpointVerifier::CheckFile(const std::string& path,
                                           uint64_t bytes, uint32_t crc32c) {
  if (options_.sums == Options::Sums::kNone) {
    ASSIGN_OR_RETURN(const auto file, ReadableFile::Open(path));
    return CheckSize(path, file->size(), bytes);
  }
  auto known = sums_.find(path);
  if (known == sums_.end()) {
    ASSIGN_OR_RETURN(const FileSum sum, SumFile(path, [this](uint64_t piece) {
                       read_ += piece;
                       if (options_.progress) options_.progress(read_, total_);
                     }));
    known = sums_.emplace(path, sum).first;
  } else {
    read_ += bytes;  // It counts as read again.
  }
  RETURN_IF_ERROR(CheckSize(path, known->second.bytes, bytes));
  return CheckSum(path, known->second.crc32c, crc32c);
}

absl::Status CheckSize(const std::string& path, uint64_t found,
                       uint64_t expected) {
  if (found == expected) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "'", path, "' has ", found, " bytes; the manifest says ", expected));
}

absl::Status CheckSum(const std::string& path, uint32_t found,
                      uint32_t expected) {
  if (found == expected) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrFormat("'%s' has the crc32c %08x; the manifest says %08x", path,
                      found, expected));
}

absl::Status VerifyFiles(const std::string& directory,
                         const v1::Manifest& manifest,
                         const CheckpointVerifier::Options& options) {
  return CheckpointVerifier(options).CheckFiles(directory, manifest);
}

absl::StatusOr<v1::Manifest> VerifyCheckpoint(
    const std::string& directory, const CheckpointVerifier::Options& options) {
  ASSIGN_OR_RETURN(v1::Manifest manifest, ReadManifest(directory));
  RETURN_IF_ERROR(CheckCheckpointName(directory, manifest));
  RETURN_IF_ERROR(VerifyFiles(directory, manifest, options));
  return manifest;
}

absl::StatusOr<std::vector<std::string>> CheckpointsAt(
    const std::string& path) {
  ASSIGN_OR_RETURN(const std::string absolute, AbsolutePath(path));
  const auto root = RootOf(absolute);
  if (!root.has_value()) return std::vector<std::string>{absolute};
  ASSIGN_OR_RETURN(const auto names, ListCheckpointNames(*root));
  std::vector<std::string> paths;
  for (const CheckpointName& name : names) {
    paths.push_back(absl::StrCat(*root, "/", name.name));
  }
  if (paths.empty()) {
    return absl::NotFoundError(absl::StrCat("no checkpoint in '", *root, "'"));
  }
  return paths;
}

absl::Status VerifyFileOfCheckpoint(const std::string& path) {
  const std::string directory = DirectoryOf(path);
  const auto beside = ListDirectory(directory);
  if (!beside.ok() || !std::binary_search(beside->begin(), beside->end(),
                                          std::string(kManifestFile))) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const v1::Manifest manifest, ReadManifest(directory));
  for (const v1::ShardFile& file : manifest.files()) {
    if (file.name() != path.substr(path.rfind('/') + 1)) continue;
    ASSIGN_OR_RETURN(const FileSum sum, SumFile(path));
    RETURN_IF_ERROR(CheckSize(path, sum.bytes, file.bytes()));
    return CheckSum(path, sum.crc32c, file.crc32c());
  }
  return absl::OkStatus();
}

std::string ModelKey(const v1::Manifest& manifest) {
  std::string text =
      absl::StrCat(manifest.run_id(), " ", manifest.snapshot().term(), ".",
                   manifest.snapshot().counter(), " ", manifest.global_step());
  for (const v1::ShardFile& file : manifest.files()) {
    absl::StrAppend(&text, "\n", file.name(), " ", file.bytes(), " ",
                    file.crc32c());
  }
  return absl::StrFormat("%016x", StableHash(text));
}

uint64_t CheckpointBytes(const v1::Manifest& manifest) {
  uint64_t bytes = 0;
  for (const v1::ShardFile& file : manifest.files()) bytes += file.bytes();
  return bytes;
}

absl::StatusOr<absl::optional<std::string>> EncodeTensorIndex(
    const std::string& directory, const v1::Manifest& manifest) {
  std::map<std::string, std::string> weight_map;
  uint64_t bytes = 0;
  for (const v1::ShardFile& file : manifest.files()) {
    if (file.has_base()) return absl::optional<std::string>();
    ASSIGN_OR_RETURN(const auto open, SafetensorsFile::Open(absl::StrCat(
                                          directory, "/", file.name())));
    for (const TensorInfo& tensor : open->tensors()) {
      weight_map[tensor.name] = file.name();
      bytes += tensor.end - tensor.begin;
    }
  }
  const nlohmann::json index = {{"metadata", {{"total_size", bytes}}},
                                {"weight_map", weight_map}};
  return absl::optional<std::string>(absl::StrCat(index.dump(2), "\n"));
}

}  // namespace paramd
