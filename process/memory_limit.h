#ifndef PARAMD_PROCESS_MEMORY_LIMIT_H_
#define PARAMD_PROCESS_MEMORY_LIMIT_H_

#include <cstdint>

#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// What a server may hold, and what may have been received and not been taken
// yet. 0: no limit.
struct MemoryLimits {
  uint64_t held = 0;
  uint64_t received = 0;
};

// `configured` for each of the two; or where that is 0, nine tenths of `found`,
// what the process may use,
// together: for what is received an eighth of it, 256 MiB at least, but no more
// than half.
MemoryLimits MemoryLimitsOf(uint64_t configured, uint64_t found);

// What one of the servers of this process may hold, of so many; 0: no limit.
uint64_t MemoryOfAShard(const v1::JobConfig& job, uint32_t shards);

}  // namespace paramd

#endif  // PARAMD_PROCESS_MEMORY_LIMIT_H_
