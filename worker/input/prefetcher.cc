#include "worker/input/prefetcher.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/status_macros.h"

namespace paramd {
namespace {

std::string RangeText(const Portion& range) {
  return absl::StrCat("examples [", range.begin, ", ", range.end, ") of epoch ",
                      range.epoch);
}

}  // namespace

Prefetcher::Prefetcher(const Dataset& dataset, Options options, size_t depth)
    : options_(std::move(options)),
      depth_(depth),
      assembler_(dataset, options_.seed),
      queue_(options_.batch_size, options_.max_portions),
      thread_([this] { Run(); }) {
  CHECK(depth_ > 0, "at least one batch is assembled ahead");
}

Prefetcher::~Prefetcher() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
  }
  work_.NotifyAll();
  thread_.join();
}

absl::Status Prefetcher::Add(const Portion& portion) {
  RETURN_IF_ERROR(assembler_.Check(portion));
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(queue_.Add(portion));
  examples_ahead_ += portion.size();
  work_.NotifyAll();
  return absl::OkStatus();
}

void Prefetcher::NoMore() {
  MutexLock lock(&mutex_);
  queue_.NoMore();
  work_.NotifyAll();
}

absl::StatusOr<BatchSource::NextBatch> Prefetcher::Next() {
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(NextBatch next, TakeLocked());
  awaited_ = next.state == NextBatch::kNotYet;
  return next;
}

absl::StatusOr<BatchSource::NextBatch> Prefetcher::WaitForNext(
    absl::Duration timeout) {
  const Time deadline = MonotonicNow() + timeout;
  MutexLock lock(&mutex_);
  while (true) {
    ASSIGN_OR_RETURN(NextBatch next, TakeLocked());
    if (next.state != NextBatch::kNotYet) return next;
    const absl::Duration left = deadline - MonotonicNow();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat("no batch came within ", absl::FormatDuration(timeout),
                       ": the prefetch thread is ", ActivityLocked()));
    }
    ready_changed_.WaitFor(&mutex_, left);
  }
}

void Prefetcher::Recycle(std::unique_ptr<Batch> batch) {
  MutexLock lock(&mutex_);
  if (spares_.size() <= depth_) spares_.push_back(std::move(batch));
}

uint64_t Prefetcher::examples_ahead() const {
  MutexLock lock(&mutex_);
  return examples_ahead_;
}

std::string Prefetcher::activity() const {
  MutexLock lock(&mutex_);
  return ActivityLocked();
}

void Prefetcher::Run() {
  bool running = true;
  while (running) {
    std::unique_ptr<Batch> batch;
    absl::optional<Portion> range;
    {
      MutexLock lock(&mutex_);
      range = WaitForWorkLocked();
      assembling_ = range;
      if (range.has_value()) batch = TakeSpareLocked();
    }
    absl::Status status;
    if (range.has_value()) status = assembler_.Assemble(*range, batch.get());
    running = range.has_value() && status.ok();
    bool call = false;
    {
      MutexLock lock(&mutex_);
      assembling_.reset();
      if (running) ready_.push_back(std::move(batch));
      status_ = std::move(status);
      call = PublishLocked();
    }
    if (call) options_.on_ready();
  }
}

absl::optional<Portion> Prefetcher::WaitForWorkLocked() {
  while (!stop_ && !queue_.ended()) {
    if (ready_.size() < depth_ && queue_.examples() > 0) return queue_.Take();
    work_.Wait(&mutex_);
  }
  return absl::nullopt;
}

bool Prefetcher::EndedLocked() const {
  return queue_.ended() && !assembling_.has_value() && ready_.empty();
}

absl::StatusOr<BatchSource::NextBatch> Prefetcher::TakeLocked() {
  NextBatch next;
  if (!ready_.empty()) {
    next.state = NextBatch::kBatch;
    next.batch = std::move(ready_.front());
    ready_.pop_front();
    examples_ahead_ -= next.batch->range.size();
    work_.NotifyAll();
    return next;
  }
  RETURN_IF_ERROR(status_);
  next.state = EndedLocked() ? NextBatch::kEnd : NextBatch::kNotYet;
  return next;
}

std::string Prefetcher::ActivityLocked() const {
  if (!status_.ok()) return "stopped by an error";
  if (assembling_.has_value()) {
    return absl::StrCat("assembling ", RangeText(*assembling_));
  }
  if (queue_.ended()) return "at the end of the input";
  if (queue_.examples() == 0) return "waiting for a portion of the input";
  if (ready_.size() >= depth_) {
    return absl::StrCat("waiting for one of ", ready_.size(),
                        " finished batches to be taken");
  }
  return "about to start";
}

std::unique_ptr<Batch> Prefetcher::TakeSpareLocked() {
  if (spares_.empty()) return std::make_unique<Batch>();
  std::unique_ptr<Batch> batch = std::move(spares_.back());
  spares_.pop_back();
  return batch;
}

bool Prefetcher::PublishLocked() {
  ready_changed_.NotifyAll();
  return std::exchange(awaited_, false) && !stop_ &&
         options_.on_ready != nullptr;
}

}  // namespace paramd
