#ifndef PARAMD_SERVER_CORE_LOCAL_SHARD_FILE_H_
#define PARAMD_SERVER_CORE_LOCAL_SHARD_FILE_H_

#include <cstdint>

#include "tensor/buffer.h"

namespace paramd {

// The bytes of a file that this server can't write where it is wanted, for the
// coordinator to fetch. They are references to what is frozen: nothing is
// copied, and pushes go on beside it.
//
// Not thread-safe: lives inside a Shard.
class LocalShardFile {
 public:
  explicit LocalShardFile(BufferChain bytes);

  uint64_t total() const { return total_; }
  // At most `limit` bytes from `offset`, by reference; fewer at the end only.
  // REQUIRES: offset <= total().
  BufferChain Window(uint64_t offset, uint64_t limit) const;

 private:
  BufferChain bytes_;
  uint64_t total_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_LOCAL_SHARD_FILE_H_
