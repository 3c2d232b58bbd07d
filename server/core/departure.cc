#include "server/core/departure.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "proto/job_end.h"
#include "proto/member_name.h"
#include "proto/refusal.h"
#include "server/core/backup_stream.h"

namespace paramd {
namespace {

// Its calls come every heartbeat, a second unless told.
constexpr absl::Duration kCoordinatorSilence = absl::Seconds(5);
// A tick that is so late: this process stood still meanwhile.
constexpr absl::Duration kStoodStill = absl::Seconds(5);

}  // namespace

void Departure::Drain(ShardTurn* turn) {
  if (finished_ || draining_) return;  // On its way out already.
  const bool waits = MayBeTheLast() && !IsLeaseOver(turn->now);
  if (watched_.IsWatched(turn->now) || waits) {
    draining_ = awaits_leave_ = true;
    turn->out->Note(absl::StrCat("draining: this place of ", view_.Name(),
                                 " asks the coordinator to be let go"));
    return;
  }
  if (!HoldsPushes() || IsLeaseOver(turn->now)) return LeaveUndrained(turn);
  draining_ = true;
  turn->out->Note(absl::StrCat("draining: ", view_.Name(),
                               " asks the coordinator for a checkpoint"));
}

void Departure::DrainAsTold(ShardTurn* turn) {
  is_told_ = is_told_ || !draining_;
  Drain(turn);
}

bool Departure::is_missed() const {
  return is_told_ && !let_go_ && !finished_ &&
         (HoldsPushes() || MayBeTheLast());
}

void Departure::LetGo(ShardTurn* turn) {
  if (finished_ || !draining_) return;
  let_go_ = true;
  turn->out->Note(absl::StrCat("drained: the other place of ", view_.Name(),
                               " has all that this one had"));
  turn->out->Exit(absl::OkStatus());
}

// Before the job runs nothing is applied to what it was filled with.
bool Departure::HoldsPushes() const {
  return view_.IsFilled() && view_.configuration.state() != v1::STARTING;
}

// Another coordinator begins without backups: it would never let this one go.
bool Departure::MayBeTheLast() const {
  const v1::Configuration& known = view_.configuration;
  return view_.fill_state == FillState::kBackup && !server_is_there_ &&
         known.state() != v1::STARTING && known.version().term() == view_.term;
}

// One that leaves itself goes when what it holds is saved, or says what is
// lost. Else only what answers something that was heard here since shows that
// it is there: a call may take long to arrive.
void Departure::HearServer(const v1::ReplicateRequest& told) {
  if (told.number() == 1) {  // To another backup.
    heard_before_ = 0;
    server_is_there_ = false;
  }
  if (!draining_) heard_before_ = told.number();
  server_is_there_ = server_is_there_ || told.leaving() ||
                     told.number() > heard_before_ + BackupStream::kMostCalls;
}

bool Departure::IsLeaseOver(Time now) const {
  return now - heard_ > view_.settings().lease;
}

bool Departure::IsForgotten(Time now) const {
  return awaits_leave_ && !HoldsPushes() && !MayBeTheLast() &&
         !watched_.IsWatched(now);
}

void Departure::LeaveUndrained(ShardTurn* turn) const {
  if (HoldsPushes()) {
    turn->out->Note(absl::StrCat(
        view_.Name(), " leaves without a checkpoint: no coordinator for ",
        absl::FormatDuration(turn->now - heard_),
        "; what came after the last one is lost"));
  } else if (MayBeTheLast()) {
    turn->out->Note(absl::StrCat(
        "the backup of ", view_.Name(), " leaves: no coordinator for ",
        absl::FormatDuration(turn->now - heard_), " has said whether ",
        view_.Name(),
        " is there; if it is not, what came after the last checkpoint is "
        "lost"));
  }
  turn->out->Exit(absl::OkStatus());
}

void Departure::OnFinish(const v1::FinishRequest& request, ShardTurn* turn) {
  if (!finished_) {
    leave_at_ = turn->now + view_.settings().finish_timeout;
    end_ = request.finished();
  }
  finished_ = true;
  if (request.everybody_knows()) {
    leave_at_ = Time::Never();
    turn->out->Exit(EndFor(end_));
  }
}

bool Departure::GivesUp(ShardTurn* turn) {
  if (finished_) return false;
  if (draining_ && (IsLeaseOver(turn->now) || IsForgotten(turn->now))) {
    LeaveUndrained(turn);
    return true;
  }
  if (turn->now < LosesPatience()) return false;
  if (turn->now > LosesPatience() + kStoodStill) {
    heard_ = turn->now;  // The silence was not the coordinator's.
    return false;
  }
  turn->out->Exit(absl::UnavailableError(
      absl::StrCat(view_.Name(), " has not heard of a coordinator for ",
                   absl::FormatDuration(LosesPatience() - heard_),
                   ": is the chief running?")));
  return true;
}

void Departure::Advance(ShardTurn* turn) {
  if (turn->now < leave_at_) return;
  leave_at_ = Time::Never();
  turn->out->Exit(EndFor(end_));
}

Time Departure::next_tick() const {
  if (finished_) return leave_at_;
  Time next = LosesPatience();
  if (draining_) {
    next =
        std::min(next, heard_ + view_.settings().lease + absl::Milliseconds(1));
    if (awaits_leave_ && !HoldsPushes() && !MayBeTheLast()) {
      next = std::min(next, watched_.watched_until());
    }
  }
  return next;
}

Time Departure::LosesPatience() const {
  return heard_ + (IsZero(view_.configuration.version())
                       ? view_.options.start_timeout
                       : view_.options.coordinator_patience);
}

std::string Departure::WaitsToBeSaved() const {
  if (!draining_ || finished_) return "";
  if (awaits_leave_) {
    return absl::StrCat("the coordinator to let this place of ", view_.Name(),
                        " go");
  }
  return absl::StrCat("the coordinator to save ",
                      ServerName(view_.options.index, view_.generation));
}

std::string Departure::WaitsToBeCalled(Time now) const {
  if (finished_ || now - heard_ < kCoordinatorSilence) return "";
  return IsZero(view_.configuration.version())
             ? absl::StrCat("the coordinator, in the chief's process, to call ",
                            view_.Name())
             : "the coordinator to call again";
}

}  // namespace paramd
