#ifndef PARAMD_CONFIG_SHARD_DESCRIPTION_H_
#define PARAMD_CONFIG_SHARD_DESCRIPTION_H_

#include <cstdint>

namespace paramd {

// A ShardFile grows with its slices times the workers that have pushed to them.
// Where one is too long for the answer to Written, that has none, and it is
// fetched like the file's own bytes: its encoding begins at this offset, which
// no file reaches.
inline constexpr uint64_t kDescriptionOffset = uint64_t{1} << 63;

}  // namespace paramd

#endif  // PARAMD_CONFIG_SHARD_DESCRIPTION_H_
