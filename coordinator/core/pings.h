#ifndef PARAMD_COORDINATOR_CORE_PINGS_H_
#define PARAMD_COORDINATOR_CORE_PINGS_H_

#include <cstdint>
#include <vector>

#include "coordinator/core/turn.h"

namespace paramd {

// With replication: asks all places of servers far more often whether anybody
// is there than they are told anything, with as little as can be asked. So a
// process that ends is missed at once, and not with its next configuration.
//
// Bound: one call for each place.
//
// Not thread-safe: a part of the coordinator's core.
class Pings {
 public:
  // Several times as often as whoever pushes would notice.
  static constexpr absl::Duration kEvery = absl::Milliseconds(100);

  // Without places it does nothing.
  explicit Pings(const CoordinatorOptions& options);

  enum class Answer { kNone, kSomebody, kNobody };
  // To a call that it made: whether anybody is in that place; kNone: it is no
  // answer to one.
  Answer OnReply(const Message& message, const Turn& turn);
  // Asks those that are due.
  void Advance(Turn* turn);
  Time next_tick(const JobView& job) const;

 private:
  struct Place {
    uint32_t peer = 0;
    CallId call = 0;  // 0: none.
    Time next;
  };
  static bool IsTime(const JobView& job);

  std::vector<Place> places_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_PINGS_H_
