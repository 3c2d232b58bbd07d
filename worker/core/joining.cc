#include "worker/core/joining.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "proto/job_end.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;

constexpr absl::Duration kJoinDeadline = absl::Seconds(5);
constexpr absl::Duration kJoinRetry = absl::Milliseconds(200);
constexpr absl::Duration kJoinPoll = absl::Milliseconds(20);

}  // namespace

void Joining::Ask(const v1::JoinRequest& request, WorkerTurn* turn) {
  ask_at_ = Time::Never();
  call_ = turn->Call(std::make_unique<v1::JoinRequest>(request), kJoinDeadline);
}

const v1::JoinReply* Joining::Take(const Message& message, WorkerTurn* turn) {
  call_ = 0;
  const auto* joined = DynamicCastToGenerated<v1::JoinReply>(message.head);
  if (message.status.ok() && joined != nullptr) return joined;
  OnRefused(message.status, turn);
  return nullptr;
}

void Joining::OnRefused(const absl::Status& status, WorkerTurn* turn) {
  const v1::Refusal refusal = RefusalOf(status);
  switch (refusal.reason()) {
    case v1::Refusal::TASK_TAKEN:
      turn->out->Exit(absl::AlreadyExistsError(status.message()));
      return;
    case v1::Refusal::OTHER_JOB:
    case v1::Refusal::PROTOCOL:
    case v1::Refusal::INVALID:
      turn->out->Exit(absl::InvalidArgumentError(status.message()));
      return;
    case v1::Refusal::JOB_FINISHED:
      turn->out->Note(refusal.stopped()     ? "the job was stopped"
                      : EndFor(status).ok() ? "the job is finished"
                                            : "the job has failed");
      turn->out->Exit(EndFor(status));
      return;
    default:
      break;
  }
  why_ = std::string(status.message());
  const bool is_early = refusal.reason() == v1::Refusal::NOT_READY;
  if (is_early) {
    last_wait_ = refusal.waiting_for();
  } else if (!last_wait_.empty()) {
    // Who was missing is why nobody answers any more.
    absl::StrAppend(&why_, "; it waited for ", last_wait_);
  }
  ask_at_ = turn->now +
            (is_early ? std::max(kJoinPoll,
                                 absl::Milliseconds(refusal.retry_after_ms()))
                      : kJoinRetry);
}

}  // namespace paramd
