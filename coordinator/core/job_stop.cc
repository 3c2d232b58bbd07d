#include "coordinator/core/job_stop.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "proto/job_end.h"
#include "proto/refusal.h"
#include "proto/stopped_job.h"

namespace paramd {
namespace {

constexpr absl::Duration kStopPatience = absl::Seconds(2);
constexpr absl::Duration kUnheardPatience = absl::Seconds(5);
constexpr size_t kMostStopsWaiting = 64;

// "an operator (operator/0 at 10.0.0.7:41234)"
std::string WhoStops(const v1::Origin& origin) {
  if (origin.who().empty()) return "an operator";
  const bool has_address =
      !origin.address().empty() && origin.address() != "the Unix socket";
  return absl::StrCat("an operator (", origin.who(),
                      has_address ? absl::StrCat(" at ", origin.address()) : "",
                      ")");
}

}  // namespace

void JobStop::OnRequest(const Message& message,
                        const v1::StopJobRequest& request, Turn* turn) {
  const JobView& job = turn->job;
  if (job.phase >= JobPhase::kTellingEnd) {
    turn->out->Refuse(message.call, Refuse(v1::Refusal::JOB_FINISHED, "job",
                                           "the job is finished"));
    return;
  }
  if (waiting_.size() >= kMostStopsWaiting) {
    const std::string whom = job.waiting_for();
    turn->out->Refuse(
        message.call,
        RefuseForNow(v1::Refusal::RETRY, whom, kStopPatience,
                     absl::StrCat("the job is being stopped already, and ",
                                  kMostStopsWaiting, " wait for it")));
    return;
  }
  if (!asked_) {
    asked_ = true;
    unheard_until_ = turn->now + kUnheardPatience;
    nonce_ = request.nonce();
    who_ = WhoStops(request.origin());
    turn->out->Note(
        absl::StrCat(who_, " stops the job", request.now() ? " at once" : ""));
  } else if (request.now() && !now_) {
    turn->out->Note(absl::StrCat(WhoStops(request.origin()),
                                 " stops the job at once: without the last "
                                 "checkpoint, which was being waited for"));
  }
  now_ |= request.now();
  waiting_.push_back(
      {message.call, request.nonce() != nonce_, turn->now + kStopPatience});
}

std::string JobStop::sentence() const {
  return asked_ ? absl::StrCat("is being stopped by ", who_) : "";
}

// Only servers that have answered can be told, so the others are waited for:
// for a while, and if they may hold what no checkpoint has until it is to be at
// once. When the result is being written, the end is as near.
bool JobStop::MayEndNow(const Present& present, const Turn& turn) const {
  const JobPhase phase = turn.job.phase;
  if (phase < JobPhase::kRecalling) return false;
  if (phase == JobPhase::kRecalling) {
    const bool may_hold =
        present.may_hold_pushes || present.may_any_hold_pushes;
    return turn.now >= unheard_until_ && (now_ || !may_hold);
  }
  if (now_) return phase < JobPhase::kWritingResult;
  return phase < JobPhase::kRunning && !present.may_hold_pushes;
}

void JobStop::Advance(const Present& present, Turn* turn) {
  if (!asked_) return;
  const JobView& job = turn->job;
  if (job.phase >= JobPhase::kTellingEnd) {
    for (const Waiting& waiting : std::exchange(waiting_, {})) {
      turn->out->Refuse(waiting.call, Refuse(v1::Refusal::JOB_FINISHED, "job",
                                             "the job is finished"));
    }
    return;
  }
  if (MayEndNow(present, *turn)) return End(present, turn);
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    if (turn->now < waiting.until) return false;
    auto reply = std::make_unique<v1::StopJobReply>();
    reply->set_already(waiting.already);
    reply->set_waiting_for(job.waiting_for());
    turn->out->Reply(waiting.call, std::move(reply));
    return true;
  });
}

std::string JobStop::WhatIsLeft(const Present& present,
                                const JobView& job) const {
  const uint64_t step = job.progress.global_step();
  const std::string& path = present.newest->path();
  const uint64_t unsaved = step - std::min(step, present.newest->step);
  return absl::StrCat(
      " at step ", step,
      unsaved > 0 ? absl::StrCat(", giving up the ", unsaved, " since ",
                                 path.empty() ? "the beginning"
                                              : "the newest checkpoint")
                  : "",
      "; a later start ",
      path.empty() ? "begins anew" : absl::StrCat("goes on from ", path));
}

void JobStop::End(const Present& present, Turn* turn) {
  const absl::Status stopped =
      StoppedJob(absl::StrCat("stopped ", now_ ? "at once " : "", "by ", who_,
                              WhatIsLeft(present, turn->job)));
  for (const Waiting& waiting : std::exchange(waiting_, {})) {
    turn->out->Refuse(waiting.call, RefuseFinished("job", ToFinished(stopped)));
  }
  turn->out->Exit(stopped);
}

}  // namespace paramd
