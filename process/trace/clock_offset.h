#ifndef PARAMD_PROCESS_TRACE_CLOCK_OFFSET_H_
#define PARAMD_PROCESS_TRACE_CLOCK_OFFSET_H_

#include <cstdint>

#include "absl/time/time.h"

#include "base/time.h"

namespace paramd {

// Where another process's monotonic clock stands against ours, from calls whose
// answers said what it showed. The answer was given somewhere between sending
// and receiving, so half the round trip is what the middle may be wrong by at
// most: the call with the shortest counts (Cristian, "Probabilistic clock
// synchronization", Distributed Computing 3, 1989). Clocks are taken to run
// equally fast as long as that is measured.
//
// Not thread-safe.
class ClockOffset {
 public:
  // A call was sent and its answer received then, by our clock; the answer says
  // `there_ns`. One that was received before it was sent is ignored.
  void Add(Time sent, Time received, int64_t there_ns);

  bool is_known() const { return calls_ > 0; }
  int calls() const { return calls_; }
  // What their clock shows more than ours. Zero if it is not known.
  absl::Duration offset() const { return absl::Nanoseconds(offset_ns_); }
  // How wrong that may be, either way. REQUIRES: is_known().
  absl::Duration error() const { return round_trip_ / 2; }
  // By our clock.
  Time ToOurs(int64_t there_ns) const {
    return Time::FromNanoseconds(there_ns - offset_ns_);
  }

 private:
  int calls_ = 0;
  int64_t offset_ns_ = 0;
  absl::Duration round_trip_ = absl::InfiniteDuration();
};

}  // namespace paramd

#endif  // PARAMD_PROCESS_TRACE_CLOCK_OFFSET_H_
