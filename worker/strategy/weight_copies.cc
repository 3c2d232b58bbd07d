#include "worker/strategy/weight_copies.h"

namespace paramd {

WeightCopies::WeightCopies(const Placement& placement,
                           const WeightMemory& memory,
                           const Computation* computation)
    : computation_(computation) {
  for (const auto& copies : memory.lent) {
    lends_ = lends_ || copies[0] != nullptr;
  }
  for (size_t which = 0; which < 2; ++which) {
    weights_[which] = Weights::WithoutSparse(placement, memory, which);
  }
}

Weights* WeightCopies::PullInto() {
  target_ = 1 - computation_->copy();
  return &weights_[target_];
}

}  // namespace paramd
