#ifndef PARAMD_WORKER_PIPELINE_STAGE_THREADS_H_
#define PARAMD_WORKER_PIPELINE_STAGE_THREADS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

#include "net/worker_thread.h"

namespace paramd {

// A thread for each device of a pipeline. Not thread-safe.
class StageThreads {
 public:
  explicit StageThreads(uint32_t devices);

  // Runs `work` with the number of each device, on its thread, and returns when
  // all have ended: OK, or the first error. Once one has failed `failed` is
  // called, on its thread, which lets the others end: what they return then is
  // CANCELLED, and not what is returned here.
  absl::Status Run(absl::FunctionRef<absl::Status(uint32_t device)> work,
                   absl::FunctionRef<void()> failed);

 private:
  std::vector<std::unique_ptr<WorkerThread>> threads_;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_PIPELINE_STAGE_THREADS_H_
