// A server's dealings with readers that may be too far ahead.
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/refusal.h"
#include "server/core/shard.h"

namespace paramd {

void Shard::ReceivePull(const Message& message, const v1::PullRequest& request,
                        Time now, Outbox* out) {
  absl::Status status = CheckReader(message.from, request);
  if (status.ok() && request.has_clock()) {
    gate_.Hear(request.header(), request.clock(), now);
  }
  if (status.ok() && gate_.MustWait(request, now)) {
    status = gate_.Park(message.call, request, now);
    if (status.ok()) return;
  }
  if (!status.ok()) return RefuseCall(message.call, status, out);
  AnswerPull(message.call, request, out);
}

// What would be refused is refused at once; only a session of the configuration
// has a clock.
absl::Status Shard::CheckReader(PeerId from,
                                const v1::PullRequest& request) const {
  if (request.after_step() > 0 && !IsSync()) {
    return RefuseForNow(
        v1::Refusal::NOT_READY, "session", options_.retry_after,
        absl::StrCat("the job is not in sync mode: there is no step ",
                     request.after_step(), " to read after"));
  }
  if (!gate_.Watches(request)) return absl::OkStatus();
  RETURN_IF_ERROR(CheckRunning());
  if (from.kind != PeerId::Kind::kWorker) {
    return Refuse(v1::Refusal::NOT_ALLOWED, PeerName(from),
                  absl::StrCat(PeerName(from),
                               " is no worker: its pulls have no clock"));
  }
  Message message;
  message.from = from;
  RETURN_IF_ERROR(CheckSession(message, request.header()));
  RETURN_IF_ERROR(CheckKnown(request.header()));
  return CheckFilled();
}

void Shard::AnswerPull(CallId call, const v1::PullRequest& request,
                       Outbox* out) {
  auto reply = MakeHead<v1::PullReply>();
  BufferChain payload;
  const absl::Status status = Pull(request, reply.get(), &payload);
  if (!status.ok()) return RefuseCall(call, status, out);
  out->Reply(call, std::move(reply), std::move(payload));
}

void Shard::ReleasePulls(Time now, Outbox* out) {
  const auto reader_is_refused = [this](const v1::PullRequest& pull) {
    return !CheckReader(PeerId::Worker(pull.header().worker()), pull).ok();
  };
  for (const auto& parked : gate_.TakeFree(reader_is_refused, now)) {
    const absl::Status status = CheckReader(
        PeerId::Worker(parked.request.header().worker()), parked.request);
    status.ok() ? AnswerPull(parked.call, parked.request, out)
                : RefuseCall(parked.call, status, out);
  }
  for (const PullGate::Parked& parked : gate_.TakeLate(now)) {
    RefuseCall(parked.call, gate_.WhyWait(parked.request, now), out);
  }
}

absl::Status Shard::TellClock(const Message& message,
                              const v1::TellClockRequest& request, Time now) {
  RETURN_IF_ERROR(CheckRunning());
  RETURN_IF_ERROR(CheckSession(message, request.header()));
  RETURN_IF_ERROR(CheckKnown(request.header()));
  gate_.Tell(request, now);
  return absl::OkStatus();
}

}  // namespace paramd
