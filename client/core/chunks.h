#ifndef PARAMD_CLIENT_CORE_CHUNKS_H_
#define PARAMD_CLIENT_CORE_CHUNKS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"

#include "client/core/placement.h"
#include "client/core/sparse_rows.h"
#include "proto/paramd/v1/data.pb.h"

namespace paramd {

// Blocks of one server that travel in one message: whole ones, or rows of
// blocks of sparse variables.
struct BlockChunk {
  uint32_t server = 0;
  uint64_t bytes = 0;  // Of their numbers on the wire.
  std::vector<BlockId> blocks;
  // By block: its rows, of those of its variable. Empty: whole blocks.
  std::vector<RowSpan> rows;
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

// Those blocks of the placement, in its order, each in one chunk. A chunk has
// as many as the limits allow, 16,384 at most.
std::vector<BlockChunk> CutIntoChunks(
    const Placement& placement, const ChunkLimits& limits,
    absl::FunctionRef<bool(const PlacedSlice&)> wanted);
// The same of all.
std::vector<BlockChunk> CutIntoChunks(const Placement& placement,
                                      const ChunkLimits& limits);

// Chunks of rows. `all_blocks`: with the blocks of sparse variables of which
// there is none, as a push needs them. `rows` null: there are none at all.
std::vector<BlockChunk> CutRowsIntoChunks(const Placement& placement,
                                          const SparseRows* rows,
                                          bool all_blocks,
                                          const ChunkLimits& limits);

// Names the blocks of a chunk of rows, and how many rows of each.
void AddRowBlocks(const BlockChunk& chunk, v1::RowBlocks* named);

}  // namespace paramd

#endif  // PARAMD_CLIENT_CORE_CHUNKS_H_
