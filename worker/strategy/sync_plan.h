#ifndef PARAMD_WORKER_STRATEGY_SYNC_PLAN_H_
#define PARAMD_WORKER_STRATEGY_SYNC_PLAN_H_

#include <string>

#include "absl/types/optional.h"

#include "worker/strategy/plan.h"
#include "worker/strategy/sync_cursor.h"

namespace paramd {

// Mode SYNC: a step is to pull what the step before it left, to compute this
// worker's share of the step's examples, and to push it; the next pull waits on
// the servers until all contributions are in. Other contributors make a step
// that is not decided begin anew. One that was decided without this worker is
// abandoned while it is computed, as soon as the worker hears of it.
//
// Not thread-safe: part of a worker's core.
class SyncPlan : public Plan {
 public:
  // `steps` outlives it.
  SyncPlan(const Options& options, Steps* steps);

  bool Fits(v1::Consistency::Mode mode) const override {
    return mode == v1::Consistency::SYNC;
  }
  // A step that is not decided begins anew with other contributors; what was
  // pushed to an earlier one is or is not in, which the servers know.
  void Configure(const v1::Configuration& configuration,
                 const v1::SessionId& generation) override;
  void Advance(const View& view, WorkerTurn* turn) override;
  void Pulled() override;
  void PushEnded(const TrainingStep& step) override {
    pushed_step_ = step.number;
  }
  bool LeftOut(uint64_t step, WorkerTurn* turn) override;
  void Late(uint64_t decided, WorkerTurn* turn) override;
  bool takes_portions() const override { return false; }
  bool may_give_up_pushes() const override { return false; }
  bool finished() const override;
  uint64_t examples_per_push() const override;
  std::string waiting_for(const v1::SessionId& generation) const override;

 private:
  // The servers have this worker's share of the next step.
  bool HoldsShare() const;
  bool HasWeights() const;
  bool IsBetweenShares() const;
  void StartShare(WorkerTurn* turn);
  void PushShare(const View& view, WorkerTurn* turn);

  const Options options_;
  Steps& steps_;
  SyncCursor cursor_;
  uint64_t pulling_step_ = 0;  // After which the pull under way reads.
  uint64_t pushed_step_ = 0;   // That the servers hold this worker's share of.
  // After which step the weights are; unset: none were pulled in this session.
  absl::optional<uint64_t> pulled_step_;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_STRATEGY_SYNC_PLAN_H_
