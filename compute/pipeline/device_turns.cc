#include "compute/pipeline/device_turns.h"

namespace paramd {

DeviceTurns::Running::Running(const Work& work)
    : work_(work), next_(work.operations.size(), 0) {
  for (const size_t operations : work.operations) left_ += operations;
}

bool DeviceTurns::Running::IsOver() const {
  return begun_ == 0 && (left_ == 0 || !status_.ok());
}

DeviceTurns::Running* DeviceTurns::Next(uint32_t device) {
  for (Running* const running : running_) {
    const size_t next = running->next_[device];
    if (running->status_.ok() && next < running->work_.operations[device] &&
        running->work_.ready(device, next)) {
      ++running->begun_;
      return running;
    }
  }
  return nullptr;
}

void DeviceTurns::Done(uint32_t device, const absl::Status& status,
                       Running* running) {
  ++running->next_[device];
  --running->begun_;
  --running->left_;
  if (running->status_.ok()) running->status_ = status;
}

}  // namespace paramd
