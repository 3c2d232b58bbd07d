#include "coordinator/core/failed_job.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "proto/job_end.h"
#include "proto/paramd/v1/control.pb.h"

namespace paramd {
namespace {

// As those of a good end: short, so that a lost one is repeated.
constexpr absl::Duration kTellDeadline = absl::Seconds(1);
constexpr absl::Duration kTellRetry = absl::Milliseconds(200);
// By then a worker has asked again whose answer was lost on the way.
constexpr absl::Duration kAskedAgain = absl::Milliseconds(500);
// Above all calls of the coordinator that it was.
constexpr CallId kFirstTellCall = CallId{1} << 48;

}  // namespace

FailedJob::FailedJob(Options options, Time now, Outbox* out)
    : why_(std::move(options.why)),
      finished_(ToFinished(why_)),
      finish_timeout_(options.finish_timeout),
      yet_to_hear_(std::move(options.workers)),
      deadline_(now + finish_timeout_),
      next_call_(kFirstTellCall) {
  for (Server& server : options.servers) {
    servers_.push_back({.server = std::move(server), .ask_at = now});
  }
  out->Note(absl::StrCat("the job ",
                         finished_.stopped() ? "is stopped" : "has failed",
                         ", and every process is told: ", why_.message()));
  for (const Call& call : options.calls) Refuse(call, now, out);
  Advance(now, out);
}

void FailedJob::Receive(const Message& message, Time now, Outbox* out) {
  if (message.is_reply) {
    OnReply(message, now);
  } else {
    const bool is_worker = message.from.kind == PeerId::Kind::kWorker;
    Refuse({is_worker ? message.from.index : 0, message.call}, now, out);
  }
  Advance(now, out);
}

void FailedJob::Refuse(const Call& call, Time now, Outbox* out) {
  out->Refuse(call.call, RefuseFinished("job", finished_));
  yet_to_hear_.erase(call.worker);
  if (call.worker != 0) may_ask_again_ = now + kAskedAgain;
}

void FailedJob::OnReply(const Message& message, Time now) {
  const auto asked = std::find_if(
      servers_.begin(), servers_.end(),
      [&](const ToldServer& server) { return server.call == message.call; });
  if (asked == servers_.end()) return;  // Of the coordinator that it was.
  asked->call = 0;
  if (message.status.ok()) {
    asked->told = asked->asked;
    return;
  }
  asked->ask_at = now + kTellRetry;
  // A process of which one core has heard of the end leaves by itself.
  const bool is_heard = std::any_of(
      servers_.begin(), servers_.end(), [&](const ToldServer& other) {
        return other.told != Told::kNothing &&
               other.server.header.server_incarnation() ==
                   asked->server.header.server_incarnation();
      });
  if (is_heard) asked->told = Told::kEverybodyKnows;
}

void FailedJob::Tick(Time now, Outbox* out) { Advance(now, out); }

void FailedJob::Hurry(Time now, Outbox* out) {
  yet_to_hear_.clear();
  may_ask_again_ = now;
  Advance(now, out);
  deadline_ = std::min(deadline_, now + kTellDeadline);
}

void FailedJob::Advance(Time now, Outbox* out) {
  const bool all_heard = yet_to_hear_.empty() && now >= may_ask_again_;
  if (!everybody_knows_ && (all_heard || now >= deadline_)) {
    everybody_knows_ = true;
    deadline_ = now + finish_timeout_;
  }
  bool all_told = true;
  for (ToldServer& server : servers_) {
    const Told most = everybody_knows_ ? Told::kEverybodyKnows : Told::kTheEnd;
    if (server.call == 0 && server.told < most && now >= server.ask_at) {
      Tell(&server, out);
    }
    all_told &= server.told == Told::kEverybodyKnows;
  }
  if (everybody_knows_ && (all_told || now >= deadline_)) out->Exit(why_);
}

void FailedJob::Tell(ToldServer* server, Outbox* out) {
  auto finish = std::make_unique<v1::FinishRequest>();
  *finish->mutable_header() = server->server.header;
  *finish->mutable_finished() = finished_;
  finish->set_everybody_knows(everybody_knows_);
  server->asked = everybody_knows_ ? Told::kEverybodyKnows : Told::kTheEnd;
  server->call = next_call_++;
  out->Send(PeerId::Ps(server->server.index), server->call, std::move(finish),
            {}, kTellDeadline);
}

Time FailedJob::next_tick() const {
  Time next = deadline_;
  if (!everybody_knows_ && yet_to_hear_.empty()) {
    next = std::min(next, may_ask_again_);
  }
  for (const ToldServer& server : servers_) {
    const Told most = everybody_knows_ ? Told::kEverybodyKnows : Told::kTheEnd;
    if (server.call == 0 && server.told < most) {
      next = std::min(next, server.ask_at);
    }
  }
  return next;
}

std::string FailedJob::waiting_for() const {
  return absl::StrCat("all processes to hear that the job ",
                      finished_.stopped() ? "is stopped" : "has failed");
}

}  // namespace paramd
