#include "server/core/step_keeper.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "proto/refusal.h"
#include "tensor/shape.h"

namespace paramd {

SyncStep::Options StepKeeper::OptionsIn(const v1::Configuration& configuration,
                                        const ShardOptions& options) {
  SyncStep::Options step;
  step.park_bytes = ServerSettingsIn(configuration).sync_park_bytes;
  step.retry_after = options.retry_after;
  return step;
}

absl::Status StepKeeper::Configure(const v1::Configuration& configuration,
                                   ShardTurn* turn) {
  std::unique_ptr<SyncStep>& step = turn->data.step;
  if (configuration.consistency().mode() != v1::Consistency::SYNC) {
    End(Refuse(v1::Refusal::SUPERSEDED, "step",
               "the job is no longer in sync mode"),
        turn);
    return absl::OkStatus();
  }
  if (step != nullptr) return step->Configure(configuration);
  if (!view_.IsFilled() || IsZero(configuration.contributors().version())) {
    return absl::OkStatus();
  }
  auto next = std::make_unique<SyncStep>(
      OptionsIn(configuration, view_.options), turn->data.content.get());
  RETURN_IF_ERROR(next->Configure(configuration));
  step = std::move(next);
  return absl::OkStatus();
}

void StepKeeper::End(const absl::Status& why, ShardTurn* turn) {
  if (turn->data.step == nullptr) return;
  turn->data.step->RefuseDecide(why);
  Answer(turn);
  turn->data.step.reset();
  turn->data.memory.SetKept(0);
  apply_at_ = Time::Never();
}

absl::Status StepKeeper::CheckDecide(const v1::DecideRequest& request) const {
  const CallChecks& checks = view_.checks;
  RETURN_IF_ERROR(checks.CheckRunning());
  RETURN_IF_ERROR(checks.CheckTerm(request.header().term()));
  RETURN_IF_ERROR(checks.CheckKnown(request.header()));
  RETURN_IF_ERROR(checks.CheckFilled());
  RETURN_IF_ERROR(checks.CheckStaying());
  if (!view_.IsSync()) {
    return Refuse(v1::Refusal::INVALID, "step",
                  "this job is not in sync mode: it has no steps");
  }
  return checks.CheckContributors();
}

void StepKeeper::OnDecide(CallId call, const v1::DecideRequest& request,
                          ShardTurn* turn) {
  const absl::Status status = CheckDecide(request);
  if (!status.ok()) return turn->Refuse(call, status);
  const bool decides = turn->data.step->Decide(call, request, turn->now);
  BackupStream* const backup = turn->data.backup.get();
  if (decides && backup != nullptr) backup->TellDecision(request, turn->now);
}

void StepKeeper::Advance(ShardTurn* turn) {
  if (turn->data.step == nullptr) return;
  SyncStep& step = *turn->data.step;
  const absl::Status applied = step.ApplySome(kMaxBlockElements);
  step.Tick(turn->now);
  apply_at_ = !step.applying() ? Time::Never()
              : applied.ok()   ? turn->now
                               : turn->now + view_.options.retry_after;
  Answer(turn);
}

void StepKeeper::Answer(ShardTurn* turn) {
  for (SyncStep::Answer& answer : turn->data.step->TakeAnswers()) {
    if (!answer.status.ok()) {
      turn->Refuse(answer.call, answer.status);
    } else if (BackupStream* const backup = turn->data.backup.get()) {
      backup->KeepDecided(answer.call, std::move(answer.reply));
    } else {
      turn->out->Reply(answer.call, std::move(answer.reply));
    }
  }
}

Time StepKeeper::next_tick() const {
  return view_.data.step == nullptr
             ? apply_at_
             : std::min(apply_at_, view_.data.step->next_tick());
}

}  // namespace paramd
