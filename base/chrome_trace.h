#ifndef PARAMD_BASE_CHROME_TRACE_H_
#define PARAMD_BASE_CHROME_TRACE_H_

#include <array>
#include <atomic>
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

// What happened when in a process, for a file that https://ui.perfetto.dev and
// chrome://tracing show: a lane for each kind of work, or for each thread that
// does it. Keeps the first kMost events of each kind from its beginning, and,
// besides, those of some seconds when it is told to (Record): the first
// kMostRecorded of all kinds. Counts the others.
//
// Where it keeps nothing now, an event costs a relaxed load: whether one that
// falls on the edge is kept is nobody's concern, and what is kept lies behind
// the mutex.
//
// Times are those of the machine's monotonic clock, so files of processes of
// one machine can be joined. Thread-safe.
class ChromeTrace {
 public:
  // Whether it keeps events from its beginning, or only when it is told to.
  enum class Keeps : uint8_t { kAll, kWhatIsAskedFor };
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
    kCalls,     // Taken from the network; in recordings alone, as the next.
    kTurns,     // Of cores.
  };
  static constexpr size_t kLanes = 11;
  static constexpr size_t kMost = size_t{1} << 18;
  // Together with what they say of themselves some 20 MiB.
  static constexpr size_t kMostRecorded = size_t{1} << 17;

  // What an event says of itself: "push" is 17.
  struct Number {
    const char* name;
    uint64_t value;
  };
  // Something that is on its way through processes, by an id that is the same
  // in all of them, and passed in an event.
  enum class Phase : uint8_t { kStart, kStep, kEnd };
  struct Flow {
    uint64_t id;
    Phase phase;
  };
  // Names live until the trace is closed, and as long as it if it keeps all;
  // they have nothing that JSON escapes.
  struct Event {
    Lane lane = Lane::kTurns;
    const char* name = "";
    uint32_t thread = 0;  // Filled in by Add.
    Time begin = {};
    Time end = {};
    std::vector<Number> numbers = {};
    std::vector<Flow> flows = {};
  };
  struct Recording {
    std::vector<Event> events;
    uint64_t left_out = 0;
  };

  // `number` tells the processes of joined files apart.
  explicit ChromeTrace(std::string process, uint32_t number = 0,
                       Keeps keeps = Keeps::kAll)
      : process_(std::move(process)),
        number_(number),
        keeps_all_(keeps == Keeps::kAll) {}

  // "compute".
  static const char* NameOf(Lane lane);

  bool keeps_all() const { return keeps_all_; }
  bool is_recording() const {
    return recording_.load(std::memory_order_relaxed);
  }
  // An event that is added now would be kept.
  bool is_on() const { return keeps_all_ || is_recording(); }

  // The thread is the one that adds it.
  void Add(Lane lane, const char* name, Time begin, Time end) {
    if (is_on()) Keep({lane, name, 0, begin, end, {}, {}});
  }
  // Of one that is for a recording alone.
  void AddRecorded(Event event) ABSL_LOCKS_EXCLUDED(mutex_);

  // Keeps what has begun before `until`, and ends by itself. What an earlier
  // recording had is dropped. Nothing once it is closed.
  void Record(Time until) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the recording, and hands it over.
  Recording TakeRecording() ABSL_LOCKS_EXCLUDED(mutex_);
  // Those who own names end: nothing is recorded any more.
  void CloseRecording() ABSL_LOCKS_EXCLUDED(mutex_);

  // Adds from its construction to its end; nothing if `trace` is null, or keeps
  // nothing when it begins.
  class Scope {
   public:
    Scope(ChromeTrace* trace, Lane lane, const char* name)
        : trace_(trace != nullptr && trace->is_on() ? trace : nullptr),
          lane_(lane),
          name_(name) {
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

  // The JSON text of the trace-event format, of what it keeps from its
  // beginning: a line, an event for each further one, a line.
  std::string ToJson() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Events that were not kept of those.
  uint64_t left_out() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Replaces the file. INVALID_ARGUMENT if it can't be written.
  absl::Status WriteTo(const std::string& path) const;

 private:
  struct KeptEvent {
    const char* name;
    uint32_t thread;
    Time begin;
    Time end;
  };

  void Keep(Event event) ABSL_LOCKS_EXCLUDED(mutex_);
  void RecordLocked(Event event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string process_;
  const uint32_t number_;
  const bool keeps_all_;
  std::atomic<bool> recording_{false};
  mutable Mutex mutex_;
  std::array<std::vector<KeptEvent>, kLanes> events_ ABSL_GUARDED_BY(mutex_);
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  Time until_ ABSL_GUARDED_BY(mutex_);
  // Events, and what passed in them.
  size_t recorded_ ABSL_GUARDED_BY(mutex_) = 0;
  Recording recording_now_ ABSL_GUARDED_BY(mutex_);
};

// Writes what the files of several traces have into one. INVALID_ARGUMENT if
// one is no such file or the new one can't be written.
absl::Status JoinTraces(const std::vector<std::string>& paths,
                        const std::string& into);

}  // namespace paramd

#endif  // PARAMD_BASE_CHROME_TRACE_H_
