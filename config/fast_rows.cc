#include "config/fast_rows.h"

#include <algorithm>
#include <cstdint>

#include "tensor/keyed_rows.h"

namespace paramd {

size_t FastRowsOf(const v1::Variable& variable) {
  const uint64_t rows = variable.shape(0);
  const uint64_t fast = variable.memory_rows();
  if (fast == 0 || fast >= rows) return 0;
  const uint64_t bucket = std::min(rows, BucketRows(variable.shape(1)));
  const auto share = static_cast<unsigned __int128>(fast) * bucket / rows;
  // A bucket of one row has no other.
  return bucket == 1 ? 0 : std::max<size_t>(1, static_cast<size_t>(share));
}

size_t SpareRowsFor(size_t fast_rows) { return (fast_rows + 3) / 4; }

size_t SpareRowsOf(const v1::Variable& variable) {
  return SpareRowsFor(FastRowsOf(variable));
}

}  // namespace paramd
