#include "compute/pipeline/mini_batch_run.h"

#include "base/status_macros.h"

namespace paramd {
namespace {

using Kind = PipelineOp::Kind;

}  // namespace

absl::StatusOr<const ProvenSchedule*> ProvenSchedules::For(
    uint32_t micro_batches) {
  const auto known = made_.find(micro_batches);
  if (known != made_.end()) return &known->second;
  ASSIGN_OR_RETURN(PipelineSchedule made, make_(micro_batches));
  made = WithTransfers(std::move(made));
  // Nothing waits for room under way: what is handed on is memory of a slot.
  ASSIGN_OR_RETURN(PipelineNeeds needs, CheckSchedule(made, micro_batches));
  ProvenSchedule& proven = made_[micro_batches];
  proven = {std::move(made), std::move(needs.live)};
  return &proven;
}

void MiniBatchRun::Begin(const ProvenSchedule& scheduled) {
  scheduled_ = &scheduled;
  const PipelineSchedule& schedule = scheduled.schedule;
  stages_.assign(schedule.stages, Stage());
  ForEachEdge(schedule, [&](uint32_t from, uint32_t to) {
    if (schedule.DeviceOf(from) != schedule.DeviceOf(to)) return;
    stages_[from].after.push_back(to);
    stages_[to].before.push_back(from);
  });
  mail_.Begin();
}

absl::Status MiniBatchRun::Run(const PipelineOp& op, StagePasses* passes) {
  const size_t slot = op.micro_batch % scheduled_->slots[op.stage];
  Stage& stage = stages_[op.stage];
  switch (op.kind) {
    case Kind::kForward:
      return Forward(op, slot, passes);
    case Kind::kBackward:
    case Kind::kBackwardInput:
      return Backward(op, slot, passes);
    case Kind::kBackwardWeights:
      return passes->BackwardVariables(op, slot, stage.summed++ > 0);
    case Kind::kUpdate:
      stage.summed = 0;
      return passes->Update(op);
    case Kind::kSendActivation: {
      ASSIGN_OR_RETURN(Buffer sent, passes->TakeOutput(op, slot));
      mail_.Put(StageMail::KeyOf(op), std::move(sent));
      return absl::OkStatus();
    }
    case Kind::kSendGradient: {
      ASSIGN_OR_RETURN(Buffer sent, passes->TakeInputGradient(op, slot));
      mail_.Put(StageMail::KeyOf(op), std::move(sent));
      return absl::OkStatus();
    }
    case Kind::kReceiveActivation:
      stage.inputs[op.peer] = mail_.Take(StageMail::KeyOf(op));
      return absl::OkStatus();
    case Kind::kReceiveGradient:
      stage.output_gradients[op.peer] = mail_.Take(StageMail::KeyOf(op));
      return absl::OkStatus();
  }
  return absl::InternalError("there is no such operation");
}

absl::Status MiniBatchRun::Forward(const PipelineOp& op, size_t slot,
                                   StagePasses* passes) {
  Stage& stage = stages_[op.stage];
  StagePasses::Received inputs = std::exchange(stage.inputs, {});
  for (const uint32_t from : stage.before) {
    inputs[from] = mail_.Take({false, from, op.stage, op.micro_batch});
  }
  RETURN_IF_ERROR(passes->Forward(op, slot, std::move(inputs)));
  for (const uint32_t to : stage.after) {
    const PipelineOp handed = {Kind::kSendActivation, op.stage, op.micro_batch,
                               to};
    ASSIGN_OR_RETURN(Buffer output, passes->TakeOutput(handed, slot));
    mail_.Put(StageMail::KeyOf(handed), std::move(output));
  }
  return absl::OkStatus();
}

absl::Status MiniBatchRun::Backward(const PipelineOp& op, size_t slot,
                                    StagePasses* passes) {
  Stage& stage = stages_[op.stage];
  StagePasses::Received gradients = std::exchange(stage.output_gradients, {});
  for (const uint32_t to : stage.after) {
    gradients[to] = mail_.Take({true, to, op.stage, op.micro_batch});
  }
  RETURN_IF_ERROR(
      passes->Backward(op, slot, std::move(gradients), stage.summed > 0));
  if (op.kind == Kind::kBackward) ++stage.summed;
  for (const uint32_t to : stage.before) {
    const PipelineOp handed = {Kind::kSendGradient, op.stage, op.micro_batch,
                               to};
    ASSIGN_OR_RETURN(Buffer gradient, passes->TakeInputGradient(handed, slot));
    mail_.Put(StageMail::KeyOf(handed), std::move(gradient));
  }
  return absl::OkStatus();
}

}  // namespace paramd
