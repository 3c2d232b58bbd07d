#include "worker/pipeline/stage_threads.h"

#include "absl/strings/str_cat.h"

#include "base/mutex.h"

namespace paramd {

StageThreads::StageThreads(uint32_t devices) {
  for (uint32_t d = 0; d < devices; ++d) {
    threads_.push_back(
        std::make_unique<WorkerThread>(absl::StrCat("stage-", d)));
  }
}

absl::Status StageThreads::Run(
    absl::FunctionRef<absl::Status(uint32_t device)> work,
    absl::FunctionRef<void()> failed) {
  Mutex mutex;
  CondVar changed;
  size_t running = threads_.size();
  absl::Status first;
  for (uint32_t d = 0; d < threads_.size(); ++d) {
    threads_[d]->Post([&, d] {
      const absl::Status status = work(d);
      if (!status.ok()) failed();
      const MutexLock lock(&mutex);
      if (!status.ok() && (first.ok() || absl::IsCancelled(first))) {
        first = status;
      }
      --running;
      changed.NotifyAll();
    });
  }
  const MutexLock lock(&mutex);
  while (running > 0) changed.Wait(&mutex);
  return first;
}

}  // namespace paramd
