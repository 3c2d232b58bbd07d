#ifndef PARAMD_WORKER_STAGES_STAGE_CONTENT_H_
#define PARAMD_WORKER_STAGES_STAGE_CONTENT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "google/protobuf/repeated_ptr_field.h"

#include "input/batch.h"
#include "proto/paramd/v1/stage.pb.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace paramd {

// What travels between a worker and the processes of its stages: arrays, each
// with its type and shape, as one run of bytes that is cut into pieces.

// Content or results are sent in pieces of so many bytes, some at a time.
inline constexpr uint64_t kStagePieceBytes = uint64_t{1} << 20;
inline constexpr size_t kStagePiecesAtOnce = 8;

using StageArrays = google::protobuf::RepeatedPtrField<v1::StageArray>;

void AddArray(DType dtype, absl::Span<const uint64_t> dims,
              StageArrays* arrays);
// "float32 [3, 28]"
std::string ShapeOf(const v1::StageArray& array);

// Of each array how many bytes it has. INVALID_ARGUMENT if one has an unknown
// type, more than eight dimensions or 2^48 bytes, or if they have as many
// together.
absl::StatusOr<std::vector<uint64_t>> ArrayBytes(const StageArrays& arrays);
// Of a content, in which each array begins at a multiple of 64.
uint64_t ContentBytes(absl::Span<const uint64_t> array_bytes);

// The arrays of a content of ContentBytes. REQUIRES: that is its size.
std::vector<ConstTensor> ArraysIn(const StageArrays& arrays,
                                  absl::Span<const uint64_t> array_bytes,
                                  const Buffer& content);

// Arrays in memory that belongs to others, as a content. Not thread-safe.
class StageContent {
 public:
  // Its bytes stay until the last Copy.
  void Add(DType dtype, absl::Span<const uint64_t> dims,
           absl::Span<const std::byte> bytes);

  uint64_t bytes() const { return bytes_; }
  const StageArrays& arrays() const { return arrays_; }
  // Bytes [offset, offset + length), of which the last are `bytes()`'s.
  Buffer Copy(uint64_t offset, uint64_t length) const;

 private:
  struct Part {
    uint64_t begin = 0;
    absl::Span<const std::byte> bytes;
  };
  StageArrays arrays_;
  std::vector<Part> parts_;  // Ascending; zeros between them.
  uint64_t bytes_ = 0;
};

// Writes a piece of a result to where its arrays go, which follow one another
// without gaps. False, with some of it written, if it ends behind them.
bool PutPiece(const BufferChain& piece, uint64_t offset,
              absl::Span<const absl::Span<std::byte>> to);

void ToProto(const InputSpec& input,
             google::protobuf::RepeatedPtrField<v1::StageFeature>* features);
// INVALID_ARGUMENT for a type that is none.
absl::StatusOr<InputSpec> ToInput(
    const google::protobuf::RepeatedPtrField<v1::StageFeature>& features);

}  // namespace paramd

#endif  // PARAMD_WORKER_STAGES_STAGE_CONTENT_H_
