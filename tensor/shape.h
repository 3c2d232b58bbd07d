#ifndef PARAMD_TENSOR_SHAPE_H_
#define PARAMD_TENSOR_SHAPE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace paramd {

// Rows [begin, end) of a variable: its first dimension. A scalar is one row.
struct RowRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  friend constexpr auto operator<=>(const RowRange&, const RowRange&) = default;
};

// A tensor's shape as rows of elements.
struct RowShape {
  uint64_t rows = 1;          // First dimension; 1 for a scalar.
  uint64_t row_elements = 1;  // Product of the others.
};

// Rank at most 8, every dimension at least 1, at most 2^48 elements; otherwise
// kInvalidArgument naming the shape.
absl::StatusOr<RowShape> ToRowShape(absl::Span<const uint64_t> shape);

// How variables are cut, the same in every process of a job. Only the simulator
// cuts finer, before it makes the first core, so that variables of a few
// numbers have many blocks and slices: production never writes to this.
struct Cut {
  uint64_t block_elements = 262144;
  uint64_t slice_bytes = uint64_t{4} << 20;
};
namespace internal {
inline Cut cut;
}  // namespace internal

// A slice's elements lie in blocks of this many, fewer in the last.
inline constexpr const uint64_t& kBlockElements = internal::cut.block_elements;
// A slice is whole rows of at most so many bytes, at least one row.
inline constexpr const uint64_t& kSliceBytes = internal::cut.slice_bytes;

inline uint64_t BlockCount(uint64_t slice_elements) {
  return (slice_elements + kBlockElements - 1) / kBlockElements;
}
// Elements of block `block` of a slice. REQUIRES: block < BlockCount().
inline uint64_t BlockElements(uint64_t slice_elements, uint64_t block) {
  const uint64_t left = slice_elements - block * kBlockElements;
  return left < kBlockElements ? left : kBlockElements;
}

// A sparse variable's: kInvalidArgument unless it has two dimensions and its
// rows as many elements as divide a block's, so that none lies in two.
absl::Status CheckSparseShape(absl::Span<const uint64_t> shape);

// "784x512"; "scalar" for an empty shape.
std::string ShapeName(absl::Span<const uint64_t> shape);

}  // namespace paramd

#endif  // PARAMD_TENSOR_SHAPE_H_
