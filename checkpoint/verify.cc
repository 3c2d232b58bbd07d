#include "checkpoint/verify.h"

#include <algorithm>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

#include "base/crc32c.h"
#include "base/status_macros.h"
#include "checkpoint/file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
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

absl::Status VerifyFile(const std::string& directory,
                        const v1::ShardFile& file) {
  const std::string path = absl::StrCat(directory, "/", file.name());
  ASSIGN_OR_RETURN(const FileSum sum, SumFile(path));
  if (sum.bytes != file.bytes()) {
    return absl::DataLossError(absl::StrCat("'", path, "' has ", sum.bytes,
                                            " bytes; the manifest says ",
                                            file.bytes()));
  }
  if (sum.crc32c != file.crc32c()) {
    return absl::DataLossError(
        absl::StrFormat("'%s' has the crc32c %08x; the manifest says %08x",
                        path, sum.crc32c, file.crc32c()));
  }
  return absl::OkStatus();
}

absl::Status VerifyTensors(const std::string& directory,
                           const v1::ShardFile& file, const SliceIndex& index) {
  const std::string path = absl::StrCat(directory, "/", file.name());
  ASSIGN_OR_RETURN(const auto open, SafetensorsFile::Open(path));
  for (const v1::SavedSlice& slice : file.slices()) {
    const auto check = [&](const std::string& name) -> absl::Status {
      const TensorInfo* const tensor = open->Find(name);
      if (tensor == nullptr) {
        return absl::DataLossError(
            absl::StrCat("'", path, "' has no tensor '", name, "'"));
      }
      return CheckSavedTensor(*tensor, *index.Find(slice.variable())->variable,
                              slice.row_begin(), slice.row_end());
    };
    RETURN_IF_ERROR(check(slice.values_tensor()));
    for (const auto& [slot, tensor] : slice.slot_tensors()) {
      RETURN_IF_ERROR(check(tensor));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string FormatCheckpointName(const v1::Version& snapshot, uint64_t step) {
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

absl::Status VerifyFiles(const std::string& directory,
                         const v1::Manifest& manifest) {
  ASSIGN_OR_RETURN(const SliceIndex index, SliceIndex::Create(manifest));
  for (const v1::ShardFile& file : manifest.files()) {
    RETURN_IF_ERROR(VerifyFile(directory, file));
    RETURN_IF_ERROR(VerifyTensors(directory, file, index));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Manifest> VerifyCheckpoint(const std::string& directory) {
  ASSIGN_OR_RETURN(v1::Manifest manifest, ReadManifest(directory));
  const auto name = ParseCheckpointName(
      absl::string_view(directory).substr(directory.rfind('/') + 1));
  if (name.has_value() && name->snapshot != manifest.snapshot()) {
    return absl::DataLossError(absl::StrCat("'", directory, "' holds snapshot ",
                                            VersionName(manifest.snapshot())));
  }
  RETURN_IF_ERROR(VerifyFiles(directory, manifest));
  return manifest;
}

uint64_t CheckpointBytes(const v1::Manifest& manifest) {
  uint64_t bytes = 0;
  for (const v1::ShardFile& file : manifest.files()) bytes += file.bytes();
  return bytes;
}

}  // namespace paramd
