// A shard's dealings with the steps of sync mode.
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/refusal.h"
#include "server/core/shard.h"
#include "tensor/shape.h"

namespace paramd {

absl::Status Shard::ConfigureSync(const v1::Configuration& configuration,
                                  Outbox* out) {
  if (configuration.consistency().mode() != v1::Consistency::SYNC) {
    EndSync(Refuse(v1::Refusal::SUPERSEDED, "step",
                   "the job is no longer in sync mode"),
            out);
    return absl::OkStatus();
  }
  if (sync_ != nullptr) return sync_->Configure(configuration);
  if (state_ != State::kFilled ||
      IsZero(configuration.contributors().version())) {
    return absl::OkStatus();
  }
  SyncStep::Options options;
  options.park_bytes = options_.sync_park_bytes;
  options.retry_after = options_.retry_after;
  auto sync = std::make_unique<SyncStep>(options, content_.get());
  RETURN_IF_ERROR(sync->Configure(configuration));
  sync_ = std::move(sync);
  gate_.Follow(sync_.get());
  return absl::OkStatus();
}

void Shard::EndSync(const absl::Status& why, Outbox* out) {
  if (sync_ == nullptr) return;
  sync_->RefuseDecide(why);
  AnswerSync(out);
  gate_.Follow(nullptr);
  sync_.reset();
  memory_.SetKept(0);
  apply_at_ = Time::Never();
}

absl::Status Shard::CheckContributors() const {
  if (!IsSync() || sync_ != nullptr) return absl::OkStatus();
  return RefuseForNow(v1::Refusal::NOT_READY, "coordinator",
                      options_.retry_after,
                      absl::StrCat(Name(), " knows no contributors yet"));
}

void Shard::Decide(CallId call, const v1::DecideRequest& request, Time now,
                   Outbox* out) {
  absl::Status status = CheckRunning();
  status.Update(CheckTerm(request.header().term()));
  status.Update(CheckKnown(request.header()));
  status.Update(CheckFilled());
  status.Update(CheckStaying());
  if (status.ok() && !IsSync()) {
    status = Refuse(v1::Refusal::INVALID, "step",
                    "this job is not in sync mode: it has no steps");
  }
  status.Update(CheckContributors());
  if (!status.ok()) return RefuseCall(call, status, out);
  sync_->Decide(call, request, now);
}

void Shard::ContinueSync(Time now, Outbox* out) {
  if (sync_ == nullptr) return;
  // As much as one turn may take.
  const absl::Status applied = sync_->ApplySome(kBlockElements);
  sync_->Tick(now);
  apply_at_ = !sync_->applying() ? Time::Never()
              : applied.ok()     ? now
                                 : now + options_.retry_after;
  AnswerSync(out);
}

void Shard::AnswerSync(Outbox* out) {
  for (SyncStep::Answer& answer : sync_->TakeAnswers()) {
    answer.status.ok() ? out->Reply(answer.call, std::move(answer.reply))
                       : RefuseCall(answer.call, answer.status, out);
  }
}

}  // namespace paramd
