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
    : stages_(std::move(stages)),
      schedules_([schedule = std::move(schedule),
                  count = static_cast<uint32_t>(stages_.size()),
                  stages_per_device](uint32_t micro_batches) {
        return ScheduleByName(schedule, count, stages_per_device,
                              micro_batches);
      }),
      threads_(static_cast<uint32_t>(stages_.size()) / stages_per_device) {}

// What the program computes. A stage has handed on its last output before it
// computes the next one.
class Cut::Passes : public StagePasses {
 public:
  explicit Passes(const std::vector<std::unique_ptr<CutStage>>& stages)
      : stages_(stages),
        outputs_(stages.size()),
        input_gradients_(stages.size()) {}

  absl::Status Forward(const PipelineOp& op, size_t /*slot*/,
                       Received inputs) override {
    ASSIGN_OR_RETURN(outputs_[op.stage], stages_[op.stage]->Forward(
                                             op.micro_batch, OnlyOf(&inputs)));
    if (op.stage + 1 == stages_.size()) outputs_[op.stage] = Buffer();
    return absl::OkStatus();
  }
  absl::StatusOr<Buffer> TakeOutput(const PipelineOp& op,
                                    size_t /*slot*/) override {
    return std::exchange(outputs_[op.stage], Buffer());
  }
  absl::Status Backward(const PipelineOp& op, size_t /*slot*/,
                        Received output_gradients, bool /*adds*/) override {
    CutStage& stage = *stages_[op.stage];
    ASSIGN_OR_RETURN(input_gradients_[op.stage],
                     stage.Backward(op.micro_batch, OnlyOf(&output_gradients)));
    if (op.stage == 0) input_gradients_[op.stage] = Buffer();
    if (op.kind == PipelineOp::Kind::kBackwardInput) return absl::OkStatus();
    return stage.AddGradients(op.micro_batch);
  }
  absl::Status BackwardVariables(const PipelineOp& op, size_t /*slot*/,
                                 bool /*adds*/) override {
    return stages_[op.stage]->AddGradients(op.micro_batch);
  }
  absl::StatusOr<Buffer> TakeInputGradient(const PipelineOp& op,
                                           size_t /*slot*/) override {
    return std::exchange(input_gradients_[op.stage], Buffer());
  }
  absl::Status Update(const PipelineOp& /*op*/) override {
    return absl::OkStatus();
  }

 private:
  static Buffer OnlyOf(Received* received) {
    return received->empty() ? Buffer() : std::move(received->begin()->second);
  }

  const std::vector<std::unique_ptr<CutStage>>& stages_;
  // Of each stage, until it is handed on.
  std::vector<Buffer> outputs_;
  std::vector<Buffer> input_gradients_;
};

absl::Status Cut::Step(uint32_t micro_batches) {
  ASSIGN_OR_RETURN(const ProvenSchedule* const scheduled,
                   schedules_.For(micro_batches));
  const auto& lists = scheduled->schedule.devices;
  run_.Begin(*scheduled);
  Passes passes(stages_);
  std::vector<size_t> operations;
  for (const auto& list : lists) operations.push_back(list.size());
  const auto ready = [&](uint32_t d, size_t i) {
    return run_.IsReady(lists[d][i]);
  };
  const auto run = [&](uint32_t d, size_t i) {
    return run_.Run(lists[d][i], &passes);
  };
  return threads_.Run({std::move(operations), ready, run});
}

}  // namespace paramd
