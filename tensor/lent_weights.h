#ifndef PARAMD_TENSOR_LENT_WEIGHTS_H_
#define PARAMD_TENSOR_LENT_WEIGHTS_H_

#include <array>
#include <cstddef>
#include <functional>
#include <vector>

#include "tensor/buffer.h"
#include "tensor/unified_memory.h"

namespace paramd {

// Where a worker's two copies of the variables lie, if somebody who reads them
// lends memory for that: by variable, room for the floats of each copy, or
// null. Empty: for none. It outlives the copies. Whoever lends it may write to
// it where it may read it.
using LentWeights = std::vector<std::array<float*, 2>>;

// Where such copies lie. What is not lent does in memory of the device, which
// outlives them, or is pinned, as far as that has room (else a buffer is
// empty); null: there is none.
struct WeightMemory {
  LentWeights lent;
  UnifiedMemory* device = nullptr;
  std::function<Buffer(size_t size)> pinned = nullptr;
};

}  // namespace paramd

#endif  // PARAMD_TENSOR_LENT_WEIGHTS_H_
