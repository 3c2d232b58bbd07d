#ifndef PARAMD_WORKER_INPUT_STAGE_CLOCK_H_
#define PARAMD_WORKER_INPUT_STAGE_CLOCK_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "base/mutex.h"

namespace paramd {

// What happened when, on which thread, for a file that Chrome's tracing pages
// and Perfetto show. Keeps the first kMost events and counts the others.
//
// Thread-safe.
class InputTrace {
 public:
  static constexpr size_t kMost = 1 << 20;

  // `name` lives as long as the trace and has no quotes.
  void Add(const char* name, Time begin, Time end);
  // The JSON text of the trace-event format.
  std::string ToJson() const;
  uint64_t left_out() const;

 private:
  struct Event {
    const char* name;
    uint32_t lane;  // One for each thread.
    Time begin;
    Time end;
  };
  mutable Mutex mutex_;
  std::vector<Event> events_ ABSL_GUARDED_BY(mutex_);
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

// How long a stage takes, with what it asks of the stage before it. Costs a
// branch until Measure is called. Relaxed atomics: sums for people.
//
// Thread-safe, but for Measure, which is called before use.
class StageClock {
 public:
  // Begins to measure; with a trace, also records each call as `name`.
  void Measure(const char* name, InputTrace* trace) {
    measuring_ = true;
    name_ = name;
    trace_ = trace;
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
    if (trace_ != nullptr) trace_->Add(name_, begin, end);
  }

  static inline thread_local constinit bool paused_ = false;

  bool measuring_ = false;
  const char* name_ = "";
  InputTrace* trace_ = nullptr;
  std::atomic<uint64_t> calls_{0};
  std::atomic<int64_t> nanoseconds_{0};
};

}  // namespace paramd

#endif  // PARAMD_WORKER_INPUT_STAGE_CLOCK_H_
