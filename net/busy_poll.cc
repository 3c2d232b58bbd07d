#include "net/busy_poll.h"

#include <algorithm>

namespace paramd {

absl::Duration BusyPoll::Patience(Time now) {
  const int64_t period = now.nanoseconds() / absl::ToInt64Nanoseconds(kPeriod);
  if (period != period_) {
    period_ = period;
    lost_ = absl::ZeroDuration();
  }
  return lost_ < kMostLost ? kPatience : absl::ZeroDuration();
}

void BusyPoll::Asked(absl::Duration asked, bool came) {
  // Beyond its patience the thread did not run: that is nobody's cost.
  lost_ += std::min(asked, kPatience);
  if (came) lost_ -= kSleepCost;
  lost_ = std::max(lost_, absl::ZeroDuration());
}

}  // namespace paramd
