#include "client/core/chunks.h"

#include <algorithm>
#include <utility>

#include "tensor/shape.h"

namespace paramd {
namespace {

// So many heads are less than half of what a message's head may have.
constexpr size_t kMostBlocks = 16384;
constexpr size_t kMostBlocksOfLong = 1024;
// Above it a message has no room for the heads of more.
constexpr uint64_t kLongBytes = uint64_t{3} << 20;

// Adds blocks in order, each to the last chunk of its server if that has room.
class Cutter {
 public:
  Cutter(const Placement& placement, const ChunkLimits& limits)
      : slices_(placement.slices()),
        limits_(limits),
        last_(placement.servers(), SIZE_MAX) {}

  BlockChunk& Add(const BlockId& id, uint64_t bytes) {
    const uint32_t server = slices_[id.slice].server;
    size_t& last = last_[server];
    if (last == SIZE_MAX || !HasRoom(chunks_[last], id.slice, bytes)) {
      last = chunks_.size();
      chunks_.emplace_back().server = server;
    }
    chunks_[last].blocks.push_back(id);
    chunks_[last].bytes += bytes;
    return chunks_[last];
  }

  std::vector<BlockChunk> Take() { return std::move(chunks_); }

 private:
  bool HasRoom(const BlockChunk& chunk, uint32_t slice, uint64_t size) const {
    const uint64_t bytes = chunk.bytes + size;
    if (chunk.blocks.size() >= kMostBlocks) return false;
    if (bytes > kLongBytes && chunk.blocks.size() >= kMostBlocksOfLong) {
      return false;
    }
    if (bytes <= limits_.chunk_bytes) return true;
    if (bytes > limits_.most_bytes[chunk.server]) return false;
    if (chunk.blocks.size() >= kMostBlocksOfLong) return false;
    return !limits_.one_by_one ||
           slices_[chunk.blocks.front().slice].variable ==
               slices_[slice].variable;
  }

  const std::vector<PlacedSlice>& slices_;
  const ChunkLimits& limits_;
  std::vector<size_t> last_;  // By server.
  std::vector<BlockChunk> chunks_;
};

}  // namespace

std::vector<BlockChunk> CutIntoChunks(
    const Placement& placement, const ChunkLimits& limits,
    absl::FunctionRef<bool(const PlacedSlice&)> wanted) {
  Cutter cutter(placement, limits);
  const auto& slices = placement.slices();
  for (uint32_t s = 0; s < slices.size(); ++s) {
    if (!wanted(slices[s])) continue;
    for (uint32_t b = 0; b < slices[s].blocks; ++b) {
      cutter.Add({s, b}, slices[s].block_elements(b) * limits.number_bytes);
    }
  }
  return cutter.Take();
}

std::vector<BlockChunk> CutIntoChunks(const Placement& placement,
                                      const ChunkLimits& limits) {
  return CutIntoChunks(placement, limits,
                       [](const PlacedSlice&) { return true; });
}

std::vector<BlockChunk> CutRowsIntoChunks(const Placement& placement,
                                          const SparseRows* rows,
                                          bool all_blocks,
                                          const ChunkLimits& limits) {
  Cutter cutter(placement, limits);
  const auto& slices = placement.slices();
  absl::Span<const SparseRows::Run> runs;
  if (rows != nullptr) runs = rows->runs();
  const auto add = [&](const BlockId& id, const RowSpan& span) {
    const uint64_t row_bytes =
        slices[id.slice].number_bytes() +
        slices[id.slice].row_elements * limits.number_bytes;
    cutter.Add(id, span.size() * row_bytes).rows.push_back(span);
  };
  if (!all_blocks) {
    for (const SparseRows::Run& run : runs) {
      // A keyed block may be asked for more rows than it has.
      const size_t most = slices[run.id.slice].block_rows();
      for (size_t at = run.rows.begin; at < run.rows.end; at += most) {
        add(run.id, {at, std::min(run.rows.end, at + most)});
      }
    }
    return cutter.Take();
  }
  auto run = runs.begin();
  for (uint32_t s = 0; s < slices.size(); ++s) {
    for (uint32_t b = 0; slices[s].sparse && b < slices[s].blocks; ++b) {
      const bool has_rows =
          run != runs.end() && run->id.slice == s && run->id.block == b;
      add({s, b}, has_rows ? run->rows : RowSpan());
      if (has_rows) ++run;
    }
  }
  return cutter.Take();
}

void AddRowBlocks(const BlockChunk& chunk, v1::RowBlocks* named) {
  const int blocks = static_cast<int>(chunk.blocks.size());
  named->mutable_slices()->Reserve(blocks);
  named->mutable_blocks()->Reserve(blocks);
  named->mutable_rows()->Reserve(blocks);
  for (size_t i = 0; i < chunk.blocks.size(); ++i) {
    named->add_slices(chunk.blocks[i].slice);
    named->add_blocks(chunk.blocks[i].block);
    named->add_rows(static_cast<uint32_t>(chunk.rows[i].size()));
  }
}

}  // namespace paramd
