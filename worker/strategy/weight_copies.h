#ifndef PARAMD_WORKER_STRATEGY_WEIGHT_COPIES_H_
#define PARAMD_WORKER_STRATEGY_WEIGHT_COPIES_H_

#include <cstddef>

#include "client/core/placement.h"
#include "client/core/weights.h"
#include "worker/core/computation.h"

namespace paramd {

// The two copies of the weights that a worker trains on.
//
// Invariant: a pull goes into the copy that was not computed on last, which
// therefore does not change while it is read or its push is open.
//
// Not thread-safe: part of a worker's core.
class WeightCopies {
 public:
  // `computation` outlives this. `memory`: where they lie, by the copy's
  // number.
  WeightCopies(const Placement& placement, const WeightMemory& memory,
               const Computation* computation);

  // What the last pull obtained, and which copy that is.
  const Weights& present() const { return weights_[present_]; }
  size_t number() const { return present_; }
  // Whoever lends their memory has had them, and may have written to them.
  bool are_used() const { return lends_ && computation_->copy() == present_; }
  // For the next pull. Pulled: it has ended.
  Weights* PullInto();
  void Pulled() { present_ = target_; }

 private:
  const Computation* const computation_;
  bool lends_ = false;
  Weights weights_[2];
  size_t present_ = 0;
  size_t target_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_STRATEGY_WEIGHT_COPIES_H_
