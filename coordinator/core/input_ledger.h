#ifndef PARAMD_COORDINATOR_CORE_INPUT_LEDGER_H_
#define PARAMD_COORDINATOR_CORE_INPUT_LEDGER_H_

#include <cstdint>
#include <string>

#include "coordinator/core/portion_ledger.h"
#include "coordinator/core/step_ledger.h"
#include "coordinator/core/turn.h"

namespace paramd {

// How far the job is in its input. In sync mode a ledger of steps keeps count
// of that, in the other modes a ledger of portions.
//
// Invariant: when the mode or the checkpoint changes, the job's step and what
// is left of its input pass from one ledger to the other; nothing is in both.
//
// Not thread-safe: a part of the coordinator's core.
class InputLedger : public JobProgress {
 public:
  // `job` outlives it, and is read by the first event at the earliest.
  InputLedger(const CoordinatorOptions& options, const JobView& job)
      : job_(job), portions_(options), steps_(options) {}

  PortionLedger& portions() { return portions_; }
  const PortionLedger& portions() const { return portions_; }
  StepLedger& steps() { return steps_; }
  const StepLedger& steps() const { return steps_; }

  // ---- how far
  uint64_t global_step() const override;
  uint64_t StepAt(const Cuts& cuts) const override;
  v1::SavedInput InputLeft(const Cuts& cuts) const override;
  bool InputFinished() const override;
  uint32_t EpochsFinished() const override;
  bool IsBetweenSteps() const override;
  std::string StepWaitsFor() const override;
  absl::Duration LongestStep() const override;
  // The step up to which workers have told their losses.
  uint64_t ToldStep() const;

  // ---- where it changes
  // The job goes on after this step, in whichever mode.
  void GoOnFrom(uint64_t step, const v1::SavedInput& left);
  // The same in the other mode, which holds from now on.
  void ChangeMode(bool to_sync, uint64_t step, const v1::SavedInput& left);
  // All are to join again.
  void OnSessionsEnded();
  // Of a session, which has acknowledged so many pushes.
  void OnHeartbeat(const v1::HeartbeatRequest& request, uint64_t pushes,
                   Time now);
  // This process stood still until now.
  void OnPause(Time now);

  // ---- for people
  void FillStatus(v1::JobStats* status) const;

 private:
  const JobView& job_;
  PortionLedger portions_;
  StepLedger steps_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_INPUT_LEDGER_H_
