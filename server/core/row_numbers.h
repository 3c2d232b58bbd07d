#ifndef PARAMD_SERVER_CORE_ROW_NUMBERS_H_
#define PARAMD_SERVER_CORE_ROW_NUMBERS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

#include "server/core/slice.h"
#include "tensor/buffer.h"

namespace paramd {

// The rows of a block that a call names.
struct RowIds {
  std::vector<uint32_t> numbers;
  std::vector<uint64_t> keys;  // Mixed: instead, where the variable is keyed.
};

// The next `count` ids in what a call brought: numbers of rows, 4 bytes each, or,
// of a keyed variable, mixed keys, 8 bytes each. Refused as INVALID, naming the
// variable, if it is not sparse, there are fewer, they do not ascend, or they are
// not the block's.
absl::StatusOr<RowIds> ReadRowIds(const Slice& slice, int block, uint32_t count,
                                  ChainReader* reader);

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_ROW_NUMBERS_H_
