#ifndef PARAMD_SERVER_CORE_FETCH_ROWS_H_
#define PARAMD_SERVER_CORE_FETCH_ROWS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/core/optimizer.h"
#include "server/core/row_numbers.h"
#include "server/core/slice.h"

namespace paramd {

// Has caches fetch what a call will touch of the blocks from `first` on, so
// many that the first of it is still there when it is used; the block after
// them. Blocks with many rows fetch some while they work on others.
template <typename NamedRows>
size_t FetchSome(const std::vector<NamedRows>& blocks, size_t first,
                 const RowIdList& ids, const Optimizer* pushes) {
  constexpr uint32_t kTogether = 64;
  constexpr uint32_t kMany = 16;
  size_t end = first;
  for (uint32_t rows = 0; end < blocks.size() && rows < kTogether; ++end) {
    rows += std::min(blocks[end].rows, kMany);
  }
  for (const auto step : {Block::FetchStep::kPlaces, Block::FetchStep::kKeys,
                          Block::FetchStep::kRows}) {
    for (size_t i = first; i < end; ++i) {
      const uint32_t rows = blocks[i].rows;
      if (rows == 0 || rows >= kMany) continue;
      const Slice& slice = *blocks[i].slice;
      const Block& block = slice.block(blocks[i].block);
      block.Fetch(step, ids.At(slice, blocks[i].first_id, rows), pushes,
                  slice.options());
    }
  }
  return end;
}

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_FETCH_ROWS_H_
