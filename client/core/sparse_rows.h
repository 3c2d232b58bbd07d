#ifndef PARAMD_CLIENT_CORE_SPARSE_ROWS_H_
#define PARAMD_CLIENT_CORE_SPARSE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "client/core/placement.h"
#include "proto/paramd/v1/types.pb.h"
#include "tensor/buffer.h"
#include "tensor/number_reader.h"

namespace paramd {

// The rows of sparse variables that one step uses, and what they held when they
// were looked up. Their numbers never change; a lookup writes the values. The
// rows of a keyed variable are named by mixed keys (tensor/keyed_rows.h) in place
// of numbers.
//
// Not thread-safe. The placement is copied out of, not kept.
class SparseRows {
 public:
  // `numbers`: for each sparse variable in order those of its rows, uint64. Rows
  // that are not looked up are zeros.
  // kInvalidArgument, naming the variable, if they do not ascend or one is not
  // there; of a keyed variable all are.
  static absl::StatusOr<SparseRows> Create(const Placement& placement,
                                           std::vector<Buffer> numbers);

  // Of one of the placement's sparse variables: numbers, and as many rows of
  // float.
  const Buffer& numbers(size_t sparse) const { return numbers_[sparse]; }
  const Buffer& values(size_t sparse) const { return values_[sparse]; }
  // What a computation gets: `dense`, by variable, with the values of these rows
  // in their places, and behind it their numbers.
  BufferChain HandOut(BufferChain dense) const;

  // Those rows that lie in a block.
  struct Run {
    BlockId id;
    RowSpan rows;
  };
  // In the placement's order; all blocks with a row.
  absl::Span<const Run> runs() const { return runs_; }

  // Numbers of some rows as they travel: uint32, counted from the first of their
  // block; of a keyed variable uint64, as they are.
  Buffer NumbersIn(const PlacedSlice& slice, const BlockId& id,
                   const RowSpan& rows) const;
  // Reads what they hold. REQUIRES: the reader has it; nobody else reads it.
  void Set(const PlacedSlice& slice, const RowSpan& rows,
           const NumberReader& values);
  // The block's version when its rows were looked up; zero: they were not.
  v1::BlockVersion version(const BlockId& id) const;
  void set_version(const BlockId& id, const v1::BlockVersion& version);

 private:
  absl::Span<const uint64_t> NumbersOf(uint32_t variable) const;
  size_t RunOf(const BlockId& id) const;

  std::vector<size_t> place_;  // By variable: which of the sparse ones it is.
  std::vector<size_t> variables_;  // By sparse one.
  std::vector<Buffer> numbers_;
  std::vector<Buffer> values_;
  std::vector<Run> runs_;
  std::vector<v1::BlockVersion> versions_;  // By run.
};

}  // namespace paramd

#endif  // PARAMD_CLIENT_CORE_SPARSE_ROWS_H_
