#include "compute/pipeline/pipeline_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "compute/device/cpu_device.h"
#include "compute/model/network_batch.h"
#include "compute/pipeline/partition.h"
#include "config/strategy.h"

namespace paramd {
namespace {

using Kind = PipelineOp::Kind;

// Unless the job says how many. The same for any number of stages, as what is
// computed depends on it.
constexpr uint32_t kMicroBatches = 16;

// Each stage once forward: what an evaluation is.
PipelineSchedule ForwardSchedule(uint32_t stages, uint32_t devices) {
  PipelineSchedule schedule;
  schedule.stages = stages;
  schedule.devices.resize(devices);
  for (uint32_t s = 0; s < stages; ++s) {
    schedule.devices[schedule.DeviceOf(s)].push_back({Kind::kForward, s, 0});
  }
  return WithTransfers(std::move(schedule));
}

absl::StatusOr<std::vector<size_t>> BeginsByName(
    const v1::PipelineConfig& config, const Sequence& layers) {
  std::vector<size_t> begins = {0};
  for (const std::string& name : config.begin_at()) {
    size_t i = begins.back() + 1;
    while (i < layers.size() && layers.layer(i).name() != name) ++i;
    if (i == layers.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("pipeline.begin_at names the layer '", name,
                       "'; there is none of that name after '",
                       layers.layer(begins.back()).name(),
                       "', with which the stage before it begins"));
    }
    begins.push_back(i);
  }
  if (begins.size() != config.stages()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "pipeline.begin_at has the names of ", config.begin_at_size(),
        " layers, which makes ", begins.size(), " stages; pipeline.stages is ",
        config.stages()));
  }
  return begins;
}

absl::StatusOr<std::vector<size_t>> BeginsByCost(uint32_t stages,
                                                 const Sequence& layers) {
  std::vector<LayerTimes> times;
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers.layer(i);
    LayerTimes& one = times.emplace_back();
    one.name = layer.name();
    one.forward_s = layer.is_view() ? 0 : static_cast<double>(layer.flops());
    one.backward_s = 2 * one.forward_s;
  }
  PartitionOptions options;
  options.stages = stages;
  ASSIGN_OR_RETURN(Partition partition, PartitionLayers(times, options));
  return std::move(partition.begins);
}

}  // namespace

absl::StatusOr<PipelinePlan> PlanPipeline(const v1::PipelineConfig& config,
                                          const NetworkPlan& network) {
  if (network.tasks.front().loss->IsOfBatch()) {
    return absl::InvalidArgumentError(
        "a pipeline computes parts of a batch by themselves, but the loss "
        "in_batch_softmax compares an example with all of its batch");
  }
  const uint32_t stages = std::max(1u, config.stages());
  const uint32_t chunks = std::max(1u, config.stages_per_device());
  PipelinePlan plan;
  ASSIGN_OR_RETURN(plan.begins, config.begin_at().empty()
                                    ? BeginsByCost(stages, *network.layers)
                                    : BeginsByName(config, *network.layers));
  plan.devices = stages / chunks;
  const bool is_pipedream =
      config.schedule() == v1::PipelineConfig::SCHEDULE_PIPEDREAM;
  plan.micro_batches = config.micro_batches() > 0    ? config.micro_batches()
                       : stages > 1 && !is_pipedream ? kMicroBatches
                                                     : 1;
  plan.concurrent = ConcurrentSteps(config);
  switch (config.schedule()) {
    case v1::PipelineConfig::SCHEDULE_NAIVE:
      plan.schedule = [stages](uint32_t m) { return NaiveSchedule(stages, m); };
      break;
    case v1::PipelineConfig::SCHEDULE_GPIPE:
      plan.schedule = [stages](uint32_t m) { return GpipeSchedule(stages, m); };
      break;
    case v1::PipelineConfig::SCHEDULE_INTERLEAVED:
      plan.schedule = [stages, chunks](uint32_t m) {
        return InterleavedSchedule(stages / chunks, chunks, m);
      };
      break;
    case v1::PipelineConfig::SCHEDULE_ZERO_BUBBLE:
      plan.schedule = [stages](uint32_t m) {
        return ZeroBubbleSchedule(stages, m);
      };
      break;
    default:
      plan.schedule = [stages](uint32_t m) {
        return OneForwardOneBackward(stages, m);
      };
  }
  return plan;
}

PipelineModel::PipelineModel(std::shared_ptr<const NetworkPlan> network,
                             PipelinePlan plan,
                             std::vector<MakeDevice> make_devices,
                             std::string device_name,
                             std::shared_ptr<StagesElsewhere> elsewhere,
                             uint32_t replica,
                             std::shared_ptr<DeviceThreads> threads)
    : network_(std::move(network)),
      plan_(std::move(plan)),
      make_devices_(std::move(make_devices)),
      device_name_(std::move(device_name)),
      elsewhere_(std::move(elsewhere)),
      schedules_(plan_.schedule),
      inference_{ForwardSchedule(static_cast<uint32_t>(plan_.begins.size()),
                                 plan_.devices),
                 std::vector<uint32_t>(plan_.begins.size(), 1)},
      uses_(network_->shared),
      threads_(threads != nullptr
                   ? std::move(threads)
                   : std::make_shared<DeviceThreads>(plan_.devices)) {
  MakeStages(replica);
}

void PipelineModel::MakeStages(uint32_t replica) {
  const uint32_t elsewhere = elsewhere_ == nullptr ? 0 : elsewhere_->devices();
  CHECK(elsewhere < plan_.devices, "the last device is here");
  if (elsewhere > 0) lane_ = elsewhere_->OpenLane();
  const uint32_t here = plan_.devices - elsewhere;
  const size_t count = plan_.begins.size();
  stages_.resize(count);
  // The last one first: it says of what type activations are.
  for (size_t s = count; s-- > 0;) {
    const auto device = static_cast<uint32_t>(s % plan_.devices);
    const size_t end =
        s + 1 < count ? plan_.begins[s + 1] : network_->layers->size();
    if (device < elsewhere) {
      stages_[s] =
          lane_->MakeStage(network_, {.stage = static_cast<uint32_t>(s),
                                      .begin = plan_.begins[s],
                                      .end = end,
                                      .device = device,
                                      .activations = last_->activations()});
      continue;
    }
    const size_t place = replica * here + (device - elsewhere);
    auto stage = std::make_unique<PipelineStage>(
        network_, plan_.begins[s], end,
        make_devices_.empty() ? std::make_unique<CpuDevice>()
                              : make_devices_[place % make_devices_.size()]());
    if (s + 1 == count) last_ = stage.get();
    stages_[s] = std::move(stage);
  }
}

std::unique_ptr<TrainedModel> PipelineModel::Clone() const {
  return CloneForReplica(0);
}

std::unique_ptr<TrainedModel> PipelineModel::CloneForReplica(
    uint32_t replica) const {
  return CloneOn(replica, nullptr);
}

std::unique_ptr<TrainedModel> PipelineModel::CloneForConcurrentSteps() const {
  return CloneOn(/*replica=*/0, threads_);
}

std::unique_ptr<TrainedModel> PipelineModel::CloneOn(
    uint32_t replica, std::shared_ptr<DeviceThreads> threads) const {
  std::unique_ptr<PipelineModel> clone(
      new PipelineModel(network_, plan_, make_devices_, device_name_,
                        elsewhere_, replica, std::move(threads)));
  if (teachers_ != nullptr) {
    clone->LearnFrom(teachers_->CloneForReplica(replica));
  }
  return clone;
}

absl::Status PipelineModel::FindRows(
    const Batch& batch, absl::Span<std::vector<uint64_t>> rows) const {
  return paramd::FindRows(*network_, batch, rows);
}

absl::Status PipelineModel::CheckTestData(const InputSpec& test) const {
  return paramd::CheckTestData(*network_, test);
}

absl::Status PipelineModel::CheckExamples(const Batch& batch) const {
  return CheckBatch(*network_, batch);
}

uint64_t PipelineModel::CountedExamples(const Batch& batch) const {
  return paramd::CountedExamples(*network_, batch);
}

void PipelineModel::Cut(const Batch& batch, uint64_t size, RowNumbers rows,
                        const Layer::Context& context) {
  parts_.resize((batch.size() + size - 1) / size);
  for (size_t i = 0; i < parts_.size(); ++i) {
    MicroBatch& part = parts_[i];
    part.batch.CopyExamples(batch, i * size,
                            std::min((i + 1) * size, batch.size()));
    part.places.resize(network_->inputs.size());
    part.inputs.resize(network_->inputs.size());
    for (size_t f = 0; f < part.inputs.size(); ++f) {
      part.inputs[f] = InputOf(*network_, f, part.batch, rows, &part.places[f]);
    }
    part.metrics = Metrics();
    part.context = context;
    part.context.draws = network_->draws;
    part.context.starts = network_->starts;
    part.context.examples = part.batch.size();
    part.context.epoch = part.batch.range.epoch;
    part.context.first = part.batch.range.begin;
  }
}

absl::Status PipelineModel::SetTargets() {
  for (MicroBatch& part : parts_) {
    part.targets = TargetsOf(*network_, part.batch);
    if (teachers_ == nullptr) continue;
    Loss::Target& target = part.targets.front();
    RETURN_IF_ERROR(teachers_->AddTo(part.batch, &target));
    // The next call writes over it.
    const auto soft = target.soft.values<float>();
    part.soft.assign(soft.begin(), soft.end());
    target.soft.data = part.soft.data();
  }
  return absl::OkStatus();
}

// A mini-batch on the built-in layers. Stages follow each other and none is
// skipped, so what one gets is one buffer or none.
class PipelineModel::Passes : public StagePasses {
 public:
  Passes(PipelineModel* model, const MiniBatch& mini)
      : model_(*model), mini_(mini) {}

  absl::Status Forward(const PipelineOp& op, size_t slot,
                       Received inputs) override {
    const MicroBatch& part = model_.parts_[op.micro_batch];
    return StageOf(op).Forward(slot, part.context, part.batch.offsets,
                               part.inputs, OnlyOf(&inputs));
  }
  absl::StatusOr<Buffer> TakeOutput(const PipelineOp& op,
                                    size_t slot) override {
    return StageOf(op).TakeOutput(slot);
  }
  absl::Status Backward(const PipelineOp& op, size_t slot,
                        Received output_gradients, bool adds) override {
    ModelStage& stage = StageOf(op);
    if (op.stage + 1 == model_.stages_.size()) {
      MicroBatch& part = model_.parts_[op.micro_batch];
      ASSIGN_OR_RETURN(
          part.metrics,
          model_.last_->ComputeLoss(slot, part.targets, 1 / mini_.divisor));
    }
    Buffer gradient = OnlyOf(&output_gradients);
    return op.kind == Kind::kBackward
               ? stage.Backward(slot, std::move(gradient), adds)
               : stage.BackwardInput(slot, std::move(gradient), adds);
  }
  absl::Status BackwardVariables(const PipelineOp& op, size_t slot,
                                 bool adds) override {
    return StageOf(op).BackwardVariables(slot, adds);
  }
  absl::StatusOr<Buffer> TakeInputGradient(const PipelineOp& op,
                                           size_t /*slot*/) override {
    return StageOf(op).TakeInputGradient();
  }
  absl::Status Update(const PipelineOp& op) override {
    return StageOf(op).TakeGradients();
  }

 private:
  static Buffer OnlyOf(Received* received) {
    return received->empty() ? Buffer() : std::move(received->begin()->second);
  }
  ModelStage& StageOf(const PipelineOp& op) {
    return *model_.stages_[op.stage];
  }

  PipelineModel& model_;
  const MiniBatch& mini_;
};

absl::Status PipelineModel::Compute(const MiniBatch& mini,
                                    const std::function<absl::Status()>& use) {
  if (lane_ == nullptr) return RunAll(mini, use);
  Time since;
  for (uint64_t times = 1;; ++times) {
    const Layer::Context& context = parts_.front().context;
    lane_->Begin(context.abandoned);
    const absl::Status ran = RunAll(mini, use);
    if (ran.ok()) lane_->Done();
    if (ran.ok() || context.IsAbandoned()) return ran;
    if (times == 1) since = MonotonicNow();
    RETURN_IF_ERROR(lane_->AwaitReturn(ran, times, since));
  }
}

absl::Status PipelineModel::RunAll(const MiniBatch& mini,
                                   const std::function<absl::Status()>& use) {
  const auto& lists = mini.scheduled->schedule.devices;
  const size_t last = mini.scheduled->schedule.DeviceOf(stages_.size() - 1);
  // Each begins with the weights.
  std::vector<size_t> operations;
  for (const auto& list : lists) operations.push_back(list.size() + 1);
  if (use != nullptr) ++operations[last];
  run_.Begin(*mini.scheduled);
  if (measured_ != nullptr) measured_->assign(lists.size(), {});
  Passes passes(this, mini);
  const auto ready = [&](uint32_t d, size_t i) {
    return i == 0 || i > lists[d].size() || run_.IsReady(lists[d][i - 1]);
  };
  const auto run = [&](uint32_t d, size_t i) {
    if (i == 0) return BeginDevice(mini, d);
    if (i > lists[d].size()) return use();
    return RunOp(lists[d][i - 1], d, &passes);
  };
  return threads_->Run({std::move(operations), ready, run});
}

absl::Status PipelineModel::RunOp(const PipelineOp& op, uint32_t device,
                                  Passes* passes) {
  if (parts_[op.micro_batch].context.IsAbandoned()) {
    return absl::CancelledError("the step was abandoned");
  }
  if (measured_ == nullptr || op.kind >= Kind::kUpdate) {
    return run_.Run(op, passes);
  }
  const Time begin = MonotonicNow();
  const absl::Status status = run_.Run(op, passes);
  const auto seconds = [](Time time) {
    return 1e-9 * static_cast<double>(time.nanoseconds());
  };
  (*measured_)[device].push_back({op, seconds(begin), seconds(MonotonicNow())});
  return status;
}

absl::Status PipelineModel::BeginDevice(const MiniBatch& mini,
                                        uint32_t device) {
  for (uint32_t s = device; s < stages_.size(); s += plan_.devices) {
    RETURN_IF_ERROR(
        stages_[s]->Begin(mini.weights, mini.rows, mini.scheduled->slots[s]));
    if (mini.gradients.empty()) continue;
    const auto wanted =
        mini.gradients.subspan(stages_[s]->first_use(), stages_[s]->uses());
    RETURN_IF_ERROR(stages_[s]->PlaceGradients({wanted.begin(), wanted.end()}));
  }
  return absl::OkStatus();
}

absl::StatusOr<Metrics> PipelineModel::Step(WeightSpans weights,
                                            const Batch& batch,
                                            const StepOptions& options,
                                            GradientSpans gradients,
                                            Ready ready) {
  CHECK(options.sharing == Sharing::kAlone, "a pipeline sums with no others");
  CHECK(gradients.size() == network_->variables.size(),
        "there is one gradient per variable");
  if (batch.size() == 0) {
    for (size_t v = gradients.size(); v-- > 0;) {
      std::fill(gradients[v].begin(), gradients[v].end(), 0.0f);
      ready(v);
    }
    return Metrics();
  }
  RETURN_IF_ERROR(CheckBatch(*network_, batch));
  Layer::Context context;
  context.training = true;
  context.seed = options.seed;
  context.abandoned = options.abandoned;
  Cut(batch, (batch.size() + plan_.micro_batches - 1) / plan_.micro_batches,
      options.rows, context);
  RETURN_IF_ERROR(SetTargets());
  for (MicroBatch& part : parts_) {
    part.context.share =
        static_cast<double>(CountedExamples(part.batch)) / options.divisor;
  }
  const auto scheduled = schedules_.For(static_cast<uint32_t>(parts_.size()));
  CHECK(scheduled.ok(), "a schedule is sound");
  const std::vector<absl::Span<float>> uses = uses_.Place(gradients);
  const absl::Status ran = Compute({.weights = weights,
                                    .rows = options.rows,
                                    .scheduled = *scheduled,
                                    .gradients = uses,
                                    .divisor = options.divisor});
  if (context.IsAbandoned()) return Metrics();
  RETURN_IF_ERROR(ran);
  uses_.AddTo(gradients);
  Metrics metrics;
  for (const MicroBatch& part : parts_) metrics += part.metrics;
  if (!std::isfinite(metrics.loss_sum)) return metrics;
  for (size_t v = gradients.size(); v-- > 0;) ready(v);
  return metrics;
}

absl::Status PipelineModel::Infer(
    WeightSpans weights, const Batch& batch, RowNumbers rows,
    absl::FunctionRef<absl::Status(PipelineStage*)> use) {
  Cut(batch, batch.size(), rows, Layer::Context());
  const MiniBatch mini = {
      .weights = weights, .rows = rows, .scheduled = &inference_};
  return Compute(mini, [&] { return use(last_); });
}

absl::StatusOr<Metrics> PipelineModel::EvaluateRows(WeightSpans weights,
                                                    const Batch& batch,
                                                    RowNumbers rows) {
  if (batch.size() == 0) return Metrics();
  RETURN_IF_ERROR(CheckBatch(*network_, batch));
  absl::StatusOr<Metrics> metrics = Metrics();
  RETURN_IF_ERROR(
      Infer(weights, batch, rows, [&](PipelineStage* last) -> absl::Status {
        if (!network_->NeedsScores()) {
          metrics =
              last->ComputeLoss(0, TargetsOf(*network_, batch), /*scale=*/0);
          return metrics.status();
        }
        ASSIGN_OR_RETURN(const ConstTensor outputs, last->TakeOutputs(0));
        metrics = CountMetrics(*network_, outputs, batch);
        return metrics.status();
      }));
  return metrics;
}

absl::Status PipelineModel::PredictRows(WeightSpans weights, const Batch& batch,
                                        RowNumbers rows, Batch* out) {
  LayOutPrediction(*network_, batch, out);
  if (batch.size() == 0) return absl::OkStatus();
  RETURN_IF_ERROR(CheckBatch(*network_, batch, /*labels=*/false));
  return Infer(weights, batch, rows, [&](PipelineStage* last) -> absl::Status {
    ASSIGN_OR_RETURN(const ConstTensor outputs, last->TakeOutputs(0));
    WritePrediction(*network_, outputs, out);
    return absl::OkStatus();
  });
}

}  // namespace paramd
