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
  while (DeviceTurns::Running* const running = WaitForNext(device)) {
    Done(device, running->Run(device), running);
  }
}

DeviceTurns::Running* DeviceThreads::WaitForNext(uint32_t device) {
  const MutexLock lock(&mutex_);
  for (;;) {
    DeviceTurns::Running* const running = turns_.Next(device);
    if (running != nullptr || ending_) return running;
    changed_.Wait(&mutex_);
  }
}

void DeviceThreads::Done(uint32_t device, const absl::Status& status,
                         DeviceTurns::Running* running) {
  const MutexLock lock(&mutex_);
  turns_.Done(device, status, running);
  changed_.NotifyAll();
}

absl::Status DeviceThreads::Run(const Work& work) {
  DeviceTurns::Running running(work);
  const MutexLock lock(&mutex_);
  turns_.Begin(&running);
  changed_.NotifyAll();
  while (!running.IsOver()) changed_.Wait(&mutex_);
  turns_.End(&running);
  return running.status();
}

}  // namespace paramd
