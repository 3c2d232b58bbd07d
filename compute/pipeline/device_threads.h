#ifndef PARAMD_COMPUTE_PIPELINE_DEVICE_THREADS_H_
#define PARAMD_COMPUTE_PIPELINE_DEVICE_THREADS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

#include "base/mutex.h"
#include "base/worker_thread.h"

namespace paramd {

// A thread for each device of a pipeline, on which lists of operations are run,
// one for each device. Of several lists at the same time a device does what is
// next in the oldest one whose next operation is ready. So what one batch
// leaves idle the next one fills.
//
// Thread-safe. Nothing is run when it is destroyed.
class DeviceThreads {
 public:
  explicit DeviceThreads(uint32_t devices);
  ~DeviceThreads();

  // Operations of each device, from 0 on. `ready` says, on any thread, whether
  // the next one may begin, which depends on operations that have ended alone;
  // `run` does it, on the device's thread.
  struct Work {
    std::vector<size_t> operations;
    absl::FunctionRef<bool(uint32_t device, size_t operation)> ready;
    absl::FunctionRef<absl::Status(uint32_t device, size_t operation)> run;
  };

  // Returns when all operations have ended: OK, or the first error, after which
  // no more of this work is begun. REQUIRES: in any order that `ready` allows,
  // all operations get their turn.
  absl::Status Run(const Work& work) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Running {
    const Work* work = nullptr;
    std::vector<size_t> next;  // Of each device.
    size_t left = 0;           // Operations that have not ended,
    size_t begun = 0;          // and those of them that have begun.
    absl::Status status;
  };

  void Loop(uint32_t device) ABSL_LOCKS_EXCLUDED(mutex_);
  // What the device does now; null: it is to end.
  Running* WaitForNext(uint32_t device) ABSL_LOCKS_EXCLUDED(mutex_);
  void Done(uint32_t device, const absl::Status& status, Running* running)
      ABSL_LOCKS_EXCLUDED(mutex_);

  Mutex mutex_;
  CondVar changed_;
  std::list<Running*> running_ ABSL_GUARDED_BY(mutex_);  // The oldest first.
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<WorkerThread>> threads_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_PIPELINE_DEVICE_THREADS_H_
