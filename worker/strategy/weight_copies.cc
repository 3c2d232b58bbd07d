#include "worker/strategy/weight_copies.h"

namespace paramd {

WeightCopies::WeightCopies(const Placement& placement,
                           const WeightMemory& memory,
                           const Computation* computation, size_t copies)
    : computation_(computation) {
  for (const auto& copies : memory.lent) {
    lends_ = lends_ || copies[0] != nullptr;
  }
  for (size_t which = 0; which < copies; ++which) {
    weights_.push_back(Weights::WithoutSparse(placement, memory, which));
  }
}

Weights* WeightCopies::PullInto() {
  target_ = (computation_->copy() + 1) % weights_.size();
  return &weights_[target_];
}

}  // namespace paramd
