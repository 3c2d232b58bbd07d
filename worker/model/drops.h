#ifndef PARAMD_WORKER_MODEL_DROPS_H_
#define PARAMD_WORKER_MODEL_DROPS_H_

#include <cstdint>
#include <string>

#include "worker/model/layer.h"

namespace paramd {

// The key of what a layer draws in an epoch.
uint64_t DropKey(const std::string& layer, uint64_t seed, uint64_t epoch);

// `width` factors for each example, as a part of a program: those of
// DrawFactors.
HloValue EmitFactors(Layer::Emission* emission, const std::string& layer,
                     double rate, uint64_t width);

// Fills `factors`, `width` of them for each example, with 0 by the probability
// `rate` and else with 1 / (1 - rate). Each is a function of (seed, epoch, the
// layer's name, the example's place in the epoch's order, the element): the
// same whatever the number of workers. In memory of the device.
void DrawFactors(const Layer::Context& context, const std::string& layer,
                 double rate, uint64_t width, const Tensor& factors);

}  // namespace paramd

#endif  // PARAMD_WORKER_MODEL_DROPS_H_
