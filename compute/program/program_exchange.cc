#include "compute/program/program_exchange.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/clock.h"

namespace paramd {

absl::StatusOr<Metrics> ProgramExchange::Do(const ProgramWork& work) {
  Entry entry = {&work, absl::nullopt};
  MutexLock lock(&mutex_);
  if (!closed_) {
    waiting_.push_back(&entry);
    changed_.NotifyAll();
    while (!entry.result.has_value() && (!closed_ || held_ == &entry)) {
      changed_.Wait(&mutex_);
    }
    waiting_.erase(std::remove(waiting_.begin(), waiting_.end(), &entry),
                   waiting_.end());
  }
  if (entry.result.has_value()) return *std::move(entry.result);
  return absl::CancelledError("the program takes no more work");
}

absl::StatusOr<const ProgramWork*> ProgramExchange::Next(
    absl::Duration timeout) {
  const Time deadline = MonotonicNow() + timeout;
  MutexLock lock(&mutex_);
  CHECK(held_ == nullptr, "the last work is finished before the next");
  while (waiting_.empty() && !closed_) {
    const absl::Duration left = deadline - MonotonicNow();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError("there is no work yet");
    }
    changed_.WaitFor(&mutex_, left);
  }
  if (closed_) return nullptr;
  held_ = waiting_.front();
  waiting_.erase(waiting_.begin());
  return held_->work;
}

const ProgramWork* ProgramExchange::held() const {
  MutexLock lock(&mutex_);
  return held_ == nullptr ? nullptr : held_->work;
}

void ProgramExchange::Finish(absl::StatusOr<Metrics> result) {
  MutexLock lock(&mutex_);
  CHECK(held_ != nullptr, "what is finished was taken");
  held_->result.emplace(std::move(result));
  held_ = nullptr;
  changed_.NotifyAll();
}

void ProgramExchange::Announce(absl::Span<const int64_t> indices) {
  MutexLock lock(&mutex_);
  announced_.emplace_back(indices.begin(), indices.end());
  if (announced_.size() > kMostAnnounced) announced_.pop_front();
}

std::vector<int64_t> ProgramExchange::TakeAnnounced() {
  MutexLock lock(&mutex_);
  if (announced_.empty()) return {};
  std::vector<int64_t> next = std::move(announced_.front());
  announced_.pop_front();
  return next;
}

void ProgramExchange::SetTraining(std::vector<v1::EpochTraining> epochs) {
  MutexLock lock(&mutex_);
  training_ = std::move(epochs);
}

std::vector<v1::EpochTraining> ProgramExchange::training() const {
  MutexLock lock(&mutex_);
  return training_;
}

void ProgramExchange::Close() {
  MutexLock lock(&mutex_);
  closed_ = true;
  changed_.NotifyAll();
}

}  // namespace paramd
