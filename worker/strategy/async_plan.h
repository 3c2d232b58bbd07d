#ifndef PARAMD_WORKER_STRATEGY_ASYNC_PLAN_H_
#define PARAMD_WORKER_STRATEGY_ASYNC_PLAN_H_

#include <cstddef>

#include "worker/strategy/plan.h"

namespace paramd {

// Modes ASYNC and BOUNDED: each worker steps for itself, on the next examples
// of its portions.
//
// Pull t+1 is sent when push t is acknowledged, or comes with the answers to
// push t where nobody may have to wait for others. Either way no timing changes
// the result of a job with one worker. A large gradient begins to leave when
// that of the last layers is there; what is computed later follows. In a
// pipeline without a flush N steps are computed at the same time: step t + N on
// the weights after push t, or newer ones where input came late.
//
// Not thread-safe: part of a worker's core.
class AsyncPlan : public Plan {
 public:
  // `steps` and `input` outlive it.
  AsyncPlan(const Options& options, Steps* steps, InputLeases* input)
      : options_(options), steps_(*steps), input_(*input) {}

  bool Fits(v1::Consistency::Mode mode) const override {
    return mode != v1::Consistency::SYNC;
  }
  void Configure(const v1::Configuration& configuration,
                 const v1::SessionId& generation) override;
  void Advance(const View& view, WorkerTurn* turn) override;
  void PushEnded(const TrainingStep& step) override;
  bool takes_portions() const override { return true; }
  bool may_give_up_pushes() const override { return true; }
  bool finished() const override;
  uint64_t examples_per_push() const override;

 private:
  // Steps that may be computed at the same time, those that wait included.
  size_t concurrent() const;
  bool MayPull() const;
  // Whether a push may ask for the weights of the step after it.
  bool MayPullBehind() const;
  bool MayCompute() const;
  bool MayPush() const;
  void StartComputing(WorkerTurn* turn);
  void StartPush(const View& view, WorkerTurn* turn);

  const Options options_;
  Steps& steps_;
  InputLeases& input_;
  bool bounded_ = false;  // Others may have to be waited for.
};

}  // namespace paramd

#endif  // PARAMD_WORKER_STRATEGY_ASYNC_PLAN_H_
