#include "compute/pipeline/device_threads.h"

#include "absl/strings/str_cat.h"

namespace paramd {

DeviceThreads::DeviceThreads(uint32_t devices) {
  for (uint32_t d = 0; d < devices; ++d) {
    threads_.push_back(
        std::make_unique<WorkerThread>(absl::StrCat("device-", d)));
    threads_.back()->Post([this, d] { Loop(d); });
  }
}

DeviceThreads::~DeviceThreads() {
  const MutexLock lock(&mutex_);
  ending_ = true;
  changed_.NotifyAll();
}

void DeviceThreads::Loop(uint32_t device) {
  while (Running* const running = WaitForNext(device)) {
    const size_t operation = running->next[device];
    Done(device, running->work->run(device, operation), running);
  }
}

DeviceThreads::Running* DeviceThreads::WaitForNext(uint32_t device) {
  const MutexLock lock(&mutex_);
  for (;;) {
    for (Running* const running : running_) {
      const size_t next = running->next[device];
      if (running->status.ok() && next < running->work->operations[device] &&
          running->work->ready(device, next)) {
        ++running->begun;
        return running;
      }
    }
    if (ending_) return nullptr;
    changed_.Wait(&mutex_);
  }
}

void DeviceThreads::Done(uint32_t device, const absl::Status& status,
                         Running* running) {
  const MutexLock lock(&mutex_);
  ++running->next[device];
  --running->begun;
  --running->left;
  if (running->status.ok()) running->status = status;
  changed_.NotifyAll();
}

absl::Status DeviceThreads::Run(const Work& work) {
  Running running;
  running.work = &work;
  running.next.resize(threads_.size());
  for (const size_t operations : work.operations) running.left += operations;
  const MutexLock lock(&mutex_);
  running_.push_back(&running);
  changed_.NotifyAll();
  while (running.begun > 0 || (running.left > 0 && running.status.ok())) {
    changed_.Wait(&mutex_);
  }
  running_.remove(&running);
  return running.status;
}

}  // namespace paramd
