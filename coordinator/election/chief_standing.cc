#include "coordinator/election/chief_standing.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

// By how much a call may end late on a busy machine.
constexpr absl::Duration kLate = absl::Seconds(1);

}  // namespace

bool WasPausedMeanwhile(Time asked, Time now, absl::Duration longest) {
  return now - asked > longest + kLate;
}

void ChiefStanding::Elected(Time asked) {
  renewed_ = asked;
  tried_ = asked;
}

ChiefStanding::May ChiefStanding::MayWrite(Time now) const {
  if (!status_.ok()) return May::kNo;
  const bool is_renewed = now - renewed_ < options_.ttl;
  // It is asked again every third of the ttl, unless that was paused too.
  const bool is_known_to_be_away =
      away_.has_value() && now - tried_ < options_.ttl + options_.longest_ask;
  return is_renewed || is_known_to_be_away ? May::kYes : May::kAsk;
}

ChiefStanding::News ChiefStanding::Hear(Time asked, Time now,
                                        const absl::StatusOr<bool>& answer) {
  if (!status_.ok()) return News::kNone;
  tried_ = now;
  if (!answer.ok()) {
    if (away_.has_value()) return News::kNone;
    away_ = {std::string(answer.status().message()), asked};
    return News::kAway;
  }
  away_.reset();
  if (*answer) {
    renewed_ = std::max(renewed_, asked);
    return News::kNone;
  }
  status_ = absl::UnavailableError(
      absl::StrCat("this process is not the chief any more: its lease in ",
                   options_.place, " has ended"));
  return News::kLost;
}

}  // namespace paramd
