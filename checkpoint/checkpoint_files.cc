#include "checkpoint/checkpoint_files.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "checkpoint/file.h"
#include "checkpoint/quantization.h"
#include "tensor/number_format.h"

namespace paramd {
namespace {

constexpr size_t kMaxOpenFiles = 64;

// How many bytes a number has that is read as a float32; 0: it is read as it
// is.
uint64_t BytesOfNarrow(absl::string_view dtype) {
  if (dtype == "I8") return 1;
  return dtype == "F16" || dtype == "BF16" ? 2 : 0;
}

// Numbers of those formats, from `element` of the tensor on.
void Widen(const TensorInfo& tensor, absl::Span<const std::byte> bytes,
           uint64_t element, const std::vector<float>& scales,
           absl::Span<float> out) {
  if (tensor.dtype != "I8") {
    DecodeNumbers(
        tensor.dtype == "F16" ? NumberFormat::kFp16 : NumberFormat::kBf16,
        bytes.data(), out.size(), out.data());
    return;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(static_cast<int8_t>(bytes[i])) *
             scales[(element + i) % scales.size()];
  }
}

}  // namespace

std::string CheckpointFiles::PathOf(const File& file) const {
  if (file.directory.empty()) return absl::StrCat(directory_, "/", file.name);
  return absl::StrCat(DirectoryOf(directory_), "/", file.directory, "/",
                      file.name);
}

absl::StatusOr<const TensorInfo*> CheckpointFiles::Find(
    const File& file, const std::string& tensor) {
  ASSIGN_OR_RETURN(const SafetensorsFile* const open, Open(file));
  const TensorInfo* const info = open->Find(tensor);
  if (info != nullptr && BytesOfNarrow(info->dtype) > 0 &&
      (info->dtype == "BF16" || open->metadata().count(kQuantizationKey) > 0)) {
    widened_ = *info;
    widened_.dtype = "F32";
    return &widened_;
  }
  if (info != nullptr) return info;
  return absl::DataLossError(
      absl::StrCat("'", PathOf(file), "' has no tensor '", tensor, "'"));
}

absl::Status CheckpointFiles::ReadSeen(const File& file,
                                       const std::string& tensor,
                                       uint64_t offset,
                                       absl::Span<std::byte> out, Seen seen) {
  ASSIGN_OR_RETURN(const SafetensorsFile* const open, Open(file));
  const TensorInfo& info = *open->Find(tensor);
  const uint64_t begin = open->data_begin() + info.begin;
  const uint64_t width = BytesOfNarrow(info.dtype);
  if (width == 0) {
    RETURN_IF_ERROR(open->ReadInto(info, offset, out));
    seen(begin + offset, out);
    return absl::OkStatus();
  }
  CHECK(offset % sizeof(float) == 0 && out.size() % sizeof(float) == 0,
        "whole numbers are read of a tensor that is widened");
  static const auto* const kNone = new std::vector<float>();
  const std::vector<float>* scales = kNone;
  if (info.dtype == "I8") {
    ASSIGN_OR_RETURN(scales, ScalesOf(*open, PathOf(file), info, seen));
  }
  const uint64_t element = offset / sizeof(float);
  std::vector<std::byte> narrow(out.size() / sizeof(float) * width);
  RETURN_IF_ERROR(
      open->ReadInto(info, element * width, absl::MakeSpan(narrow)));
  seen(begin + element * width, narrow);
  std::vector<float> wide(out.size() / sizeof(float));
  Widen(info, narrow, element, *scales, absl::MakeSpan(wide));
  std::memcpy(out.data(), wide.data(), out.size());
  return absl::OkStatus();
}

absl::StatusOr<const std::vector<float>*> CheckpointFiles::ScalesOf(
    const SafetensorsFile& file, const std::string& path,
    const TensorInfo& tensor, Seen seen) {
  const auto [known, is_new] =
      scales_.try_emplace(std::make_pair(path, tensor.name));
  std::vector<float>& scales = known->second;
  if (!is_new && !scales.empty()) return &scales;
  const TensorInfo* const found = file.Find(ScalesTensor(tensor.name));
  const uint64_t last = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (found == nullptr || found->dtype != "F32" || found->shape.size() != 1 ||
      found->shape[0] == 0 ||
      (found->shape[0] != 1 && found->shape[0] != last)) {
    return absl::DataLossError(absl::StrCat(
        "'", path, "' has no scales of the integers '", tensor.name, "'"));
  }
  std::vector<float> read(found->shape[0]);
  const auto bytes = AsWritableBytes(absl::MakeSpan(read));
  RETURN_IF_ERROR(file.ReadInto(*found, 0, bytes));
  seen(file.data_begin() + found->begin, bytes);
  scales = std::move(read);
  return &scales;
}

absl::StatusOr<const SafetensorsFile*> CheckpointFiles::Open(const File& file) {
  const std::string path = PathOf(file);
  auto found = open_.find(path);
  if (found == open_.end()) {
    if (open_.size() >= kMaxOpenFiles) open_.clear();
    ASSIGN_OR_RETURN(auto opened, SafetensorsFile::Open(path));
    found = open_.emplace(path, std::move(opened)).first;
  }
  return found->second.get();
}

}  // namespace paramd
