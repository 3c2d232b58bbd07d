#include "client/core/chunks.h"

#include "tensor/shape.h"

namespace paramd {
namespace {

// So many heads are less than half of what a message's head may have.
constexpr size_t kMostBlocks = 16384;
constexpr size_t kMostBlocksOfLong = 1024;

}  // namespace

std::vector<BlockChunk> CutIntoChunks(const Placement& placement,
                                      const ChunkLimits& limits) {
  const auto& slices = placement.slices();
  const auto has_room = [&](const BlockChunk& chunk, uint32_t slice,
                            uint64_t size) {
    const uint64_t bytes = chunk.bytes + size;
    if (chunk.blocks.size() >= kMostBlocks) return false;
    if (bytes <= limits.chunk_bytes) return true;
    if (bytes > limits.most_bytes[chunk.server]) return false;
    if (chunk.blocks.size() >= kMostBlocksOfLong) return false;
    return !limits.one_by_one || slices[chunk.blocks.front().slice].variable ==
                                     slices[slice].variable;
  };
  std::vector<BlockChunk> chunks;
  std::vector<size_t> open(placement.servers(), SIZE_MAX);
  for (uint32_t s = 0; s < slices.size(); ++s) {
    size_t& last = open[slices[s].server];
    for (uint32_t b = 0; b < slices[s].blocks; ++b) {
      const uint64_t size =
          BlockElements(slices[s].elements, b) * limits.number_bytes;
      if (last == SIZE_MAX || !has_room(chunks[last], s, size)) {
        last = chunks.size();
        chunks.emplace_back().server = slices[s].server;
      }
      chunks[last].blocks.push_back({s, b});
      chunks[last].bytes += size;
    }
  }
  return chunks;
}

}  // namespace paramd
