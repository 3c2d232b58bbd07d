#ifndef PARAMD_INPUT_STAGE_CLOCK_H_
#define PARAMD_INPUT_STAGE_CLOCK_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

#include "base/chrome_trace.h"
#include "base/clock.h"
#include "base/time.h"

namespace paramd {

// How long a stage takes, with what it asks of the stage before it. Costs a
// branch until Measure is called. Relaxed atomics: sums for people.
//
// Thread-safe, but for Measure, which is called before use.
class StageClock {
 public:
  // Begins to measure; with a trace, also records each call as `name` in that
  // lane.
  void Measure(const char* name, ChromeTrace* trace, ChromeTrace::Lane lane) {
    measuring_ = true;
    name_ = name;
    trace_ = trace;
    lane_ = lane;
  }

  uint64_t calls() const { return calls_.load(std::memory_order_relaxed); }
  absl::Duration total() const {
    return absl::Nanoseconds(nanoseconds_.load(std::memory_order_relaxed));
  }

  // Measures from its construction to its end.
  class Scope {
   public:
    explicit Scope(StageClock* clock)
        : clock_(clock->measuring_ && !paused_ ? clock : nullptr) {
      if (clock_ != nullptr) begin_ = MonotonicNow();
    }
    ~Scope() {
      if (clock_ != nullptr) clock_->Add(begin_, MonotonicNow());
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    StageClock* const clock_;  // Null: not measured.
    Time begin_;
  };

  // Scopes that begin on this thread while it lives are not measured, if
  // `paused`. At most one lives on a thread.
  class Pause {
   public:
    explicit Pause(bool paused) { paused_ = paused; }
    ~Pause() { paused_ = false; }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
  };

 private:
  void Add(Time begin, Time end) {
    calls_.fetch_add(1, std::memory_order_relaxed);
    nanoseconds_.fetch_add(absl::ToInt64Nanoseconds(end - begin),
                           std::memory_order_relaxed);
    if (trace_ != nullptr) trace_->Add(lane_, name_, begin, end);
  }

  static inline thread_local constinit bool paused_ = false;

  bool measuring_ = false;
  const char* name_ = "";
  ChromeTrace* trace_ = nullptr;
  ChromeTrace::Lane lane_ = ChromeTrace::Lane::kCpu;
  std::atomic<uint64_t> calls_{0};
  std::atomic<int64_t> nanoseconds_{0};
};

}  // namespace paramd

#endif  // PARAMD_INPUT_STAGE_CLOCK_H_
