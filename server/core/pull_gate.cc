#include "server/core/pull_gate.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "proto/member_name.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

// While workers are waited for each is heard every heartbeat, at most a third
// of the lease: where nobody is for longer, it is this process that stood
// still.
constexpr absl::Duration kLongestTurn = absl::Milliseconds(500);
// Where parking is over its limit.
constexpr absl::Duration kRetryAfter = absl::Milliseconds(100);

}  // namespace

void PullGate::Wake(Time now) {
  const absl::Duration pause = now - std::exchange(woken_, now);
  if (!bounded_ || pause < std::max(settings_.lease / 2, kLongestTurn)) return;
  clocks_.Forgive(pause);
}

void PullGate::Configure(const v1::Configuration& configuration, Time now) {
  const v1::Consistency& consistency = configuration.consistency();
  const bool was_bounded =
      std::exchange(bounded_, consistency.mode() == v1::Consistency::BOUNDED);
  is_sync_ = consistency.mode() == v1::Consistency::SYNC;
  bound_ = consistency.bound();
  settings_ = ServerSettingsIn(configuration);
  sessions_ = configuration.workers_size();
  clocks_.Configure(configuration, now);
  if (bounded_ && !was_bounded) clocks_.CountAll(now);
}

void PullGate::Hear(const v1::Header& header, uint64_t clock, Time now) {
  if (bounded_) clocks_.Hear(header, clock, now);
}

void PullGate::Tell(const v1::TellClockRequest& told, Time now) {
  if (bounded_) clocks_.Tell(told, now);
}

bool PullGate::MustWait(const v1::PullRequest& pull, Time now) const {
  if (!Watches(pull)) return false;
  if (is_sync_) return sync_ == nullptr || sync_->step() < pull.after_step();
  const auto slowest = clocks_.slowest(now);
  return slowest.has_value() && pull.clock() > bound_ &&
         pull.clock() - bound_ > slowest->clock;
}

absl::Status PullGate::Park(CallId call, const v1::PullRequest& pull, Time now,
                            BufferChain rows) {
  const size_t most = sessions_ * kMostParkedEach;
  if (parked_.size() >= most) {
    v1::Refusal refusal;
    refusal.set_reason(v1::Refusal::OVER_LIMIT);
    refusal.set_entity("parked pulls");
    refusal.set_retry_after_ms(absl::ToInt64Milliseconds(kRetryAfter));
    return Refuse(refusal,
                  absl::StrCat(most, " pulls wait for slower workers at ",
                               server_, ", which is the limit"));
  }
  ++pulls_parked_;
  parked_.push_back({call, pull, std::move(rows), now});
  return absl::OkStatus();
}

template <typename Wanted>
std::vector<PullGate::Parked> PullGate::Take(Wanted wanted, Time now) {
  std::vector<Parked> taken;
  std::vector<Parked> kept;
  for (Parked& parked : parked_) {
    if (wanted(parked)) {
      waited_ += now - parked.since;
      taken.push_back(std::move(parked));
    } else {
      kept.push_back(std::move(parked));
    }
  }
  parked_ = std::move(kept);
  return taken;
}

std::vector<PullGate::Parked> PullGate::TakeFree(const Predicate& hopeless,
                                                 Time now) {
  if (parked_.empty()) return {};
  return Take(
      [&](const Parked& p) {
        return !MustWait(p.request, now) || hopeless(p.request);
      },
      now);
}

std::vector<PullGate::Parked> PullGate::TakeLate(Time now) {
  if (parked_.empty()) return {};
  return Take(
      [&](const Parked& p) { return p.since + settings_.park_timeout <= now; },
      now);
}

absl::Status PullGate::WhyWait(const v1::PullRequest& pull, Time now) const {
  const std::string reader =
      WorkerName(pull.header().worker(), pull.header().generation());
  if (is_sync_) {
    const std::string whom =
        sync_ == nullptr ? "the coordinator" : sync_->waiting_for();
    return RefuseForNow(
        v1::Refusal::WAIT, whom, absl::ZeroDuration(),
        absl::StrCat(reader, " reads after step ", pull.after_step(),
                     " and waits for ", whom));
  }
  const auto slowest = clocks_.slowest(now);
  const std::string whom = WorkerName(slowest->worker, slowest->generation);
  v1::Refusal refusal;
  refusal.set_reason(v1::Refusal::WAIT);
  refusal.set_entity(reader);
  refusal.set_waiting_for(whom);
  return Refuse(
      refusal,
      absl::StrCat(reader, " is at clock ", pull.clock(), ", more than ",
                   bound_, " ahead of ", whom, ", which is at clock ",
                   slowest->clock, " and was heard ",
                   absl::FormatDuration(absl::Trunc(now - slowest->heard,
                                                    absl::Milliseconds(1))),
                   " ago by ", server_));
}

Time PullGate::next_tick() const {
  if (parked_.empty()) return Time::Never();
  return std::min(parked_.front().since + settings_.park_timeout,
                  clocks_.next_expiry(woken_));
}

std::string PullGate::overdue(Time now, absl::Duration patience) const {
  if (parked_.empty() || now - parked_.front().since <= patience) return "";
  if (is_sync_) return sync_ == nullptr ? "" : sync_->waiting_for();
  const auto slowest = clocks_.slowest(now);
  if (!slowest.has_value()) return "";
  return absl::StrCat(WorkerName(slowest->worker, slowest->generation),
                      ", the slowest: others may be ", bound_,
                      " pushes ahead of it at most");
}

void PullGate::FillStatus(v1::ServerStats* stats) const {
  absl::Duration waited = waited_;
  for (const Parked& parked : parked_) waited += woken_ - parked.since;
  stats->set_pulls_parked(pulls_parked_);
  stats->set_pulls_waiting(parked_.size());
  stats->set_pull_wait_seconds(absl::ToDoubleSeconds(waited));
}

}  // namespace paramd
