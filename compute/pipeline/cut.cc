#include "compute/pipeline/cut.h"

#include <utility>

#include "base/status_macros.h"
#include "compute/pipeline/stage_order.h"

namespace paramd {

absl::StatusOr<std::unique_ptr<Cut>> Cut::Create(
    std::string schedule, std::vector<std::unique_ptr<CutStage>> stages,
    uint32_t stages_per_device) {
  const auto count = static_cast<uint32_t>(stages.size());
  RETURN_IF_ERROR(
      ScheduleByName(schedule, count, stages_per_device, 1).status());
  return std::unique_ptr<Cut>(
      new Cut(std::move(schedule), std::move(stages), stages_per_device));
}

Cut::Cut(std::string schedule, std::vector<std::unique_ptr<CutStage>> stages,
         uint32_t stages_per_device)
    : schedule_(std::move(schedule)),
      stages_(std::move(stages)),
      stages_per_device_(stages_per_device),
      inputs_(stages_.size()),
      output_gradients_(stages_.size()),
      outputs_(stages_.size()),
      input_gradients_(stages_.size()),
      threads_(static_cast<uint32_t>(stages_.size()) / stages_per_device) {}

absl::StatusOr<const PipelineSchedule*> Cut::ScheduleFor(
    uint32_t micro_batches) {
  const auto known = schedules_.find(micro_batches);
  if (known != schedules_.end()) return &known->second;
  ASSIGN_OR_RETURN(
      PipelineSchedule made,
      ScheduleByName(schedule_, static_cast<uint32_t>(stages_.size()),
                     stages_per_device_, micro_batches));
  made = WithTransfers(std::move(made));
  // Nothing waits for room under way: what is handed on is in a Buffer.
  RETURN_IF_ERROR(CheckSchedule(made, micro_batches).status());
  return &(schedules_[micro_batches] = std::move(made));
}

absl::Status Cut::Step(uint32_t micro_batches) {
  ASSIGN_OR_RETURN(const PipelineSchedule* const schedule,
                   ScheduleFor(micro_batches));
  const auto& lists = schedule->devices;
  mail_.Begin();
  std::vector<size_t> operations;
  for (const auto& list : lists) operations.push_back(list.size());
  for (size_t s = 0; s < stages_.size(); ++s) {
    // A step that failed may have left some.
    inputs_[s] = Buffer();
    output_gradients_[s] = Buffer();
    outputs_[s].assign(micro_batches, Buffer());
    input_gradients_[s].assign(micro_batches, Buffer());
  }
  const auto ready = [&](uint32_t d, size_t i) {
    const PipelineOp& op = lists[d][i];
    return !IsReceived(op) || mail_.Has(StageMail::KeyOf(op));
  };
  const auto run = [&](uint32_t d, size_t i) { return Run(lists[d][i]); };
  return threads_.Run({std::move(operations), ready, run});
}

absl::Status Cut::Run(const PipelineOp& op) {
  using Kind = PipelineOp::Kind;
  CutStage& stage = *stages_[op.stage];
  const bool is_last = op.stage + 1 == stages_.size();
  // Where all stages are on one device nothing is sent.
  const bool alone = stages_.size() == stages_per_device_;
  switch (op.kind) {
    case Kind::kForward: {
      Buffer& from = alone && op.stage > 0
                         ? outputs_[op.stage - 1][op.micro_batch]
                         : inputs_[op.stage];
      ASSIGN_OR_RETURN(
          Buffer output,
          stage.Forward(op.micro_batch, std::exchange(from, Buffer())));
      if (!is_last) outputs_[op.stage][op.micro_batch] = std::move(output);
      return absl::OkStatus();
    }
    case Kind::kBackward:
    case Kind::kBackwardInput: {
      Buffer& from = alone && !is_last
                         ? input_gradients_[op.stage + 1][op.micro_batch]
                         : output_gradients_[op.stage];
      ASSIGN_OR_RETURN(
          Buffer gradient,
          stage.Backward(op.micro_batch, std::exchange(from, Buffer())));
      if (op.stage > 0) {
        input_gradients_[op.stage][op.micro_batch] = std::move(gradient);
      }
      if (op.kind == Kind::kBackwardInput) return absl::OkStatus();
      return stage.AddGradients(op.micro_batch);
    }
    case Kind::kBackwardWeights:
      return stage.AddGradients(op.micro_batch);
    case Kind::kSendActivation:
      mail_.Put(StageMail::KeyOf(op),
                std::move(outputs_[op.stage][op.micro_batch]));
      return absl::OkStatus();
    case Kind::kSendGradient:
      mail_.Put(StageMail::KeyOf(op),
                std::move(input_gradients_[op.stage][op.micro_batch]));
      return absl::OkStatus();
    case Kind::kReceiveActivation:
      inputs_[op.stage] = mail_.Take(StageMail::KeyOf(op));
      return absl::OkStatus();
    case Kind::kReceiveGradient:
      output_gradients_[op.stage] = mail_.Take(StageMail::KeyOf(op));
      return absl::OkStatus();
    case Kind::kUpdate:
      return absl::OkStatus();
  }
  return absl::InternalError("there is no such operation");
}

}  // namespace paramd
