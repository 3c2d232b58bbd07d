#ifndef PARAMD_WORKER_STRATEGY_STEP_OBSERVER_H_
#define PARAMD_WORKER_STRATEGY_STEP_OBSERVER_H_

#include "base/time.h"

namespace paramd {

// Hears how long each push and pull of a worker's steps took, when it has
// ended; of none that was dropped. Called in the core's turns.
class StepObserver {
 public:
  virtual ~StepObserver() = default;

  // `with_push`: in the answers to a push.
  virtual void Pulled(bool with_push, Time begin, Time end) = 0;
  virtual void Pushed(Time begin, Time end) = 0;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_STRATEGY_STEP_OBSERVER_H_
