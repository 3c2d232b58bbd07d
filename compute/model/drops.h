#ifndef PARAMD_COMPUTE_MODEL_DROPS_H_
#define PARAMD_COMPUTE_MODEL_DROPS_H_

#include <cstdint>
#include <string>

#include "compute/model/layer.h"

namespace paramd {

// The key of the random numbers of a layer in an epoch.
uint64_t DropKey(const std::string& layer, uint64_t seed, uint64_t epoch);

// Fills `factors`, `width` for each example and in the device's memory, with 0
// with probability `rate` and otherwise with 1 / (1 - rate). Each is a function
// of (seed, epoch, the layer's name, the example's place in the epoch's order,
// the element), and so the same for any number of workers.
void DrawFactors(const Layer::Context& context, const std::string& layer,
                 double rate, uint64_t width, const Tensor& factors);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_DROPS_H_
