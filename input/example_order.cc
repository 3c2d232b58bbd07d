#include "input/example_order.h"

#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/random.h"

namespace paramd {

std::vector<uint32_t> ExampleOrder(uint64_t seed, uint64_t epoch,
                                   uint64_t size) {
  CHECK(size <= std::numeric_limits<uint32_t>::max(),
        "an epoch has fewer than 2^32 examples");
  std::vector<uint32_t> order(size);
  std::iota(order.begin(), order.end(), 0u);
  const CounterRandom epochs(StableHash("order of examples", seed));
  const CounterRandom random(epochs.Bits(epoch));
  for (uint64_t i = size; i > 1; --i) {
    std::swap(order[i - 1], order[random.Below(i, i)]);
  }
  return order;
}

}  // namespace paramd
