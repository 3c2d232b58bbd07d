#include "worker/ready_gradients.h"

#include <memory>

#include "proto/paramd/v1/compute.pb.h"

namespace paramd {

void ReadyGradients::Begin() {
  const MutexLock lock(&mutex_);
  computing_ = true;
  ready_.clear();
  bytes_ = 0;
}

void ReadyGradients::Add(uint32_t variable, Buffer gradient) {
  absl::optional<Runtime::IoDone> taker;
  Ready ready;
  {
    const MutexLock lock(&mutex_);
    bytes_ += gradient.size();
    ready_.emplace_back(variable, std::move(gradient));
    if (bytes_ < kAtOnceBytes || !taker_.has_value()) return;
    taker = std::exchange(taker_, absl::nullopt);
    ready = std::exchange(ready_, {});
    bytes_ = 0;
  }
  Answer(std::move(taker), std::move(ready));
}

void ReadyGradients::End() {
  absl::optional<Runtime::IoDone> taker;
  {
    const MutexLock lock(&mutex_);
    computing_ = false;
    ready_.clear();
    bytes_ = 0;
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
      ready = std::exchange(ready_, {});
      bytes_ = 0;
    }
  }
  Answer(std::move(before), {});
  if (done != nullptr) Answer(std::move(done), std::move(ready));
}

void ReadyGradients::Answer(absl::optional<Runtime::IoDone> done,
                            Ready ready) {
  if (!done.has_value()) return;
  auto head = std::make_unique<v1::TakeGradientsResult>();
  IoResult result;
  for (auto& [variable, gradient] : ready) {
    head->add_variables(variable);
    result.payload.push_back(std::move(gradient));
  }
  result.head = std::move(head);
  (*done)(std::move(result));
}

}  // namespace paramd
