#ifndef PARAMD_COORDINATOR_CORE_LEAVING_H_
#define PARAMD_COORDINATOR_CORE_LEAVING_H_

#include "coordinator/core/turn.h"

namespace paramd {

// Has processes leave in good order. A process that was told to end does so
// with a checkpoint that has everything it did; the chief's process also waits
// until its own worker has left. If an operator stops the whole job nobody is
// waited for: everything stands still until the checkpoint is there.
//
// Not thread-safe: a part of the coordinator's core.
class Leaving {
 public:
  // This process is to leave.
  void Begin(Time now) {
    draining_ = true;
    started_ = now;
  }
  bool draining() const { return draining_; }
  // The whole job is to end.
  void BeginStop(Time now) {
    if (!draining_) Begin(now);
    stopping_ = true;
  }
  bool stopping() const { return stopping_; }

  // Whether somebody leaves with a checkpoint behind `newest`.
  bool NeedsSnapshot(const v1::SnapshotNumber& newest,
                     const JobView& job) const;
  // Raises SnapshotToLeaveWith, and Reached when this process may end, or
  // AllIsSaved when the job may.
  // REQUIRES: no snapshot is open, and the mode is not being changed.
  void Advance(const v1::SnapshotNumber& newest, Turn* turn);
  // The snapshot that was wanted has this number.
  void OnOpened(const v1::SnapshotNumber& number) {
    if (draining_) number_ = number;
  }

 private:
  bool EveryServerWasAsked(const JobView& job) const;

  bool draining_ = false;
  bool stopping_ = false;
  Time started_;
  v1::SnapshotNumber number_;  // The snapshot to leave with. Zero: none yet.
  Time next_snapshot_;         // Not before: the last one may have failed.
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_LEAVING_H_
