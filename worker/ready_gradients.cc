#include "worker/ready_gradients.h"

#include <memory>

#include "proto/paramd/v1/compute.pb.h"

namespace paramd {

void ReadyGradients::Begin() {
  const MutexLock lock(&mutex_);
  computing_ = true;
  ready_ = {};
  bytes_ = 0;
}

void ReadyGradients::SetLeftOut(uint64_t examples) {
  const MutexLock lock(&mutex_);
  ready_.left_out = examples;
}

ReadyGradients::Ready ReadyGradients::TakeReadyLocked() {
  Ready taken;
  taken.left_out = ready_.left_out;
  taken.gradients.swap(ready_.gradients);
  bytes_ = 0;
  return taken;
}

void ReadyGradients::Add(uint32_t variable, Buffer gradient) {
  absl::optional<Runtime::IoDone> taker;
  Ready ready;
  {
    const MutexLock lock(&mutex_);
    bytes_ += gradient.size();
    ready_.gradients.emplace_back(variable, std::move(gradient));
    if (bytes_ < kAtOnceBytes || !taker_.has_value()) return;
    taker = std::exchange(taker_, absl::nullopt);
    ready = TakeReadyLocked();
  }
  Answer(std::move(taker), std::move(ready));
}

void ReadyGradients::End() {
  absl::optional<Runtime::IoDone> taker;
  {
    const MutexLock lock(&mutex_);
    computing_ = false;
    TakeReadyLocked();
    taker = std::exchange(taker_, absl::nullopt);
  }
  Answer(std::move(taker), {});
}

void ReadyGradients::Take(Runtime::IoDone done) {
  absl::optional<Runtime::IoDone> before;
  Ready ready;
  {
    const MutexLock lock(&mutex_);
    before = std::exchange(taker_, absl::nullopt);
    if (computing_ && bytes_ < kAtOnceBytes) {
      taker_ = std::move(done);
    } else {
      ready = TakeReadyLocked();
    }
  }
  Answer(std::move(before), {});
  if (done != nullptr) Answer(std::move(done), std::move(ready));
}

void ReadyGradients::Answer(absl::optional<Runtime::IoDone> done, Ready ready) {
  if (!done.has_value()) return;
  auto head = std::make_unique<v1::TakeGradientsResult>();
  IoResult result;
  head->set_left_out(ready.left_out);
  for (auto& [variable, gradient] : ready.gradients) {
    head->add_variables(variable);
    result.payload.push_back(std::move(gradient));
  }
  result.head = std::move(head);
  (*done)(std::move(result));
}

}  // namespace paramd
