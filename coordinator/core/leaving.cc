#include "coordinator/core/leaving.h"

#include <algorithm>

#include "proto/refusal.h"

namespace paramd {
namespace {

// Between checkpoints to leave with, should one fail.
constexpr absl::Duration kSnapshotRetry = absl::Seconds(1);

// Nobody has pushed anything yet, and nobody is there who could.
bool IsUntouched(const JobView& job) {
  return job.workers.empty() && job.progress.global_step() == 0;
}

}  // namespace

// Without a server that has left no push is whole: the checkpoint it left with
// has all there is.
bool Leaving::NeedsSnapshot(const v1::SnapshotNumber& newest,
                            const JobView& job) const {
  const bool servers_need = std::any_of(
      job.servers.begin(), job.servers.end(), [&](const ServerRecord& s) {
        return s.draining && (IsZero(s.drained_by) || newest < s.drained_by);
      });
  const bool one_has_left =
      std::any_of(job.servers.begin(), job.servers.end(),
                  [](const ServerRecord& s) { return s.drained; });
  const bool own = draining_ && !one_has_left && !IsUntouched(job) &&
                   (IsZero(number_) || newest < number_);
  return servers_need || own;
}

// Whether it drains too. An untouched server may have left at once.
bool Leaving::EveryServerWasAsked(const JobView& job) const {
  return !draining_ || std::all_of(job.servers.begin(), job.servers.end(),
                                   [&](const ServerRecord& s) {
                                     return s.drained || s.heard > started_ ||
                                            (s.suspected && IsUntouched(job));
                                   });
}

void Leaving::Advance(const v1::SnapshotNumber& newest, Turn* turn) {
  const JobView& job = turn->job;
  if (turn->out->exited || !EveryServerWasAsked(job)) return;
  if (NeedsSnapshot(newest, job)) {
    const bool all_here =
        std::none_of(job.servers.begin(), job.servers.end(),
                     [](const ServerRecord& s) { return s.suspected; });
    if (!all_here || turn->now < next_snapshot_) return;
    next_snapshot_ = turn->now + kSnapshotRetry;
    turn->Raise(SnapshotToLeaveWith{});
    return;
  }
  if (stopping_) {
    turn->Raise(AllIsSaved{});
    return;
  }
  const bool servers_know = std::all_of(
      job.servers.begin(), job.servers.end(),
      [](const ServerRecord& s) { return s.drained || !s.draining; });
  if (draining_ && servers_know && !job.workers.contains(0)) {
    turn->Raise(Reached{JobPhase::kDone});
  }
}

}  // namespace paramd
