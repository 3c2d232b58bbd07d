#include "compute/device/device_trace.h"

#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/chrome_trace.h"
#include "base/clock.h"

namespace paramd {
namespace {

// CUDA has a time between events as a float of milliseconds: of so short ones
// to a microsecond.
constexpr absl::Duration kLongFromBase = absl::Seconds(5);
// More wait for a stream that has stopped.
constexpr size_t kMostEnded = 100000;

constexpr ChromeTrace::Lane kLanesOfTrace[] = {ChromeTrace::Lane::kUpload,
                                               ChromeTrace::Lane::kDownload,
                                               ChromeTrace::Lane::kSum};

}  // namespace

void DeviceTrace::Start(ChromeTrace* trace, Accelerator* accelerator,
                        Accelerator::Stream stream) {
  trace_ = trace;
  accelerator_ = accelerator;
  base_ = TakeEvent();
  accelerator_->Record(base_, stream);
  accelerator_->HostWait(base_);
  base_nanoseconds_ = MonotonicNow().nanoseconds();
}

Accelerator::Event DeviceTrace::TakeEvent() {
  if (free_.empty()) return accelerator_->MakeTimedEvent();
  const Accelerator::Event event = free_.back();
  free_.pop_back();
  return event;
}

void DeviceTrace::Begin(Lane lane, Accelerator::Stream stream) {
  Span& span = open_[static_cast<size_t>(lane)];
  if (trace_ == nullptr || span.what != nullptr) return;
  span = {lane, what_, TakeEvent(), TakeEvent()};
  accelerator_->Record(span.begin, stream);
}

void DeviceTrace::End(Lane lane, Accelerator::Stream stream) {
  Span& span = open_[static_cast<size_t>(lane)];
  if (span.what == nullptr) return;
  accelerator_->Record(span.end, stream);
  if (ended_.size() < kMostEnded) ended_.push_back(span);
  span.what = nullptr;
}

void DeviceTrace::Report() {
  if (ended_.empty()) return;
  std::vector<Span> waiting;
  for (const Span& span : ended_) {
    const auto end = accelerator_->Since(base_, span.end);
    const auto begin = accelerator_->Since(base_, span.begin);
    if (!end.has_value() || !begin.has_value()) {
      waiting.push_back(span);
      continue;
    }
    const Time base = Time::FromNanoseconds(base_nanoseconds_);
    trace_->Add(kLanesOfTrace[static_cast<size_t>(span.lane)], span.what,
                base + *begin, base + *end);
    free_.push_back(span.begin);
    free_.push_back(span.end);
    if (*end < kLongFromBase) continue;
    free_.back() = base_;
    base_ = span.end;
    base_nanoseconds_ += absl::ToInt64Nanoseconds(*end);
  }
  ended_ = std::move(waiting);
}

}  // namespace paramd
