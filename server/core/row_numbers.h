#ifndef PARAMD_SERVER_CORE_ROW_NUMBERS_H_
#define PARAMD_SERVER_CORE_ROW_NUMBERS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "proto/paramd/v1/data.pb.h"
#include "server/core/slice.h"
#include "tensor/buffer.h"
#include "tensor/number_format.h"

namespace paramd {

// The rows of many blocks, one block after the other: a call has hundreds of
// blocks with a few rows each, so its rows share one piece of memory. Not
// thread-safe.
class RowIdList {
 public:
  // What was read goes; memory stays.
  void Clear();

  // The next `count` ids in what a call brought: numbers of rows, 4 bytes each,
  // or, of a keyed variable, mixed keys, 8 bytes each; the place of the first
  // one here. Refused as INVALID, naming the variable, if there are fewer, they
  // do not ascend, or they are not the block's. REQUIRES: it is sparse, or
  // `count` is 0.
  absl::StatusOr<size_t> Read(const Slice& slice, int block, uint32_t count,
                              ChainReader* reader);
  // The next `count` from there; valid until something is read. All rows, where
  // none are named because the slice is not sparse.
  RowIds At(const Slice& slice, size_t place, uint32_t count) const;

 private:
  std::vector<uint32_t> numbers_;
  std::vector<uint64_t> keys_;
};

// INVALID unless the slice is of a sparse variable; `block`: whose rows a call
// names.
absl::Status CheckSparse(const Slice& slice, uint32_t block);

// INVALID if it is unknown.
absl::StatusOr<NumberFormat> CheckEncoding(v1::Encoding encoding);

// INVALID unless the columns are as long as each other.
absl::Status CheckColumns(const v1::RowBlocks& rows);

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_ROW_NUMBERS_H_
