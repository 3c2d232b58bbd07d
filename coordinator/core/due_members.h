#ifndef PARAMD_COORDINATOR_CORE_DUE_MEMBERS_H_
#define PARAMD_COORDINATOR_CORE_DUE_MEMBERS_H_

#include <cstdint>
#include <vector>

#include "absl/types/optional.h"

#include "base/time.h"
#include "coordinator/core/coordinator_parts.h"
#include "coordinator/core/fact_router.h"
#include "tensor/message.h"

namespace paramd {

// Which members of a large job have something to do, and when. So a message is
// followed by a look at its sender alone, and time that passes by a look at
// those whose time has come.
//
// What it knows is of the last look at all members, and of those that it has
// looked at since. What else changes for anybody is found by the next look at
// all, which therefore has to come soon.
//
// Not thread-safe: a part of a Dispatcher.
class DueMembers {
 public:
  // Both outlive it.
  DueMembers(CoordinatorParts* parts, FactRouter* facts)
      : parts_(*parts), facts_(*facts) {}

  // All members have been looked at.
  void Begin();
  // From now on all are looked at.
  void End() { due_.clear(); }
  // Does what is due for this one, who has said something; `server` is that
  // which may be in its place, if it is one of a ps.
  void AdvanceOne(PeerId from, absl::optional<uint32_t> server, Turn* turn);
  // Does what is due by now.
  void AdvanceDue(Turn* turn);
  Time next() const { return due_.empty() ? Time::Never() : due_.front().at; }

 private:
  enum class Kind : uint8_t { kServer, kPlace, kSession };
  struct Due {
    Time at;
    Kind kind;
    uint32_t index;  // Of a place: how it is called.
  };

  static bool IsLater(const Due& a, const Due& b) { return a.at > b.at; }
  Time TimeOf(Kind kind, uint32_t index) const;
  void Advance(Kind kind, uint32_t index, Turn* turn);
  // Without order: Begin makes it.
  void Add(Kind kind, uint32_t index);

  CoordinatorParts& parts_;
  FactRouter& facts_;
  // A heap, the earliest first. A member that was looked at since has a later
  // one too. Bound: the members, and those looked at since Begin.
  std::vector<Due> due_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_DUE_MEMBERS_H_
