#ifndef PARAMD_COMPUTE_PIPELINE_PIPELINE_MODEL_H_
#define PARAMD_COMPUTE_PIPELINE_PIPELINE_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "compute/device/device.h"
#include "compute/model/network_plan.h"
#include "compute/model/teachers.h"
#include "compute/model/trained_model.h"
#include "compute/pipeline/device_threads.h"
#include "compute/pipeline/mini_batch_run.h"
#include "compute/pipeline/model_stage.h"
#include "compute/pipeline/pipeline_stage.h"
#include "compute/pipeline/schedule.h"
#include "compute/pipeline/timeline.h"
#include "compute/pipeline/use_sums.h"
#include "input/batch.h"
#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// How a model is cut into stages, and a batch into micro-batches.
struct PipelinePlan {
  // Layers of the top level, from begins[s] on, are stage s.
  std::vector<size_t> begins;
  // Stage s is on device s modulo their number.
  uint32_t devices = 1;
  uint32_t micro_batches = 1;
  // Batches that are under way at the same time.
  uint32_t concurrent = 1;
  // For so many micro-batches; a batch may have fewer.
  std::function<PipelineSchedule(uint32_t micro_batches)> schedule;
};

// The plan that the job asks for, of a model with these layers. Without
// pipeline.begin_at stages have about equal numbers of operations, the slowest
// as few as can be. INVALID_ARGUMENT, a sentence, if there are more stages than
// layers, if a name is of no layer or names are not in their order, or if the
// loss compares the examples of a batch.
absl::StatusOr<PipelinePlan> PlanPipeline(const v1::PipelineConfig& config,
                                          const NetworkPlan& network);

// The built-in model cut into stages, each on a device and a thread of its own,
// which compute micro-batches of a batch at the same time, by a schedule. What
// stages hand each other goes from one to the next; weights and gradients are
// where they are for any model, so it trains under every strategy.
//
// The gradient is the sum over micro-batches in their order, each with the
// batch's divisor: the same bits for any number of stages and any schedule, and
// those of gradients that are accumulated over the micro-batches. (Of a
// variable that several layers share, the sums of its uses are added, the last
// use's first.) Batch norm normalises by micro-batch, and moves its statistics
// once in a step, by the mean over the micro-batches. Evaluations and
// predictions pass stage after stage with all of their examples.
//
// Clones for concurrent steps share the devices' threads: a device goes on with
// the next step where it waits in the last one. So pipelines without a flush
// have no schedule of their own.
class PipelineModel : public TrainedModel, public ReplicatedModel {
 public:
  // Makes the device of each place of a plan, for replica 0 first, then 1.
  using MakeDevice = std::function<std::unique_ptr<Device>()>;

  // `make_devices`: as many as the plan has devices, or that for each replica;
  // empty: all are the processor. REQUIRES: devices do not compute in fp16,
  // whose loss is scaled. `elsewhere`: the plan's first devices are in other
  // processes, and `make_devices` is of the others; null: none are. Then there
  // is one replica. It is kept by each clone.
  PipelineModel(std::shared_ptr<const NetworkPlan> network, PipelinePlan plan,
                std::vector<MakeDevice> make_devices, std::string device_name,
                std::shared_ptr<StagesElsewhere> elsewhere = nullptr)
      : PipelineModel(std::move(network), std::move(plan),
                      std::move(make_devices), std::move(device_name),
                      std::move(elsewhere),
                      /*replica=*/0, /*threads=*/nullptr) {}

  // See Network::LearnFrom. They compute one micro-batch after the other.
  void LearnFrom(std::unique_ptr<Teachers> teachers) {
    teachers_ = std::move(teachers);
  }

  const std::vector<v1::Variable>& variables() const override {
    return network_->variables;
  }
  std::unique_ptr<TrainedModel> Clone() const override;
  ReplicatedModel* replicated() override { return this; }
  std::unique_ptr<TrainedModel> CloneForReplica(
      uint32_t replica) const override;
  std::unique_ptr<TrainedModel> CloneForConcurrentSteps() const override;
  absl::Status FindRows(const Batch& batch,
                        absl::Span<std::vector<uint64_t>> rows) const override;
  absl::Status CheckTestData(const InputSpec& test) const override;
  absl::Status CheckExamples(const Batch& batch) const override;
  uint64_t CountedExamples(const Batch& batch) const override;
  absl::StatusOr<Metrics> Step(WeightSpans weights, const Batch& batch,
                               const StepOptions& options,
                               GradientSpans gradients, Ready ready) override;
  absl::StatusOr<Metrics> Evaluate(WeightSpans weights,
                                   const Batch& batch) override {
    return EvaluateRows(weights, batch, {});
  }
  absl::StatusOr<Metrics> EvaluateRows(WeightSpans weights, const Batch& batch,
                                       RowNumbers rows) override;
  absl::Status Predict(WeightSpans weights, const Batch& batch,
                       Batch* out) override {
    return PredictRows(weights, batch, {}, out);
  }
  absl::Status PredictRows(WeightSpans weights, const Batch& batch,
                           RowNumbers rows, Batch* out) override;
  ModelCost cost() const override { return network_->cost(); }
  std::string device() const override { return device_name_; }
  std::vector<std::string> metrics() const override {
    return network_->metrics();
  }

  const PipelinePlan& plan() const { return plan_; }

  // Of each device, the passes that it computed, on a clock that begins
  // anywhere. See TimelineOf.
  using Measured = std::vector<std::vector<Timeline::Span>>;
  // From now on each step or evaluation writes there what it has computed, in
  // place of what the one before wrote. `measured` outlives the steps; null:
  // none does.
  void MeasureInto(Measured* measured) { measured_ = measured; }

 private:
  // Some examples of a batch, one after the other.
  struct MicroBatch {
    Batch batch;
    // Of each feature that layers read: see InputOf.
    std::vector<std::vector<int32_t>> places;
    std::vector<ConstTensor> inputs;
    Targets targets;
    std::vector<float> soft;  // Of the first one.
    Layer::Context context;
    Metrics metrics;
  };
  // One mini-batch: what all stages see of it.
  struct MiniBatch {
    WeightSpans weights;
    RowNumbers rows;
    const ProvenSchedule* scheduled = nullptr;
    // By use; empty: nothing is trained.
    absl::Span<const absl::Span<float>> gradients = {};
    double divisor = 1;
  };
  class Passes;

  // `threads`: those of another one, or null.
  PipelineModel(std::shared_ptr<const NetworkPlan> network, PipelinePlan plan,
                std::vector<MakeDevice> make_devices, std::string device_name,
                std::shared_ptr<StagesElsewhere> elsewhere, uint32_t replica,
                std::shared_ptr<DeviceThreads> threads);
  void MakeStages(uint32_t replica);

  std::unique_ptr<TrainedModel> CloneOn(
      uint32_t replica, std::shared_ptr<DeviceThreads> threads) const;
  // Cuts the batch into micro-batches of so many examples, but for the last.
  void Cut(const Batch& batch, uint64_t size, RowNumbers rows,
           const Layer::Context& context);
  // Sets the target of each micro-batch.
  absl::Status SetTargets();
  // RunAll, again from its beginning while stages that are elsewhere were lost
  // and may come back.
  absl::Status Compute(const MiniBatch& mini,
                       const std::function<absl::Status()>& use = nullptr);
  // Has all devices do their lists, and then the last stage's `use`, which may
  // be null, on its thread.
  absl::Status RunAll(const MiniBatch& mini,
                      const std::function<absl::Status()>& use);
  absl::Status BeginDevice(const MiniBatch& mini, uint32_t device);
  absl::Status RunOp(const PipelineOp& op, uint32_t device, Passes* passes);
  // Forward alone, of the whole batch; then calls `use` on the thread of the
  // last stage.
  absl::Status Infer(WeightSpans weights, const Batch& batch, RowNumbers rows,
                     absl::FunctionRef<absl::Status(PipelineStage*)> use);

  const std::shared_ptr<const NetworkPlan> network_;
  const PipelinePlan plan_;
  const std::vector<MakeDevice> make_devices_;
  const std::string device_name_;
  const std::shared_ptr<StagesElsewhere> elsewhere_;  // Null: all are here.
  std::unique_ptr<StageLane> lane_;                   // Likewise.
  std::vector<std::unique_ptr<ModelStage>> stages_;
  PipelineStage* last_ = nullptr;  // Of them; always here.
  MiniBatchRun run_;
  ProvenSchedules schedules_;
  const ProvenSchedule inference_;  // Forward alone.
  std::vector<MicroBatch> parts_;
  std::unique_ptr<Teachers> teachers_;  // Null: it learns of labels alone.
  UseSums uses_;
  Measured* measured_ = nullptr;
  const std::shared_ptr<DeviceThreads> threads_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_PIPELINE_PIPELINE_MODEL_H_
