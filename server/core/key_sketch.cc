#include "server/core/key_sketch.h"

#include <algorithm>

namespace paramd {
namespace {

constexpr uint32_t kMost = 255;

size_t CountInUse(absl::Span<const uint8_t> cells) {
  return cells.size() -
         static_cast<size_t>(std::count(cells.begin(), cells.end(), 0));
}

void Halve(absl::Span<uint64_t> counters) {
  for (uint64_t& eight : counters) eight = eight >> 1 & 0x7f7f7f7f7f7f7f7f;
}

// A place below `count`, by one of two multipliers: buckets and places in a
// KeyTable go by a mixed key's first and last bits.
size_t PlaceOf(uint64_t mixed, uint64_t multiplier, size_t count) {
  return (mixed * multiplier >> 32) * count >> 32;
}

}  // namespace

uint32_t KeySketch::Add(uint64_t mixed, absl::Span<uint64_t> counters) {
  const absl::Span<uint8_t> cells(reinterpret_cast<uint8_t*>(counters.data()),
                                  counters.size() * sizeof(uint64_t));
  if (!known_) in_use_ = CountInUse(cells);
  known_ = true;
  uint8_t& a = cells[PlaceOf(mixed, 0x9e3779b97f4a7c15, cells.size())];
  uint8_t& b = cells[PlaceOf(mixed, 0xc2b2ae3d27d4eb4f, cells.size())];
  const uint8_t before = std::min(a, b);
  if (before == kMost) return kMost;
  for (uint8_t* const cell : {&a, &b}) {
    if (*cell != before) continue;
    if (before == 0) ++in_use_;
    *cell = before + 1;
  }
  if (in_use_ > cells.size() / 2) {
    Halve(counters);
    in_use_ = CountInUse(cells);
  }
  return before + 1;
}

}  // namespace paramd
