#include "process/terminal/remaining_time.h"

namespace paramd {
namespace {

constexpr absl::Duration kWindow = absl::Minutes(1);
constexpr absl::Duration kPeriod = absl::Seconds(1);

}  // namespace

absl::optional<absl::Duration> RemainingTime::Take(double done, double all,
                                                   Time now) {
  if (!samples_.empty() && done < samples_.back().done) samples_.clear();
  if (samples_.empty() || now - samples_.back().at >= kPeriod) {
    samples_.push_back({now, done});
  }
  while (now - samples_.front().at > kWindow) samples_.pop_front();
  const double gained = done - samples_.front().done;
  if (gained <= 0 || done >= all) return absl::nullopt;
  return (now - samples_.front().at) * ((all - done) / gained);
}

}  // namespace paramd
