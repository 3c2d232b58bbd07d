#ifndef PARAMD_WORKER_CHROME_TRACE_H_
#define PARAMD_WORKER_CHROME_TRACE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "base/time.h"

namespace paramd {

// What happened when in a worker, for a file that https://ui.perfetto.dev and
// chrome://tracing show: a lane for each kind of work, or for each thread that
// does it. Keeps the first kMost events of each kind and counts the others.
//
// Times are those of the machine's monotonic clock, so files of processes of
// one machine can be joined. Thread-safe.
class ChromeTrace {
 public:
  enum class Lane : uint8_t {
    kDisk,     // Reading examples.
    kCpu,      // The stages after that.
    kCompute,  // The model's steps.
    kPush,     // From the first byte sent to the last acknowledgement.
    kPull,
    kEvaluate,
    kUpload,    // From host memory to a GPU's.
    kDownload,  // Back.
    kSum,       // With the GPUs of the other replicas.
  };
  static constexpr size_t kLanes = 9;
  static constexpr size_t kMost = size_t{1} << 18;

  // `number` tells the processes of joined files apart.
  explicit ChromeTrace(std::string process, uint32_t number = 0)
      : process_(std::move(process)), number_(number) {}

  // `name` lives as long as the trace and has nothing that JSON escapes.
  void Add(Lane lane, const char* name, Time begin, Time end);

  // Adds from its construction to its end; nothing if `trace` is null.
  class Scope {
   public:
    Scope(ChromeTrace* trace, Lane lane, const char* name)
        : trace_(trace), lane_(lane), name_(name) {
      if (trace_ != nullptr) begin_ = MonotonicNow();
    }
    ~Scope() {
      if (trace_ != nullptr) trace_->Add(lane_, name_, begin_, MonotonicNow());
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ChromeTrace* const trace_;
    const Lane lane_;
    const char* const name_;
    Time begin_;
  };

  // The JSON text of the trace-event format: a line, an event for each further
  // one, a line.
  std::string ToJson() const;
  // Events that were not kept.
  uint64_t left_out() const;
  // Replaces the file. INVALID_ARGUMENT if it can't be written.
  absl::Status WriteTo(const std::string& path) const;

 private:
  struct Event {
    const char* name;
    uint32_t thread;
    Time begin;
    Time end;
  };

  const std::string process_;
  const uint32_t number_;
  mutable Mutex mutex_;
  std::array<std::vector<Event>, kLanes> events_ ABSL_GUARDED_BY(mutex_);
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Writes what the files of several traces have into one. INVALID_ARGUMENT if
// one is no such file or the new one can't be written.
absl::Status JoinTraces(const std::vector<std::string>& paths,
                        const std::string& into);

}  // namespace paramd

#endif  // PARAMD_WORKER_CHROME_TRACE_H_
