#ifndef PARAMD_NET_BUSY_POLL_H_
#define PARAMD_NET_BUSY_POLL_H_

#include <cstdint>

#include "absl/time/time.h"

#include "base/time.h"

namespace paramd {

// Decides for how long a thread asks for events again and again before it
// sleeps. Where both ends of a connection sleep, each message wakes a CPU,
// which takes longer than the message itself; where an answer comes late,
// asking for it takes a CPU from others.
//
// Invariant: what asking costs beyond the sleeps that it saved is at most
// kMostLost + kPatience in each kPeriod of the machine's monotonic clock.
// Periods begin at the same moment in all its processes: an answer comes early
// only if both ends ask, so they have to try together.
//
// Not thread-safe.
class BusyPoll {
 public:
  // Longer waits are slept: what a call takes of whose two ends one sleeps.
  static constexpr absl::Duration kPatience = absl::Microseconds(200);
  // What falling asleep and being woken costs, measured; see
  // docs/decisions/0019-busy-polling.md.
  static constexpr absl::Duration kSleepCost = absl::Microseconds(80);
  static constexpr absl::Duration kPeriod = absl::Milliseconds(125);
  static constexpr absl::Duration kMostLost = absl::Milliseconds(1);

  // A wait begins: how long to ask before sleeping. Zero: sleep at once.
  absl::Duration Patience(Time now);
  // A wait was asked for that long; `came`: and then the event was there.
  void Asked(absl::Duration asked, bool came);

 private:
  int64_t period_ = -1;
  absl::Duration lost_;  // In this period; never below zero.
};

}  // namespace paramd

#endif  // PARAMD_NET_BUSY_POLL_H_
