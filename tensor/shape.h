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

// A block has at most so many elements; how many, BlockCut says.
inline constexpr const uint64_t& kMaxBlockElements =
    internal::cut.block_elements;
// A slice is whole rows of at most so many bytes, at least one row.
inline constexpr const uint64_t& kSliceBytes = internal::cut.slice_bytes;

// A sparse variable's: kInvalidArgument unless it has two dimensions and a row
// fits into a block.
absl::Status CheckSparseShape(absl::Span<const uint64_t> shape);

// Rows of a block of a sparse variable whose rows have so many elements, fewer
// in the last of a slice. REQUIRES: CheckSparseShape.
inline uint64_t BlockRows(uint64_t row_elements) {
  return kMaxBlockElements / row_elements;
}

// How the elements of a variable's slices lie in blocks: each has the same
// number, but the last of a slice, which has the rest.
class BlockCut {
 public:
  // A dense variable's: a block has as many as it can, wherever rows end.
  static BlockCut OfDense() { return BlockCut(kMaxBlockElements); }
  // A sparse variable's: as many whole rows as it can, so that no row lies in
  // two. REQUIRES: CheckSparseShape.
  static BlockCut OfSparse(uint64_t row_elements) {
    return BlockCut(BlockRows(row_elements) * row_elements);
  }
  static BlockCut Of(bool sparse, uint64_t row_elements) {
    return sparse ? OfSparse(row_elements) : OfDense();
  }

  // Of a block that is not the last.
  uint64_t elements() const { return elements_; }
  // Blocks of a slice.
  uint64_t Count(uint64_t slice_elements) const {
    return (slice_elements + elements_ - 1) / elements_;
  }
  // Which block has an element of a slice.
  uint64_t BlockOf(uint64_t element) const { return element / elements_; }
  // Where block `block` begins in its slice.
  uint64_t Begin(uint64_t block) const { return block * elements_; }
  // How many it has. REQUIRES: block < Count(slice_elements).
  uint64_t ElementsOf(uint64_t block, uint64_t slice_elements) const {
    const uint64_t left = slice_elements - Begin(block);
    return left < elements_ ? left : elements_;
  }
  friend bool operator==(const BlockCut&, const BlockCut&) = default;

 private:
  explicit BlockCut(uint64_t elements) : elements_(elements) {}

  uint64_t elements_;
};

// The whole rows that fit into so many bytes; one, if none does.
uint64_t RowsThatFit(uint64_t bytes, uint64_t row_elements);

// The most rows that a slice of such a variable has: those that fit into
// kSliceBytes, of a sparse variable only as many as fill whole blocks; at least
// one.
uint64_t MostSliceRows(bool sparse, uint64_t row_elements);

// "784x512"; "scalar" for an empty shape.
std::string ShapeName(absl::Span<const uint64_t> shape);

}  // namespace paramd

#endif  // PARAMD_TENSOR_SHAPE_H_
