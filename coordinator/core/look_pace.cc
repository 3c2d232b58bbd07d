#include "coordinator/core/look_pace.h"

#include <algorithm>
#include <utility>

namespace paramd {
namespace {

// To look takes up to a microsecond for each member, and they are as many as
// what they say in a second.
constexpr absl::Duration kLookPerMember = absl::Microseconds(5);
// Between two looks at all members of a job that is quiet: of a large one they
// take one part in fifty of a processor.
constexpr absl::Duration kQuietPerMember = absl::Microseconds(50);
constexpr absl::Duration kQuietLook = absl::Milliseconds(100);
// Before that is over: of what others wait for, if not too much comes at once.
constexpr int kMostUrgent = 8;
// To tell all members of a configuration takes a message both ways for each,
// and those of most take a transport more than this.
constexpr absl::Duration kTellingPerMember = absl::Microseconds(50);
constexpr absl::Duration kLongestWait = absl::Milliseconds(500);

}  // namespace

size_t LookPace::Members() const {
  return parts_.servers.all().size() + parts_.sessions.all().size() +
         parts_.joins.all().size();
}

absl::Duration LookPace::PerMember(absl::Duration each) const {
  return HasManyMembers() ? static_cast<int64_t>(Members()) * each
                          : absl::ZeroDuration();
}

uint64_t LookPace::Version() const {
  return parts_.configuration.get().version().counter();
}

Time LookPace::MayLook() const {
  const absl::Duration pace = PerMember(kLookPerMember);
  if (!is_quiet_ || hurries_) return looked_ + pace;
  return looked_ + std::clamp(PerMember(kQuietPerMember),
                              std::max(kQuietLook, pace),
                              std::max(kLongestWait, pace));
}

Time LookPace::NextTelling() const {
  const bool somebody_waits =
      !patient_.empty() ||
      (!parts_.joins.all().empty() && looked_ < next_telling_);
  return somebody_waits
             ? std::max(next_telling_, looked_ + PerMember(kLookPerMember))
             : Time::Never();
}

bool LookPace::IsDue(Event event, Time now) {
  has_more_ = true;
  hurries_ |= event != Event::kUsual || HasNewVersion() || NextTelling() <= now;
  is_quiet_ = is_quiet_ && parts_.IsQuiet();
  const bool is_too_soon = now < looked_ + PerMember(kLookPerMember);
  if (!is_too_soon) urgent_ = 0;
  const bool is_urgent = event == Event::kUrgent;
  return now >= MayLook() ||
         (is_urgent && (!is_too_soon || ++urgent_ <= kMostUrgent));
}

void LookPace::Begin() { told_version_ = Version(); }

void LookPace::End(Time next_due, Time now) {
  looked_ = now;
  next_due_ = next_due;
  is_quiet_ = HasManyMembers() && parts_.IsQuiet();
  // Some may not have been told of what has changed with this look.
  has_more_ = hurries_ = is_quiet_ && HasNewVersion();
  const bool is_new = Version() != std::exchange(paced_version_, Version());
  // What waits already waits no longer for one that could not.
  if (!is_new || !MayTell(now)) return;
  next_telling_ = now + std::min(PerMember(kTellingPerMember), kLongestWait);
}

Time LookPace::next() const {
  const Time may = MayLook();
  return std::min(has_more_ ? may : std::max(next_due_, may), NextTelling());
}

}  // namespace paramd
