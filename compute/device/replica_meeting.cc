#include "compute/device/replica_meeting.h"

#include <utility>

namespace paramd {

absl::Status ReplicaMeeting::Meet(const absl::Status& own,
                                  std::shared_ptr<void>* shared) {
  MutexLock lock(&mutex_);
  const uint64_t meeting = meetings_;
  if (!aborted_) {
    if (coming_.error.ok()) coming_.error = own;
    if (shared != nullptr && *shared != nullptr) coming_.shared = *shared;
    if (++there_ == size_) {
      there_ = 0;
      last_ = std::exchange(coming_, {});
      ++meetings_;
      changed_.NotifyAll();
    }
  }
  while (meetings_ == meeting && !aborted_) changed_.Wait(&mutex_);
  if (!own.ok()) return own;
  if (meetings_ == meeting) {
    return absl::CancelledError("another replica of this process has ended");
  }
  if (!last_.error.ok()) return absl::CancelledError(last_.error.message());
  if (shared != nullptr) *shared = last_.shared;
  return absl::OkStatus();
}

void ReplicaMeeting::Abort() {
  const MutexLock lock(&mutex_);
  aborted_ = true;
  changed_.NotifyAll();
}

}  // namespace paramd
