#ifndef PARAMD_WORKER_STRATEGY_WEIGHT_COPIES_H_
#define PARAMD_WORKER_STRATEGY_WEIGHT_COPIES_H_

#include <cstddef>
#include <vector>

#include "client/core/placement.h"
#include "client/core/weights.h"
#include "worker/core/computation.h"

namespace paramd {

// The copies of the weights that a worker trains on: one more than gradients
// are computed at a time.
//
// Invariant: pulls go into the copies by turns, after the one that was computed
// on last. If each pull is computed on once, and none begins before the push of
// as many steps before it as there are copies has ended, then a copy does not
// change while it is read or its push is open.
//
// Not thread-safe: part of a worker's core.
class WeightCopies {
 public:
  // `computation` outlives this. `memory`: where they lie, by the copy's
  // number, where there are two.
  WeightCopies(const Placement& placement, const WeightMemory& memory,
               const Computation* computation, size_t copies = 2);

  const Weights& copy(size_t number) const { return weights_[number]; }
  // What the last pull obtained, and which copy that is.
  const Weights& present() const { return weights_[present_]; }
  size_t number() const { return present_; }
  // Whether a gradient was computed on the present copy in memory that the
  // program lends: it may have written to the copy since.
  bool are_used() const { return lends_ && computation_->copy() == present_; }
  // For the next pull. Pulled: it has ended.
  Weights* PullInto();
  void Pulled() { present_ = target_; }

 private:
  const Computation* const computation_;
  bool lends_ = false;
  std::vector<Weights> weights_;
  size_t present_ = 0;
  size_t target_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_STRATEGY_WEIGHT_COPIES_H_
