#include "worker/model/network.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "worker/device/cpu_device.h"

namespace paramd {
namespace {

constexpr char kPrediction[] = "prediction";

Dims ShapeOf(const v1::Variable& variable) {
  return Dims(variable.shape().begin(), variable.shape().end());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Network>> Network::Create(
    const v1::ModelConfig& config, const InputSpec& input,
    MakeDevice make_device) {
  ASSIGN_OR_RETURN(std::shared_ptr<const NetworkPlan> plan,
                   PlanNetwork(config, input));
  if (make_device == nullptr) {
    make_device = [] { return std::make_unique<CpuDevice>(); };
  }
  return std::unique_ptr<Network>(
      new Network(std::move(plan), std::move(make_device)));
}

Network::Network(std::shared_ptr<const NetworkPlan> plan,
                 MakeDevice make_device)
    : plan_(std::move(plan)),
      make_device_(std::move(make_device)),
      device_(make_device_()),
      weights_(plan_->shared.size()),
      gradients_(plan_->shared.size()) {
  for (size_t i = 0; i < plan_->shared.size(); ++i) {
    const Dims dims = ShapeOf(plan_->variables[plan_->shared[i]]);
    weights_[i].dims = dims;
    gradients_[i].dims = dims;
  }
}

std::unique_ptr<TrainedModel> Network::Clone() const {
  return std::unique_ptr<TrainedModel>(new Network(plan_, make_device_));
}

absl::StatusOr<const Column*> Network::FindColumn(
    const FeatureSpec& wanted, const Batch& batch) const {
  const Column* column = batch.Find(wanted.name);
  // How many classes it states is no matter: values are checked one by one.
  if (column != nullptr && column->spec().dtype == wanted.dtype &&
      column->spec().dims == wanted.dims && !column->spec().ragged) {
    return column;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a batch has not the feature '", wanted.name, "' of ",
      NameOf(wanted.dtype), " that the model was made for"));
}

absl::Status Network::CheckIndices(const Column& input,
                                   const Batch& batch) const {
  if (plan_->input_bound == 0) return absl::OkStatus();
  const auto indices = input.values<int32_t>();
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] >= 0 &&
        static_cast<uint64_t>(indices[i]) < plan_->input_bound) {
      continue;
    }
    return absl::DataLossError(absl::StrCat(
        batch.Where(i / plan_->input.size()), ": the feature '",
        plan_->input.name, "' has ", indices[i], "; it must be from 0 to ",
        plan_->input_bound - 1));
  }
  return absl::OkStatus();
}

absl::Status Network::CheckBatch(const Batch& batch) const {
  ASSIGN_OR_RETURN(const Column* const input,
                   FindColumn(plan_->input, batch));
  ASSIGN_OR_RETURN(const Column* const label,
                   FindColumn(plan_->label, batch));
  RETURN_IF_ERROR(CheckIndices(*input, batch));
  return plan_->loss->Check(label->tensor(),
                            [&](uint64_t i) { return batch.Where(i); });
}

absl::Status Network::FindRows(const Batch& batch,
                               absl::Span<std::vector<uint32_t>> rows) const {
  if (rows.empty() || batch.size() == 0) return absl::OkStatus();
  RETURN_IF_ERROR(CheckBatch(batch));
  // What takes integers is an embedding, and gets the input.
  const auto indices =
      batch.Find(plan_->input.name)->tensor().values<int32_t>();
  for (std::vector<uint32_t>& some : rows) {
    some.insert(some.end(), indices.begin(), indices.end());
  }
  return absl::OkStatus();
}

void Network::SetRows(RowNumbers rows) {
  for (size_t i = 0; i < plan_->shared.size(); ++i) {
    const v1::Variable& variable = plan_->variables[plan_->shared[i]];
    if (!variable.sparse()) continue;
    weights_[i].dims[0] = rows.empty() ? variable.shape(0) : rows[0].size();
    gradients_[i].dims[0] = weights_[i].dims[0];
  }
}

ConstTensor Network::InputOf(const Batch& batch, RowNumbers rows) {
  const ConstTensor input = batch.Find(plan_->input.name)->tensor();
  if (rows.empty()) return input;
  const auto indices = input.values<int32_t>();
  places_.resize(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto found =
        std::lower_bound(rows[0].begin(), rows[0].end(),
                         static_cast<uint32_t>(indices[i]));
    CHECK(found != rows[0].end() &&
              *found == static_cast<uint32_t>(indices[i]),
          "what the batch reads is among the rows that are handed in");
    places_[i] = static_cast<int32_t>(found - rows[0].begin());
  }
  return {places_.data(), input.dtype, input.dims};
}

void Network::CheckWeights(WeightSpans weights) const {
  CHECK(weights.size() == plan_->variables.size(),
        "there is one span of weights per variable");
  for (size_t i = 0; i < plan_->shared.size(); ++i) {
    CHECK(weights[plan_->shared[i]].size() == weights_[i].size(),
          "weights have the size of their variable");
  }
}

Layer::Context Network::ContextOf(const Batch& batch) {
  Layer::Context context;
  context.device = device_.get();
  context.examples = batch.size();
  context.epoch = batch.range.epoch;
  context.first = batch.range.begin;
  context.offsets = batch.offsets;
  return context;
}

std::byte* Network::Reserve(uint64_t bytes, Memory* memory) {
  if (memory->bytes < bytes) {
    memory->data = nullptr;
    memory->data = device_->Allocate(bytes);
    memory->bytes = bytes;
  }
  return static_cast<std::byte*>(memory->data.get());
}

Layer::Pass Network::Forward(const Layer::Context& context, WeightSpans weights,
                             const ConstTensor& input) {
  const Sequence& layers = *plan_->layers;
  for (size_t i = 0; i < weights_.size(); ++i) {
    weights_[i].data = weights[plan_->shared[i]].data();
  }
  Layer::Pass pass;
  pass.context = &context;
  pass.weights = weights_;
  pass.input = input;
  pass.output = {nullptr, context.dtype,
                 Batched(context.examples, layers.output_dims())};
  pass.output.data = Reserve(
      pass.output.size() * SizeOf(context.dtype), &output_);
  pass.kept = Reserve(layers.KeptBytes(context.examples, context.dtype),
                      &kept_);
  pass.scratch = Reserve(layers.ScratchBytes(context.examples, context.dtype),
                         &scratch_);
  layers.Forward(pass);
  return pass;
}

absl::StatusOr<Metrics> Network::Step(WeightSpans weights, const Batch& batch,
                                      const StepOptions& options,
                                      GradientSpans gradients, Ready ready) {
  CHECK(options.divisor > 0, "the divisor of a gradient is above 0");
  SetRows(options.rows);
  CheckWeights(weights);
  CHECK(gradients.size() == plan_->variables.size(),
        "there is one gradient per variable");
  if (batch.size() == 0) {
    for (size_t v = gradients.size(); v-- > 0;) {
      std::fill(gradients[v].begin(), gradients[v].end(), 0.0f);
      ready(v);
    }
    return Metrics();
  }
  RETURN_IF_ERROR(CheckBatch(batch));
  Layer::Context context = ContextOf(batch);
  context.training = true;
  context.seed = options.seed;
  context.share = static_cast<double>(batch.size()) / options.divisor;
  context.abandoned = options.abandoned;
  const Layer::Pass pass =
      Forward(context, weights, InputOf(batch, options.rows));
  if (context.IsAbandoned()) return Metrics();
  Tensor gradient = pass.output;
  gradient.data = Reserve(gradient.size() * SizeOf(context.dtype),
                          &output_gradient_);
  const Metrics metrics = plan_->loss->Compute(
      pass.output, batch.Find(plan_->label.name)->tensor(), 1 / options.divisor,
      gradient, /*scored=*/false);
  if (std::isfinite(metrics.loss_sum)) {
    Backward(context, pass, gradient, gradients, ready);
  } else {
    Backward(context, pass, gradient, gradients, [](size_t) {});
  }
  return metrics;
}

void Network::Backward(const Layer::Context& context,
                       const Layer::Pass& forward,
                       const ConstTensor& output_gradient,
                       GradientSpans gradients, Ready ready) {
  // The last use of a variable, which is first here, writes to its gradient; the
  // others write beside it and are added.
  uint64_t bytes = 0;
  for (size_t i = 0; i < gradients_.size(); ++i) {
    bytes = std::max(bytes, gradients_[i].size() * sizeof(float));
  }
  const bool has_shared = plan_->shared.size() > plan_->variables.size();
  std::byte* further = has_shared ? Reserve(bytes * gradients_.size(),
                                            &further_)
                                  : nullptr;
  // Uses of a variable that are before use `i`, and behind it.
  const auto used_before = [&](size_t i) {
    return std::find(plan_->shared.begin(), plan_->shared.begin() + i,
                     plan_->shared[i]) != plan_->shared.begin() + i;
  };
  const auto used_behind = [&](size_t i) {
    return has_shared &&
           std::find(plan_->shared.begin() + i + 1, plan_->shared.end(),
                     plan_->shared[i]) != plan_->shared.end();
  };
  for (size_t i = 0; i < gradients_.size(); ++i) {
    const absl::Span<float> gradient = gradients[plan_->shared[i]];
    CHECK(gradient.size() == gradients_[i].size(),
          "a gradient has the size of its variable");
    gradients_[i].data =
        used_behind(i) ? static_cast<void*>(further + bytes * i)
                       : gradient.data();
  }
  Layer::BackwardPass pass;
  static_cast<Layer::Pass&>(pass) = forward;
  pass.output_gradient = output_gradient;
  pass.gradients = gradients_;
  plan_->layers->BackwardWith(pass, [&](size_t i) {
    const size_t variable = plan_->shared[i];
    if (used_behind(i)) {
      Tensor sum = gradients_[i];
      sum.data = gradients[variable].data();
      context.device->Add(sum, 1, gradients_[i], sum);
    }
    if (!has_shared || !used_before(i)) ready(variable);
  });
}

absl::StatusOr<Metrics> Network::EvaluateRows(WeightSpans weights,
                                              const Batch& batch,
                                              RowNumbers rows) {
  SetRows(rows);
  CheckWeights(weights);
  if (batch.size() == 0) return Metrics();
  RETURN_IF_ERROR(CheckBatch(batch));
  const Layer::Context context = ContextOf(batch);
  const Layer::Pass pass = Forward(context, weights, InputOf(batch, rows));
  return plan_->loss->Compute(pass.output,
                              batch.Find(plan_->label.name)->tensor(), 1,
                              Tensor(), /*scored=*/true);
}

absl::Status Network::Predict(WeightSpans weights, const Batch& batch,
                              Batch* out) {
  SetRows({});
  CheckWeights(weights);
  const InputSpec spec{
      {FeatureSpec{kPrediction, DType::kFloat32,
                   plan_->layers->output_dims()}}};
  out->Reset(spec, batch.size());
  out->range = batch.range;
  if (batch.size() == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Column* const input,
                   FindColumn(plan_->input, batch));
  RETURN_IF_ERROR(CheckIndices(*input, batch));
  const Layer::Context context = ContextOf(batch);
  const Layer::Pass pass = Forward(context, weights, input->tensor());
  plan_->loss->Predict(pass.output, out->Find(kPrediction)->tensor());
  return absl::OkStatus();
}

ModelCost Network::cost() const {
  ModelCost cost;
  plan_->layers->AddCost(0, &cost.layers);
  for (const LayerCost& layer : cost.layers) {
    if (layer.depth > 0) continue;
    cost.flops += layer.flops;
    cost.activation_bytes += layer.activation_bytes;
  }
  for (const v1::Variable& variable : plan_->variables) {
    cost.parameters += SizeOf(ShapeOf(variable));
  }
  return cost;
}

}  // namespace paramd
