#ifndef PARAMD_COORDINATOR_CORE_CHECKPOINT_SCHEDULE_H_
#define PARAMD_COORDINATOR_CORE_CHECKPOINT_SCHEDULE_H_

#include <cstdint>

#include "base/time.h"
#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// When the next checkpoint is to be taken, by steps and by time.
//
// Not thread-safe: a part of the coordinator's core.
class CheckpointSchedule {
 public:
  explicit CheckpointSchedule(const v1::CheckpointConfig& config)
      : config_(config) {}

  // One is opened at this step, or the job begins to run.
  void Begin(uint64_t step, Time now) {
    const uint64_t every = config_.every_steps();
    if (every > 0) next_step_ = (step / every + 1) * every;
    if (config_.every_seconds() > 0) {
      next_at_ = now + absl::Seconds(config_.every_seconds());
    }
  }
  // `saved`: the step of the newest one.
  bool IsDue(uint64_t step, uint64_t saved, Time now) const {
    return (next_step_ > 0 && step >= next_step_) ||
           (now >= next_at_ && step > saved);
  }

  // Steps of sync mode that no checkpoint has are to be saved from `from` on,
  // since another mode follows: what a server loses of them nobody could say.
  void SaveSteps(Time from) { save_steps_at_ = from; }
  bool HasStepsToSave() const { return save_steps_at_ != Time::Never(); }
  bool MustSaveSteps(Time now) const { return now >= save_steps_at_; }
  // A checkpoint has them, or they are gone.
  void StepsSaved() { save_steps_at_ = Time::Never(); }

 private:
  const v1::CheckpointConfig config_;
  uint64_t next_step_ = 0;
  Time next_at_ = Time::Never();  // If a step was made since.
  Time save_steps_at_ = Time::Never();
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_CHECKPOINT_SCHEDULE_H_
