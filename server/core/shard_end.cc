// A shard's end, what becomes of its work, and its time.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/member_name.h"
#include "proto/refusal.h"
#include "server/core/shard.h"

namespace paramd {
namespace {

// Its calls come every heartbeat, a second unless told.
constexpr absl::Duration kCoordinatorSilence = absl::Seconds(5);
// A pull that is kept for longer is told to people.
constexpr absl::Duration kPullPatience = absl::Seconds(3);

}  // namespace

absl::Status Shard::Finish(const v1::FinishRequest& request, Time now,
                           Outbox* out) {
  RETURN_IF_ERROR(CheckTerm(request.header().term()));
  term_ = request.header().term();
  EndSync(Refuse(v1::Refusal::JOB_FINISHED, Name(), "the job has finished"),
          out);
  if (!finished_) leave_at_ = now + options_.finish_timeout;
  finished_ = true;
  if (request.everybody_knows()) {
    leave_at_ = Time::Never();
    out->Exit(absl::OkStatus());
  }
  return absl::OkStatus();
}

void Shard::Drain(Time now, Outbox* out) {
  if (finished_) return;  // On its way out already.
  if (!HoldsPushes() || now - heard_ > options_.lease) {
    LeaveUndrained(now, out);
    return;
  }
  draining_ = true;
  out->Note(absl::StrCat("draining: ", Name(),
                         " asks the coordinator for a checkpoint"));
}

// Before the job runs nothing is applied to what it was filled with.
bool Shard::HoldsPushes() const {
  return state_ == State::kFilled && configuration_.state() != v1::STARTING;
}

void Shard::LeaveUndrained(Time now, Outbox* out) const {
  if (HoldsPushes()) {
    out->Note(absl::StrCat(Name(), " leaves without a checkpoint: no ",
                           "coordinator for ",
                           absl::FormatDuration(now - heard_),
                           "; what came after the last one is lost"));
  }
  out->Exit(absl::OkStatus());
}

void Shard::Completed(IoResult result, Time now, Outbox* out) {
  if (snapshot_.has_value() && result.io == snapshot_->io &&
      !snapshot_->ended) {
    const auto* written =
        dynamic_cast<const v1::WriteShardResult*>(result.head.get());
    snapshot_->ended = true;
    snapshot_->written = result.status;
    if (result.status.ok() && written == nullptr) {
      snapshot_->written = absl::InternalError("writing gave no result");
    }
    if (snapshot_->written.ok()) {
      snapshot_->file = written->file();
      if (written->unseen()) {
        snapshot_->unseen.emplace(std::move(result.payload));
      }
    }
    content_->fork().Release();
    AnswerParked(out);
  } else if (filler_ != nullptr && filler_->Wants(result.io)) {
    HearRead(result, now, out);
  }
  // Anything else is of a snapshot or a restore that was given up.
}

void Shard::Tick(Time now, Outbox* out) {
  gate_.Wake(now);
  if (content_ != nullptr) content_->spare().Tick(now);
  const uint64_t refusals = memory_.refusals();
  if (filler_ != nullptr) FillOn(now, out);
  ContinueSync(now, out);
  if (memory_.refusals() > refusals) out->CancelOldestReply();
  if (draining_ && !finished_ && now - heard_ > options_.lease) {
    LeaveUndrained(now, out);
    return;
  }
  if (!finished_ && now >= LosesPatience()) {
    out->Exit(absl::UnavailableError(absl::StrCat(
        Name(), " has not heard of a coordinator for ",
        absl::FormatDuration(LosesPatience() - heard_),
        ": is the chief running?")));
    return;
  }
  // Those parked first are due first.
  while (!parked_.empty() && parked_.front().deadline <= now) {
    AnswerWritten(parked_.front().call, out);
    parked_.erase(parked_.begin());
  }
  ReleasePulls(now, out);
  if (leave_at_ <= now) {
    leave_at_ = Time::Never();
    out->Exit(absl::OkStatus());
  }
}

Time Shard::next_tick() const {
  Time next =
      std::min({fill_at_, leave_at_, apply_at_, gate_.next_tick()});
  if (sync_ != nullptr) next = std::min(next, sync_->next_tick());
  if (content_ != nullptr) {
    next = std::min(next, content_->spare().next_tick());
  }
  if (!finished_) {
    next = std::min(next, LosesPatience());
    if (draining_) {
      next = std::min(next, heard_ + options_.lease + absl::Milliseconds(1));
    }
  }
  if (!parked_.empty()) next = std::min(next, parked_.front().deadline);
  return next;
}

Time Shard::LosesPatience() const {
  return heard_ + (IsZero(configuration_.version())
                       ? options_.start_timeout
                       : options_.coordinator_patience);
}

std::string Shard::overdue(Time now) const {
  if (draining_ && !finished_) {
    return absl::StrCat("the coordinator to save ",
                        ServerName(options_.index, generation_));
  }
  const std::string slowest = gate_.overdue(now, kPullPatience);
  if (!slowest.empty()) return slowest;
  if (finished_ || now - heard_ < kCoordinatorSilence) return "";
  return IsZero(configuration_.version())
             ? absl::StrCat("the coordinator, in the chief's process, to call ",
                            Name())
             : "the coordinator to call again";
}

}  // namespace paramd
