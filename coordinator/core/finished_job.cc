#include "coordinator/core/finished_job.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "proto/job_end.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {
namespace {

constexpr absl::Duration kTellEvery = absl::Seconds(5);
constexpr absl::Duration kDeadline = absl::Seconds(1);

}  // namespace

FinishedJob::FinishedJob(uint32_t servers, uint64_t term, v1::Finished finished)
    : term_(term), finished_(std::move(finished)), is_asked_(servers) {}

void FinishedJob::Start(Time now, Outbox* out) {
  if (!is_asked_.empty()) Tick(now, out);
}

void FinishedJob::Receive(Message message, Time /*now*/, Outbox* out) {
  if (message.is_reply) {
    // A server's call carries its index as id.
    is_asked_[message.call] = false;
    return;
  }
  // For who stops the job there is nothing left to stop.
  const bool stops =
      dynamic_cast<const v1::StopJobRequest*>(message.head) != nullptr;
  out->Refuse(message.call,
              RefuseFinished("job", stops ? v1::Finished() : finished_));
  if (const auto* recall =
          dynamic_cast<const v1::RecallRequest*>(message.head)) {
    out->Exit(absl::UnavailableError(
        absl::StrCat("run ", recall->run_id(),
                     " calls, and this process is of one that has finished")));
  }
}

void FinishedJob::Tick(Time now, Outbox* out) {
  next_tell_ = now + kTellEvery;
  for (uint32_t server = 0; server < is_asked_.size(); ++server) {
    if (is_asked_[server]) continue;
    is_asked_[server] = true;
    auto finish = std::make_unique<v1::FinishRequest>();
    finish->mutable_header()->set_term(term_);
    if (finished_.stopped()) *finish->mutable_finished() = finished_;
    finish->set_everybody_knows(true);
    out->Send(PeerId::Ps(server), server, std::move(finish), {}, kDeadline);
  }
}

}  // namespace paramd
