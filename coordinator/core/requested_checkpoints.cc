#include "coordinator/core/requested_checkpoints.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"

#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr absl::Duration kAskForStorageAgain = absl::Milliseconds(200);

using Present = RequestedCheckpoints::Present;

bool IsCommitted(const v1::SnapshotNumber& number, const Present& present) {
  return !IsZero(present.committed) && !(present.committed < number);
}

bool IsUnderWay(const v1::SnapshotNumber& number, const Present& present) {
  return !IsZero(present.under_way) && !(present.under_way < number);
}

void AnswerCommitted(CallId call, const Present& present, Turn* turn) {
  auto reply = std::make_unique<v1::CheckpointReply>();
  *reply->mutable_snapshot() = present.committed;
  reply->set_path(std::string(present.path));
  reply->set_step(present.step);
  turn->out->Reply(call, std::move(reply));
}

void AnswerNotYet(CallId call, const v1::SnapshotNumber& number, Turn* turn) {
  auto reply = std::make_unique<v1::CheckpointReply>();
  *reply->mutable_snapshot() = number;
  turn->out->Reply(call, std::move(reply));
}

}  // namespace

absl::Status RequestedCheckpoints::Failure() const {
  return RefuseForNow(v1::Refusal::NOT_READY, "storage", kAskForStorageAgain,
                      absl::StrCat("checkpoint ", VersionName(failed_),
                                   " was given up: ", why_));
}

absl::Status RequestedCheckpoints::CheckMayAsk(const v1::SnapshotNumber& number,
                                               const Present& present,
                                               const JobView& job) const {
  if (job.phase >= JobPhase::kTellingEnd) {
    return Refuse(v1::Refusal::JOB_FINISHED, "job", "the job is finished");
  }
  if (present.next < number) {
    return Refuse(v1::Refusal::INVALID, "snapshot",
                  absl::StrCat("no checkpoint was asked for that would be ",
                               VersionName(number)));
  }
  if (job.phase < JobPhase::kRunning) {
    const std::string whom = job.waiting_for();
    return RefuseForNow(
        v1::Refusal::RETRY, whom, kAskForStorageAgain,
        absl::StrCat("no checkpoint can be written yet: waiting for ", whom));
  }
  const bool has_failed = !IsZero(number) && !(failed_ < number);
  return has_failed ? Failure() : absl::OkStatus();
}

void RequestedCheckpoints::OnRequest(const Message& message,
                                     const v1::CheckpointRequest& request,
                                     const Present& present, Turn* turn) {
  v1::SnapshotNumber number = request.snapshot();
  const JobPhase phase = turn->job.phase;
  // After the last one nothing comes.
  const bool is_last =
      phase > JobPhase::kSaving && phase < JobPhase::kTellingEnd;
  if (is_last || (!IsZero(number) && IsCommitted(number, present))) {
    return AnswerCommitted(message.call, present, turn);
  }
  const absl::Status may = CheckMayAsk(number, present, turn->job);
  if (!may.ok()) {
    turn->out->Refuse(message.call, may);
    return;
  }
  if (IsZero(number)) {
    number = present.has_all ? present.under_way : present.next;
  }
  Want(number, present);
  if (waiting_.size() < kMostWaiting) {
    waiting_.push_back({message.call, number, turn->now + kPatience});
  } else {
    AnswerNotYet(message.call, number, turn);
  }
}

void RequestedCheckpoints::OnFailed(const v1::SnapshotNumber& snapshot,
                                    const absl::Status& why, Turn* turn) {
  failed_ = snapshot;
  why_ = std::string(why.message());
  if (!(snapshot < wanted_)) wanted_.Clear();
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    if (snapshot < waiting.number) return false;
    turn->out->Refuse(waiting.call, Failure());
    return true;
  });
}

void RequestedCheckpoints::Advance(const Present& present, Turn* turn) {
  if (IsCommitted(wanted_, present) || IsUnderWay(wanted_, present)) {
    wanted_.Clear();
  }
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    if (IsCommitted(waiting.number, present)) {
      AnswerCommitted(waiting.call, present, turn);
      return true;
    }
    Want(waiting.number, present);  // One that was given up is to be followed.
    if (turn->now < waiting.until) return false;
    AnswerNotYet(waiting.call, waiting.number, turn);
    return true;
  });
}

void RequestedCheckpoints::Want(const v1::SnapshotNumber& number,
                                const Present& present) {
  if (!IsUnderWay(number, present) && wanted_ < number) wanted_ = number;
}

}  // namespace paramd
