#ifndef PARAMD_COMPUTE_PIPELINE_DEVICE_THREADS_H_
#define PARAMD_COMPUTE_PIPELINE_DEVICE_THREADS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"

#include "base/mutex.h"
#include "base/worker_thread.h"
#include "compute/pipeline/device_turns.h"

namespace paramd {

// A thread for each device of a pipeline, on which lists of operations are run,
// one for each device. Of several lists at the same time a device does what
// DeviceTurns says. So what one batch leaves idle the next one fills.
//
// Thread-safe. Nothing is run when it is destroyed.
class DeviceThreads {
 public:
  explicit DeviceThreads(uint32_t devices);
  ~DeviceThreads();

  // `ready` is called on any thread, `run` on the device's.
  using Work = DeviceTurns::Work;

  // Returns when all operations have ended: OK, or the first error, after which
  // no more of this work is begun. REQUIRES: in any order that `ready` allows,
  // all operations get their turn.
  absl::Status Run(const Work& work) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Loop(uint32_t device) ABSL_LOCKS_EXCLUDED(mutex_);
  // What the device does now; null: it is to end.
  DeviceTurns::Running* WaitForNext(uint32_t device)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Done(uint32_t device, const absl::Status& status,
            DeviceTurns::Running* running) ABSL_LOCKS_EXCLUDED(mutex_);

  Mutex mutex_;
  CondVar changed_;
  DeviceTurns turns_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<WorkerThread>> threads_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_PIPELINE_DEVICE_THREADS_H_
