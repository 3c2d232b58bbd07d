#include "base/lock_cycles.h"

#include "absl/synchronization/mutex.h"

namespace paramd {

void LookForNoLockCycles() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

}  // namespace paramd
