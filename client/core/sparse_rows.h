#ifndef PARAMD_CLIENT_CORE_SPARSE_ROWS_H_
#define PARAMD_CLIENT_CORE_SPARSE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "client/core/placement.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/types.pb.h"
#include "tensor/buffer.h"
#include "tensor/number_reader.h"

namespace paramd {

// Consecutive rows of one variable's list: those of blocks that follow one
// another.
struct RowGroup {
  uint32_t variable = 0;
  RowSpan rows;
  // Of the blocks that were grouped; some may have no row.
  size_t first_block = 0;
  size_t end_block = 0;
};

// `rows`: of each block. In the order of the blocks; as few groups as there can
// be, which is one where a server has all of a variable.
std::vector<RowGroup> GroupRows(const Placement& placement,
                                absl::Span<const BlockId> blocks,
                                absl::Span<const RowSpan> rows);

// The rows of sparse variables that one step uses, and what they held when they
// were looked up. Their numbers never change; a lookup writes the values. The
// rows of a keyed variable are named by mixed keys (tensor/keyed_rows.h) in
// place of numbers.
//
// Not thread-safe. The placement is copied out of, not kept.
class SparseRows {
 public:
  // `numbers`: for each sparse variable in order those of its rows, uint64.
  // Rows that are not looked up are zeros. kInvalidArgument, naming the
  // variable, if they do not ascend or one is not there; of a keyed variable
  // all are.
  static absl::StatusOr<SparseRows> Create(const Placement& placement,
                                           std::vector<Buffer> numbers);

  // Of one of the placement's sparse variables: numbers, and as many rows of
  // float.
  const Buffer& numbers(size_t sparse) const { return numbers_[sparse]; }
  const Buffer& values(size_t sparse) const { return values_[sparse]; }
  // What a computation gets: `dense`, by variable, with the values of these
  // rows in their places, and after it their numbers.
  BufferChain HandOut(BufferChain dense) const;

  // Those rows that lie in a block.
  struct Run {
    BlockId id;
    RowSpan rows;
  };
  // In the placement's order; all blocks with a row.
  absl::Span<const Run> runs() const { return runs_; }

  // What names the rows of those blocks on the wire: uint32, counted from the
  // first row of their block; of a keyed variable uint64, as they are, by
  // reference. REQUIRES: the groups are of these blocks.
  BufferChain NamesOf(const Placement& placement,
                      absl::Span<const RowGroup> groups,
                      absl::Span<const BlockId> blocks,
                      absl::Span<const RowSpan> rows) const;
  // Reads what they hold. REQUIRES: the reader has it; nobody else reads it.
  void Set(const Placement& placement, absl::Span<const RowGroup> groups,
           const NumberReader& values);

  // The block's version when its rows were looked up; zero: they were not.
  v1::BlockVersion version(const BlockId& id) const;
  // The same of those blocks. REQUIRES: as many versions as blocks.
  void AddVersions(absl::Span<const BlockId> blocks,
                   v1::BlockVersions* versions) const;
  void SetVersions(absl::Span<const BlockId> blocks,
                   const v1::BlockVersions& versions);

 private:
  struct Version {
    uint64_t life = 0;
    uint64_t counter = 0;
  };

  absl::Span<const uint64_t> NumbersOf(uint32_t variable) const;
  // Of the rows of a slice; `next`: the first of them, then that after them.
  void AddRuns(const Placement& placement, uint32_t slice, size_t* next);
  // The block's run, or where it would be. Fast if it is `near` or just after.
  size_t RunOf(const BlockId& id, size_t near = 0) const;
  bool IsRun(size_t run, const BlockId& id) const;

  std::vector<size_t> place_;  // By variable: which of the sparse ones it is.
  std::vector<size_t> variables_;  // By sparse one.
  std::vector<Buffer> numbers_;
  std::vector<Buffer> values_;
  std::vector<Run> runs_;
  std::vector<Version> versions_;  // By run.
};

}  // namespace paramd

#endif  // PARAMD_CLIENT_CORE_SPARSE_ROWS_H_
