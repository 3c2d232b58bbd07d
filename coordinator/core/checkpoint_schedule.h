#ifndef PARAMD_COORDINATOR_CORE_CHECKPOINT_SCHEDULE_H_
#define PARAMD_COORDINATOR_CORE_CHECKPOINT_SCHEDULE_H_

#include <cstdint>

#include "absl/strings/numbers.h"

#include "base/time.h"
#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/configuration.pb.h"

namespace paramd {

// When the next checkpoint is to be taken, by steps and by time; of a backup by
// steps or epochs.
//
// Not thread-safe: a part of the coordinator's core.
class CheckpointSchedule {
 public:
  explicit CheckpointSchedule(const v1::JobConfig& job)
      : config_(job.checkpoint()), every_epochs_(EpochsOfBackup(job)) {}

  // One is opened at this step, with so many epochs finished, or the job begins
  // to run.
  void Begin(uint64_t step, uint32_t epochs, Time now) {
    const uint64_t every = config_.every_steps();
    if (every > 0) next_step_ = (step / every + 1) * every;
    if (every_epochs_ > 0) {
      next_epoch_ = (epochs / every_epochs_ + 1) * every_epochs_;
    }
    if (config_.every_seconds() > 0) {
      next_at_ = now + absl::Seconds(config_.every_seconds());
    }
  }
  // An operator changes how often there is one; any other setting: nothing.
  void Set(const v1::SettingChange& change, uint64_t step, Time now) {
    uint64_t every = 0;
    if (!absl::SimpleAtoi(change.value(), &every)) return;
    if (change.key() == "checkpoint.every_steps") {
      config_.set_every_steps(every);
      next_step_ = every == 0 ? 0 : (step / every + 1) * every;
    } else if (change.key() == "checkpoint.every_seconds") {
      config_.set_every_seconds(static_cast<uint32_t>(every));
      next_at_ = every == 0 ? Time::Never()
                            : now + absl::Seconds(static_cast<int64_t>(every));
    }
  }
  // `saved`: the step of the newest one.
  bool IsDue(uint64_t step, uint32_t epochs, uint64_t saved, Time now) const {
    return (next_step_ > 0 && step >= next_step_) ||
           (next_epoch_ > 0 && epochs >= next_epoch_) ||
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
  // 0: not by epochs.
  static uint64_t EpochsOfBackup(const v1::JobConfig& job) {
    const v1::BackupAndRestoreConfig& backup = job.backup_and_restore();
    return backup.directory().empty() || backup.every_steps() > 0
               ? 0
               : backup.every_epochs();
  }

  v1::CheckpointConfig config_;
  const uint64_t every_epochs_;
  uint64_t next_step_ = 0;
  uint64_t next_epoch_ = 0;
  Time next_at_ = Time::Never();  // If a step was made since.
  Time save_steps_at_ = Time::Never();
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_CHECKPOINT_SCHEDULE_H_
