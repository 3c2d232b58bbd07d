#ifndef PARAMD_CLIENT_CORE_CHUNKS_H_
#define PARAMD_CLIENT_CORE_CHUNKS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/core/placement.h"

namespace paramd {

// A block of a placement.
struct BlockId {
  uint32_t slice = 0;
  uint32_t block = 0;
};

// Blocks of one server that travel in one message.
struct BlockChunk {
  uint32_t server = 0;
  uint64_t bytes = 0;  // Of their numbers on the wire.
  std::vector<BlockId> blocks;
};

struct ChunkLimits {
  // Of a number on the wire.
  size_t number_bytes = sizeof(float);
  uint64_t chunk_bytes = 0;
  // By server, at least chunk_bytes. Above chunk_bytes a chunk has 1,024 blocks
  // at most: the rest of a message has room for their heads.
  std::vector<uint64_t> most_bytes;
  // Variables become ready one after the other: above chunk_bytes a chunk has
  // none of another one's blocks, which it would have to wait for.
  bool one_by_one = false;
};

// All blocks in the placement's order, each in one chunk. A chunk has as many
// as the limits allow, 16,384 at most.
std::vector<BlockChunk> CutIntoChunks(const Placement& placement,
                                      const ChunkLimits& limits);

}  // namespace paramd

#endif  // PARAMD_CLIENT_CORE_CHUNKS_H_
