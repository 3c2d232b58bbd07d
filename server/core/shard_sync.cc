// A shard's dealings with the steps of sync mode.
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/refusal.h"
#include "server/core/shard.h"
#include "tensor/shape.h"

namespace paramd {

// The step stands beside the content from when somebody contributes.
absl::Status Shard::BeginSync() {
  if (!IsSync() || state_ != State::kFilled || sync_ != nullptr ||
      IsZero(configuration_.contributors().version())) {
    return absl::OkStatus();
  }
  SyncStep::Options options;
  options.park_bytes = options_.sync_park_bytes;
  options.park_timeout = options_.park_timeout;
  options.retry_after = options_.retry_after;
  auto sync = std::make_unique<SyncStep>(options, content_.get());
  RETURN_IF_ERROR(sync->Configure(configuration_));
  sync_ = std::move(sync);
  return absl::OkStatus();
}

void Shard::EndSync(const absl::Status& why, Outbox* out) {
  if (sync_ == nullptr) return;
  sync_->RefuseAll(why);
  AnswerSync(out);
  sync_.reset();
  apply_at_ = Time::Never();
}

absl::Status Shard::CheckStep(const v1::PullRequest& request) const {
  if (!IsSync() || request.after_step() == 0) return absl::OkStatus();
  if (sync_ != nullptr && sync_->step() >= request.after_step()) {
    return absl::OkStatus();
  }
  return RefuseForNow(
      v1::Refusal::RETRY, Name(), options_.retry_after,
      absl::StrCat(Name(), " has not applied step ", request.after_step(),
                   " yet"));
}

void Shard::PushOfStep(const Message& message, const v1::PushRequest& request,
                       Time now, Outbox* out) {
  absl::Status status = CheckPusher(message, request.header());
  if (status.ok() && sync_ == nullptr) {
    status = RefuseForNow(v1::Refusal::NOT_READY, "coordinator",
                          options_.retry_after, "nobody contributes yet");
  }
  if (!status.ok()) return RefuseCall(message.call, status, out);
  sync_->Push(message.call, request, message.payload, now);
  ContinueSync(now, out);
}

void Shard::Decide(CallId call, const v1::DecideRequest& request, Time now,
                   Outbox* out) {
  absl::Status status = CheckRunning();
  status.Update(CheckTerm(request.header().term()));
  status.Update(CheckKnown(request.header()));
  status.Update(CheckFilled());
  status.Update(CheckStaying());
  if (status.ok() && sync_ == nullptr) {
    status = RefuseForNow(v1::Refusal::NOT_READY, "coordinator",
                          options_.retry_after,
                          absl::StrCat(Name(), " knows no contributors yet"));
  }
  if (!status.ok()) return RefuseCall(call, status, out);
  sync_->Decide(call, request, now);
  ContinueSync(now, out);
}

void Shard::ContinueSync(Time now, Outbox* out) {
  // As much as one turn may take.
  sync_->ApplySome(kBlockElements);
  sync_->Tick(now);
  apply_at_ = sync_->applying() ? now : Time::Never();
  AnswerSync(out);
}

void Shard::AnswerSync(Outbox* out) {
  for (SyncStep::Answer& answer : sync_->TakeAnswers()) {
    if (!answer.status.ok()) {
      RefuseCall(answer.call, answer.status, out);
      continue;
    }
    if (auto* const pushed =
            dynamic_cast<v1::PushReply*>(answer.reply.get())) {
      *pushed->mutable_server_generation() = generation_;
      *pushed->mutable_configuration() = configuration_.version();
    }
    out->Reply(answer.call, std::move(answer.reply));
  }
}

}  // namespace paramd
