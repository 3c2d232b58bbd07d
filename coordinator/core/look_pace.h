#ifndef PARAMD_COORDINATOR_CORE_LOOK_PACE_H_
#define PARAMD_COORDINATOR_CORE_LOOK_PACE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "base/time.h"
#include "coordinator/core/coordinator_parts.h"
#include "coordinator/core/pending_work.h"
#include "tensor/core.h"

namespace paramd {

// When a coordinator looks at all members of its job, and when it makes another
// configuration, which is told to all of them.
//
// In a job of more than `few_members` a look comes at most once in 5
// microseconds for each of them, so that its share of a processor does not grow
// with the job. Failures and finished entries of the log do not wait, unless
// there are many at once. While the job is quiet, a look comes once in 50
// microseconds for each member, and not before 100 ms, or as above where
// something else than usual happens.
//
// What makes another configuration, and may wait, is done together with what
// comes within 50 microseconds for each member since everybody was told, or
// half a second: members that join, fences, and backups that have everything.
// One that can't wait and comes in that time does not make it longer. To wait
// is as if the log took longer.
//
// Not thread-safe: a part of a Dispatcher.
class LookPace {
 public:
  enum class Event { kUsual, kOther, kUrgent };
  // What follows from an entry of the log.
  struct Patient {
    IoHandler handler;
    IoResult result;
  };

  // `parts` outlives it.
  explicit LookPace(const CoordinatorParts& parts) : parts_(parts) {}

  // Something has happened. Whether all members are to be looked at now.
  bool IsDue(Event event, Time now);
  // A look begins; and it is over, and something is due by itself at
  // `next_due`.
  void Begin();
  void End(Time next_due, Time now);
  // Another configuration has come of something else than a look.
  void NoticeNewVersion() { hurries_ |= HasNewVersion(); }
  // When the next look is due, if nothing else happens.
  Time next() const;
  // As of the last look, and since.
  bool is_quiet() const { return is_quiet_; }

  // Whether another configuration may be made of what can wait.
  bool MayTell(Time now) const { return now >= next_telling_; }
  // It waits until then, after those that wait already.
  void Keep(Patient patient) { patient_.push_back(std::move(patient)); }
  // In the order of the log.
  std::vector<Patient> TakeKept() { return std::exchange(patient_, {}); }

 private:
  size_t Members() const;
  bool HasManyMembers() const { return Members() > parts_.options.few_members; }
  // That time for each member of a job of many; else none.
  absl::Duration PerMember(absl::Duration each) const;
  uint64_t Version() const;
  // Of the configuration, since everybody was last told.
  bool HasNewVersion() const { return Version() != told_version_; }
  // When all members may be looked at again, if that is not urgent.
  Time MayLook() const;
  // When what waits for another configuration is to be done; Never(): nothing
  // does.
  Time NextTelling() const;

  const CoordinatorParts& parts_;
  uint64_t told_version_ = 0;   // When the last look began.
  uint64_t paced_version_ = 0;  // When it was over.
  Time next_telling_;
  std::vector<Patient> patient_;   // Bound: one for each worker and server.
  Time next_due_ = Time::Never();  // As of the last look.
  Time looked_;                    // When that was.
  bool is_quiet_ = false;          // Then, and since.
  bool has_more_ = false;          // Events since the last look.
  bool hurries_ = false;           // Some were not usual.
  int urgent_ = 0;                 // Looks before the pace let them.
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_LOOK_PACE_H_
