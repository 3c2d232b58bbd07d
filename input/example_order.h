#ifndef PARAMD_INPUT_EXAMPLE_ORDER_H_
#define PARAMD_INPUT_EXAMPLE_ORDER_H_

#include <cstdint>
#include <vector>

namespace paramd {

// The order in which the examples of an epoch are trained on: a permutation of
// [0, size) that depends only on (seed, epoch), so every worker has the same.
// Fisher and Yates's shuffle (Knuth, TAOCP 3.4.2, algorithm P) over the
// counter-based generator. REQUIRES: size < 2^32.
std::vector<uint32_t> ExampleOrder(uint64_t seed, uint64_t epoch,
                                   uint64_t size);

}  // namespace paramd

#endif  // PARAMD_INPUT_EXAMPLE_ORDER_H_
