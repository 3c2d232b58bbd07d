#ifndef PARAMD_CLIENT_CORE_PLACEMENT_H_
#define PARAMD_CLIENT_CORE_PLACEMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "proto/paramd/v1/configuration.pb.h"
#include "tensor/shape.h"

namespace paramd {

// A slice with what follows from its place in the variable.
struct PlacedSlice {
  uint32_t variable = 0;
  RowRange rows;
  uint32_t server = 0;
  uint64_t element_begin = 0;  // In the variable.
  uint64_t elements = 0;
  uint32_t blocks = 0;
  uint64_t row_elements = 1;
  bool sparse = false;
  bool keyed = false;  // Sparse, too: see tensor/keyed_rows.h.

  BlockCut cut() const { return BlockCut::Of(sparse, row_elements); }
  // Of a block, in the slice; fewer in its last one.
  uint64_t block_elements(uint32_t block) const {
    return cut().ElementsOf(block, elements);
  }
  // Where a block begins, in the variable.
  uint64_t block_begin(uint32_t block) const {
    return element_begin + cut().Begin(block);
  }
  // Of a sparse variable: rows of a block, fewer in the last.
  uint64_t block_rows() const { return BlockRows(row_elements); }
  // Bytes of a row's number on the wire.
  size_t number_bytes() const {
    return keyed ? sizeof(uint64_t) : sizeof(uint32_t);
  }
  friend bool operator==(const PlacedSlice&, const PlacedSlice&) = default;
};

// A block of a placement.
struct BlockId {
  uint32_t slice = 0;
  uint32_t block = 0;
};

// A part of a list of rows: [begin, end).
struct RowSpan {
  size_t begin = 0;
  size_t end = 0;

  size_t size() const { return end - begin; }
};

// A layout, checked and unfolded: which elements of which variable are which
// slice, block and server. Immutable, hence thread-safe.
class Placement {
 public:
  Placement() = default;

  // kInvalidArgument if a shape is not valid, a slice names no variable or
  // server, or the slices of a variable do not cover its rows once and in
  // order.
  static absl::StatusOr<Placement> Create(const v1::Layout& layout,
                                          uint32_t servers);

  const std::vector<PlacedSlice>& slices() const { return slices_; }
  // By variable.
  const std::vector<uint64_t>& elements() const { return elements_; }
  const std::vector<std::string>& names() const { return names_; }
  // Which variables are sparse, ascending.
  const std::vector<size_t>& sparse() const { return sparse_; }
  // By variable.
  bool is_keyed(size_t variable) const { return keyed_[variable]; }
  // Elements of a row, by variable.
  const std::vector<uint64_t>& row_elements() const { return row_elements_; }
  uint32_t servers() const { return servers_; }

 private:
  std::vector<PlacedSlice> slices_;
  std::vector<uint64_t> elements_;
  std::vector<std::string> names_;
  std::vector<size_t> sparse_;
  std::vector<bool> keyed_;
  std::vector<uint64_t> row_elements_;
  uint32_t servers_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_CLIENT_CORE_PLACEMENT_H_
