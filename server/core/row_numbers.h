#ifndef PARAMD_SERVER_CORE_ROW_NUMBERS_H_
#define PARAMD_SERVER_CORE_ROW_NUMBERS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

#include "server/core/slice.h"
#include "tensor/buffer.h"

namespace paramd {

// The next `count` numbers of rows in what a call brought, 4 bytes each. Refused
// as INVALID, naming the variable, if it is not sparse, there are fewer, they do
// not ascend, or the block does not have them.
absl::StatusOr<std::vector<uint32_t>> ReadRowNumbers(const Slice& slice,
                                                     int block, uint32_t count,
                                                     ChainReader* reader);

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_ROW_NUMBERS_H_
