#include "compute/pipeline/measure.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/status_macros.h"
#include "compute/model/network_batch.h"
#include "compute/pipeline/pipeline_stage.h"

namespace paramd {
namespace {

constexpr int kWarmUpSteps = 3;

// Numbers that no layer finds odd: a variance is above 0.
std::vector<float> SomeNumbers(size_t count) {
  std::vector<float> numbers(count);
  for (size_t i = 0; i < count; ++i) {
    numbers[i] = 0.05f + 0.001f * static_cast<float>(i % 97);
  }
  return numbers;
}

Buffer SomeGradient(size_t bytes) {
  const std::vector<float> numbers = SomeNumbers(bytes / sizeof(float) + 1);
  return Buffer::Copy(AsBytes(absl::MakeConstSpan(numbers)).first(bytes));
}

// The model's variables, of sparse ones the rows that the batch reads.
struct SomeWeights {
  std::vector<std::vector<uint64_t>> rows;
  std::vector<absl::Span<const uint64_t>> row_spans;
  std::vector<std::vector<float>> values;
  std::vector<absl::Span<const float>> spans;
};

absl::StatusOr<SomeWeights> WeightsFor(const NetworkPlan& network,
                                       const Batch& batch) {
  SomeWeights weights;
  const auto sparse = std::count_if(
      network.variables.begin(), network.variables.end(),
      [](const v1::Variable& variable) { return variable.sparse(); });
  weights.rows.resize(sparse);
  RETURN_IF_ERROR(FindRows(network, batch, absl::MakeSpan(weights.rows)));
  for (std::vector<uint64_t>& rows : weights.rows) {
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    weights.row_spans.push_back(rows);
  }
  for (size_t v = 0; v < network.variables.size(); ++v) {
    const v1::Variable& variable = network.variables[v];
    Dims dims(variable.shape().begin(), variable.shape().end());
    if (variable.sparse()) {
      dims[0] = weights.rows[network.sparse_before[v]].size();
    }
    weights.values.push_back(SomeNumbers(SizeOf(dims)));
  }
  weights.spans.assign(weights.values.begin(), weights.values.end());
  return weights;
}

// Runs the one layer of a stage; `input` is of the layer before.
class LayerRun {
 public:
  LayerRun(const NetworkPlan& network, const SomeWeights& weights,
           const Batch& batch, absl::Span<const ConstTensor> inputs,
           PipelineStage* stage)
      : network_(network),
        weights_(weights),
        batch_(batch),
        inputs_(inputs),
        stage_(*stage) {
    context_.training = true;
    context_.draws = network.draws;
    context_.starts = network.starts;
    context_.examples = batch.size();
    context_.epoch = batch.range.epoch;
    context_.first = batch.range.begin;
    for (size_t i = 0; i < stage->uses(); ++i) {
      gradients_.emplace_back(
          weights.spans[network.shared[stage->first_use() + i]].size());
    }
  }

  // Sets `output` to what the layer gave.
  absl::Status Once(size_t i, const Buffer& input, LayerTimes* times,
                    Buffer* output) {
    RETURN_IF_ERROR(
        stage_.Begin(weights_.spans, weights_.row_spans, /*slots=*/1));
    const Time begin = MonotonicNow();
    RETURN_IF_ERROR(
        stage_.Forward(0, context_, batch_.offsets, inputs_, input));
    ASSIGN_OR_RETURN(*output, stage_.TakeOutput(0));
    const Time middle = MonotonicNow();
    if (i + 1 == network_.layers->size()) {
      RETURN_IF_ERROR(
          stage_.ComputeLoss(0, TargetsOf(network_, batch_), 1).status());
    } else if (gradient_.size() != output->size()) {
      gradient_ = SomeGradient(output->size());
    }
    std::vector<absl::Span<float>> spans;
    for (auto& one : gradients_) spans.push_back(absl::MakeSpan(one));
    RETURN_IF_ERROR(stage_.PlaceGradients(std::move(spans)));
    const Time before = MonotonicNow();
    RETURN_IF_ERROR(stage_.BackwardInput(0, gradient_, /*adds=*/false));
    const Time half = MonotonicNow();
    RETURN_IF_ERROR(stage_.BackwardVariables(0, /*adds=*/false));
    RETURN_IF_ERROR(stage_.TakeGradients());
    const Time end = MonotonicNow();
    input_s_ = std::min(input_s_, absl::ToDoubleSeconds(half - before));
    variables_s_ = std::min(variables_s_, absl::ToDoubleSeconds(end - half));
    forward_s_ = std::min(forward_s_, absl::ToDoubleSeconds(middle - begin));
    times->forward_s = forward_s_;
    times->backward_s = input_s_ + variables_s_;
    times->variables_s = variables_s_;
    return absl::OkStatus();
  }

 private:
  const NetworkPlan& network_;
  const SomeWeights& weights_;
  const Batch& batch_;
  const absl::Span<const ConstTensor> inputs_;
  PipelineStage& stage_;
  Layer::Context context_;
  std::vector<std::vector<float>> gradients_;
  Buffer gradient_;
  // The least so far.
  double forward_s_ = std::numeric_limits<double>::infinity();
  double input_s_ = std::numeric_limits<double>::infinity();
  double variables_s_ = std::numeric_limits<double>::infinity();
};

}  // namespace

absl::StatusOr<std::vector<LayerTimes>> MeasureLayers(
    const std::shared_ptr<const NetworkPlan>& network, const Batch& batch,
    int repetitions, absl::FunctionRef<std::unique_ptr<Device>()> make_device) {
  RETURN_IF_ERROR(CheckBatch(*network, batch));
  ASSIGN_OR_RETURN(const SomeWeights weights, WeightsFor(*network, batch));
  std::vector<std::vector<int32_t>> places(network->inputs.size());
  std::vector<ConstTensor> inputs;
  for (size_t f = 0; f < places.size(); ++f) {
    inputs.push_back(
        InputOf(*network, f, batch, weights.row_spans, &places[f]));
  }
  std::vector<LayerTimes> measured;
  Buffer output;
  for (size_t i = 0; i < network->layers->size(); ++i) {
    const Buffer before = output;
    PipelineStage stage(network, i, i + 1, make_device());
    LayerTimes& times = measured.emplace_back();
    times.name = network->layers->layer(i).name();
    LayerRun run(*network, weights, batch, inputs, &stage);
    // The first time memory is allocated.
    LayerTimes warm_up;
    RETURN_IF_ERROR(run.Once(i, before, &warm_up, &output));
    LayerRun timed(*network, weights, batch, inputs, &stage);
    for (int r = 0; r < repetitions; ++r) {
      RETURN_IF_ERROR(timed.Once(i, before, &times, &output));
    }
    times.kept_bytes = stage.KeptBytes(batch.size());
    times.deferred_bytes = stage.DeferredBytes(batch.size());
    times.output_bytes = output.size();
    for (size_t use = 0; use < stage.uses(); ++use) {
      // And a gradient.
      times.variable_bytes +=
          2 * sizeof(float) *
          weights.spans[network->shared[stage.first_use() + use]].size();
    }
  }
  return measured;
}

absl::StatusOr<Timeline> MeasureStages(
    const std::shared_ptr<const NetworkPlan>& network, const PipelinePlan& plan,
    const Batch& batch, const PipelineModel::MakeDevice& make_device) {
  RETURN_IF_ERROR(CheckBatch(*network, batch));
  ASSIGN_OR_RETURN(const SomeWeights weights, WeightsFor(*network, batch));
  std::vector<std::vector<float>> gradients;
  std::vector<absl::Span<float>> spans;
  for (const auto& values : weights.values) {
    gradients.emplace_back(values.size());
    spans.push_back(absl::MakeSpan(gradients.back()));
  }
  PipelineModel model(network, plan, {make_device}, "measured");
  PipelineModel::Measured measured;
  model.MeasureInto(&measured);
  // In the first steps memory is allocated.
  for (int step = 0; step <= kWarmUpSteps; ++step) {
    RETURN_IF_ERROR(model
                        .Step(weights.spans, batch,
                              {.divisor = static_cast<double>(batch.size()),
                               .rows = weights.row_spans},
                              spans, [](size_t) {})
                        .status());
  }
  return TimelineOf(std::move(measured));
}

}  // namespace paramd
