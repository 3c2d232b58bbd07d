#include "net/mailbox.h"

#include <utility>

#include "base/check.h"
#include "base/clock.h"

namespace paramd {
namespace {

constexpr size_t kMostFunctions = 65536;

}  // namespace

Mailbox::Mailbox(std::function<void()> wake) : wake_(std::move(wake)) {}

void Mailbox::Post(std::function<void()> f) {
  MutexLock lock(&mutex_);
  if (closed_) return;
  CHECK(functions_.size() < kMostFunctions, "posted work is bounded");
  functions_.push_back(std::move(f));
  if (woken_) return;
  woken_ = true;
  if (wake_) {
    wake_();
  } else {
    posted_.NotifyOne();
  }
}

std::vector<std::function<void()>> Mailbox::Take() {
  std::vector<std::function<void()>> taken;
  MutexLock lock(&mutex_);
  taken.swap(functions_);
  woken_ = false;
  return taken;
}

void Mailbox::Wait(absl::Duration timeout) {
  const Time until = MonotonicNow() + timeout;
  MutexLock lock(&mutex_);
  while (functions_.empty()) {
    if (until == Time::Never()) {
      posted_.Wait(&mutex_);
      continue;
    }
    const absl::Duration left = until - MonotonicNow();
    if (left <= absl::ZeroDuration()) return;
    posted_.WaitFor(&mutex_, left);
  }
}

void Mailbox::Close() {
  std::vector<std::function<void()>> dropped;
  MutexLock lock(&mutex_);
  closed_ = true;
  dropped.swap(functions_);
}

}  // namespace paramd
