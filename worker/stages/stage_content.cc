#include "worker/stages/stage_content.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/status_macros.h"

namespace paramd {
namespace {

constexpr uint64_t kContentAlignment = 64;
constexpr uint64_t kMostContentBytes = uint64_t{1} << 48;
constexpr int kMostDims = 8;

uint64_t PlaceAfter(uint64_t bytes) {
  return (bytes + kContentAlignment - 1) / kContentAlignment *
         kContentAlignment;
}

bool IsType(uint32_t dtype) {
  return dtype <= static_cast<uint32_t>(DType::kFloat16);
}

}  // namespace

void AddArray(DType dtype, absl::Span<const uint64_t> dims,
              StageArrays* arrays) {
  v1::StageArray* const array = arrays->Add();
  array->set_dtype(static_cast<uint32_t>(dtype));
  array->mutable_dims()->Add(dims.begin(), dims.end());
}

std::string ShapeOf(const v1::StageArray& array) {
  return absl::StrCat(IsType(array.dtype())
                          ? NameOf(static_cast<DType>(array.dtype()))
                          : "no type",
                      " [", absl::StrJoin(array.dims(), ", "), "]");
}

absl::StatusOr<std::vector<uint64_t>> ArrayBytes(const StageArrays& arrays) {
  std::vector<uint64_t> all;
  uint64_t together = 0;
  for (const v1::StageArray& array : arrays) {
    if (!IsType(array.dtype()) || array.dims_size() > kMostDims) {
      return absl::InvalidArgumentError(
          absl::StrCat("an array of type ", array.dtype(), " with ",
                       array.dims_size(), " dimensions"));
    }
    uint64_t bytes = SizeOf(static_cast<DType>(array.dtype()));
    for (const uint64_t dim : array.dims()) {
      const bool fits = dim == 0 || bytes < kMostContentBytes / dim;
      bytes = fits ? bytes * dim : kMostContentBytes;
    }
    together += std::min(bytes, kMostContentBytes);
    if (together >= kMostContentBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("arrays of ", kMostContentBytes,
                       " bytes and more: ", ShapeOf(array)));
    }
    all.push_back(bytes);
  }
  return all;
}

uint64_t ContentBytes(absl::Span<const uint64_t> array_bytes) {
  uint64_t bytes = 0;
  for (const uint64_t one : array_bytes) bytes = PlaceAfter(bytes) + one;
  return bytes;
}

std::vector<ConstTensor> ArraysIn(const StageArrays& arrays,
                                  absl::Span<const uint64_t> array_bytes,
                                  const Buffer& content) {
  std::vector<ConstTensor> all;
  uint64_t begin = 0;
  for (int i = 0; i < arrays.size(); ++i) {
    begin = PlaceAfter(begin);
    const v1::StageArray& array = arrays[i];
    all.push_back({content.bytes().data() + begin,
                   static_cast<DType>(array.dtype()),
                   Dims(array.dims().begin(), array.dims().end())});
    begin += array_bytes[i];
  }
  return all;
}

void StageContent::Add(DType dtype, absl::Span<const uint64_t> dims,
                       absl::Span<const std::byte> bytes) {
  AddArray(dtype, dims, &arrays_);
  const uint64_t begin = PlaceAfter(bytes_);
  parts_.push_back({begin, bytes});
  bytes_ = begin + bytes.size();
}

Buffer StageContent::Copy(uint64_t offset, uint64_t length) const {
  const uint64_t end = std::min(offset + length, bytes_);
  Buffer piece = Buffer::Allocate(end - offset);
  std::byte* const to = piece.mutable_bytes().data();
  uint64_t done = offset;
  auto part = std::upper_bound(
      parts_.begin(), parts_.end(), offset,
      [](uint64_t at, const Part& one) { return at < one.begin; });
  if (part != parts_.begin()) --part;
  for (; part != parts_.end() && part->begin < end; ++part) {
    const uint64_t part_end = part->begin + part->bytes.size();
    if (part->begin > done) {
      std::memset(to + (done - offset), 0, part->begin - done);
      done = part->begin;
    }
    if (part_end <= done) continue;
    const uint64_t some = std::min(part_end, end) - done;
    std::memcpy(to + (done - offset), part->bytes.data() + (done - part->begin),
                some);
    done += some;
  }
  // A gap in which the piece ends.
  if (done < end) std::memset(to + (done - offset), 0, end - done);
  return piece;
}

bool PutPiece(const BufferChain& piece, uint64_t offset,
              absl::Span<const absl::Span<std::byte>> to) {
  ChainReader reader(piece);
  for (const absl::Span<std::byte> array : to) {
    if (offset >= array.size()) {
      offset -= array.size();
      continue;
    }
    const size_t some =
        std::min<uint64_t>(array.size() - offset, reader.remaining());
    reader.Read(array.subspan(offset, some));
    offset = 0;
    if (reader.remaining() == 0) return true;
  }
  return reader.remaining() == 0;
}

void ToProto(const InputSpec& input,
             google::protobuf::RepeatedPtrField<v1::StageFeature>* features) {
  for (const FeatureSpec& feature : input.features) {
    v1::StageFeature* const one = features->Add();
    one->set_name(feature.name);
    one->set_dtype(static_cast<uint32_t>(feature.dtype));
    one->mutable_dims()->Add(feature.dims.begin(), feature.dims.end());
    one->set_classes(feature.classes);
    one->set_ragged(feature.ragged);
  }
}

absl::StatusOr<InputSpec> ToInput(
    const google::protobuf::RepeatedPtrField<v1::StageFeature>& features) {
  InputSpec input;
  for (const v1::StageFeature& feature : features) {
    if (!IsType(feature.dtype())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "feature '", feature.name(), "' has type ", feature.dtype()));
    }
    input.features.push_back(
        {.name = feature.name(),
         .dtype = static_cast<DType>(feature.dtype()),
         .dims = {feature.dims().begin(), feature.dims().end()},
         .classes = feature.classes(),
         .ragged = feature.ragged()});
  }
  return input;
}

}  // namespace paramd
