#include "compute/model/network.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "compute/device/cpu_device.h"
#include "compute/model/teachers.h"

namespace paramd {
namespace {

void NoneReady(size_t /*variable*/) {}

// That of the device, with what would help where it had not the memory for so
// many examples. `fitting`: for so many it had.
absl::Status StatusOf(const Device& device, uint64_t examples,
                      uint64_t fitting) {
  const absl::Status status = device.status();
  if (!absl::IsResourceExhausted(status)) return status;
  return absl::ResourceExhaustedError(
      absl::StrCat("a batch of ", examples,
                   " examples needs more memory: ", status.message(), "; ",
                   fitting > 0 ? absl::StrCat("one of ", fitting, " had enough")
                               : "give a smaller batch_per_replica"));
}

// The outputs of a pass, in host memory.
absl::StatusOr<ConstTensor> OutputsOf(const Layer::Pass& pass, uint64_t fitting,
                                      Exchange* exchange) {
  const ConstTensor outputs = exchange->TakeOutput(pass.output);
  RETURN_IF_ERROR(
      StatusOf(*pass.context->device, pass.context->examples, fitting));
  return outputs;
}

void CheckWeights(const NetworkPlan& plan, absl::Span<const ConstTensor> wanted,
                  WeightSpans weights) {
  CHECK(weights.size() == plan.variables.size(),
        "there is one span of weights per variable");
  for (size_t i = 0; i < plan.shared.size(); ++i) {
    CHECK(weights[plan.shared[i]].size() == wanted[i].size(),
          "weights have the size of their variable");
  }
}

void CheckStep(const NetworkPlan& plan,
               const TrainedModel::StepOptions& options,
               GradientSpans gradients) {
  CHECK(options.divisor > 0, "the divisor of a gradient is above 0");
  CHECK(gradients.size() == plan.variables.size(),
        "there is one gradient per variable");
}

// Whether the batch of the next step may cross as it is.
bool BringsAhead(const NetworkPlan& plan,
                 const TrainedModel::StepOptions& options) {
  return options.next != nullptr && options.rows.empty() &&
         plan.TakesAllAsTheyAre();
}

size_t LargestSize(GradientSpans gradients) {
  size_t largest = 0;
  for (const absl::Span<float>& one : gradients) {
    largest = std::max(largest, one.size());
  }
  return largest;
}

// A step without examples.
Metrics ZerosOf(GradientSpans gradients, TrainedModel::Ready ready) {
  for (size_t v = gradients.size(); v-- > 0;) {
    std::fill(gradients[v].begin(), gradients[v].end(), 0.0f);
    ready(v);
  }
  return Metrics();
}

// What Forward does not fill in.
Layer::Context TrainingOf(uint64_t counted,
                          const TrainedModel::StepOptions& options) {
  Layer::Context context;
  context.training = true;
  context.seed = options.seed;
  context.share = static_cast<double>(counted) / options.divisor;
  context.abandoned = options.abandoned;
  return context;
}

// A step among others, if `meeting` is not null: however it ends, no other
// waits for it in vain.
class StepAmongReplicas {
 public:
  // `is_known`: the device has done a step of so many examples.
  StepAmongReplicas(ReplicaMeeting* meeting, Sharing sharing, bool is_known,
                    Device* device, Exchange* exchange)
      : meeting_(sharing == Sharing::kAlone ? nullptr : meeting),
        device_(*device),
        exchange_(*exchange) {
    CHECK(sharing == Sharing::kAlone || meeting != nullptr,
          "who sums with others has joined them");
    exchange_.SetSharing(sharing, /*holds_sums=*/!is_known);
  }
  ~StepAmongReplicas() {
    if (meeting_ == nullptr) return;
    if (!has_met_) {
      static_cast<void>(
          meeting_->Meet(absl::CancelledError("a replica's step failed")));
    } else if (!device_.status().ok()) {
      exchange_.AbortSums();
    }
  }

  // All have what they need, and can go on: nobody does anything before that
  // the devices of others wait for. `*finite`, whether a loss is, becomes
  // whether all are.
  absl::Status Meet(bool* finite) {
    if (meeting_ == nullptr) return absl::OkStatus();
    has_met_ = true;
    std::shared_ptr<void> one_is_not;
    if (!*finite) one_is_not = std::make_shared<bool>(true);
    const absl::Status met = meeting_->Meet(absl::OkStatus(), &one_is_not);
    *finite = one_is_not == nullptr;
    return met;
  }

 private:
  ReplicaMeeting* const meeting_;
  Device& device_;
  Exchange& exchange_;
  bool has_met_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Network>> Network::Create(
    const v1::ModelConfig& config, const InputSpec& input,
    MakeDevice make_device, std::string device_name,
    std::vector<MakeDevice> of_replicas) {
  ASSIGN_OR_RETURN(std::shared_ptr<const NetworkPlan> plan,
                   PlanNetwork(config, input));
  if (make_device == nullptr) {
    make_device = [] { return std::make_unique<CpuDevice>(); };
  }
  return std::make_unique<Network>(std::move(plan), std::move(make_device),
                                   std::move(device_name),
                                   std::move(of_replicas));
}

Network::Network(std::shared_ptr<const NetworkPlan> plan,
                 MakeDevice make_device, std::string device_name,
                 std::vector<MakeDevice> of_replicas)
    : plan_(std::move(plan)),
      make_device_(std::move(make_device)),
      device_name_(std::move(device_name)),
      of_replicas_(std::move(of_replicas)),
      device_(make_device_()),
      exchange_(device_.get(), plan_->variables.size(), plan_->inputs.size()),
      scaler_(device_.get()),
      recorded_(device_.get()),
      weights_(plan_->shared.size()),
      gradients_(plan_->shared.size()),
      places_(plan_->inputs.size()),
      inputs_(plan_->inputs.size()) {
  sent_.reserve(plan_->variables.size());
  if (!plan_->swap_directory.empty()) {
    swap_ = std::make_unique<SwapFile>(plan_->swap_directory);
  }
  for (size_t i = 0; i < plan_->shared.size(); ++i) {
    const auto& shape = plan_->variables[plan_->shared[i]].shape();
    const Dims dims(shape.begin(), shape.end());
    weights_[i].dims = dims;
    gradients_[i].dims = dims;
  }
}

Network::~Network() = default;

void Network::LearnFrom(std::unique_ptr<Teachers> teachers) {
  teachers_ = std::move(teachers);
}

std::unique_ptr<TrainedModel> Network::Clone() const {
  return CloneOn(make_device_, 0);
}

std::unique_ptr<TrainedModel> Network::CloneForReplica(uint32_t replica) const {
  return CloneOn(
      replica < of_replicas_.size() ? of_replicas_[replica] : make_device_,
      replica);
}

std::unique_ptr<TrainedModel> Network::CloneOn(MakeDevice make_device,
                                               uint32_t replica) const {
  auto clone =
      std::make_unique<Network>(plan_, std::move(make_device), device_name_);
  if (trace_ != nullptr) clone->SetTrace(trace_);
  if (teachers_ != nullptr) {
    clone->LearnFrom(teachers_->CloneForReplica(replica));
  }
  return clone;
}

void Network::SetTrace(ChromeTrace* trace) {
  trace_ = trace;
  if (device_->link() != nullptr) device_->link()->SetTrace(trace);
}

absl::Status Network::JoinReplicas(const ReplicaGroup& group) {
  // Each has a scale of its own, and may compute its gradients again.
  if (scaler_.scales()) return RefuseToSum(group);
  const absl::Status joined = exchange_.Join(group);
  if (joined.ok()) replicas_ = group.meeting;
  return joined;
}

void Network::SetRows(RowNumbers rows) {
  for (size_t i = 0; i < plan_->shared.size(); ++i) {
    const size_t v = plan_->shared[i];
    const v1::Variable& variable = plan_->variables[v];
    if (!variable.sparse()) continue;
    weights_[i].dims[0] =
        rows.empty() ? variable.shape(0) : rows[plan_->sparse_before[v]].size();
    gradients_[i].dims[0] = weights_[i].dims[0];
  }
}

void Network::BringInputs(const Batch& batch, RowNumbers rows) {
  bool is_ahead = false;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const ConstTensor input = InputOf(*plan_, i, batch, rows, &places_[i]);
    if (i == 0) {
      is_ahead = input.data == ahead_.input && batch.range == ahead_.range;
    }
    inputs_[i] = exchange_.BringInput(i, input, is_ahead);
  }
  if (is_ahead) ahead_ = {};
}

Layer::BackwardPass Network::PlaceForward(Layer::Context* context) {
  const Sequence& layers = *plan_->layers;
  const uint64_t examples = context->examples;
  const DType dtype = context->dtype;
  Layer::BackwardPass pass;
  pass.context = context;
  pass.weights = weights_;
  pass.input = inputs_.front();
  pass.output = {nullptr, dtype, Batched(examples, layers.output_dims())};
  pass.output.data =
      exchange_.Reserve(pass.output.size() * SizeOf(dtype), &memory_.output);
  pass.kept =
      exchange_.Reserve(layers.KeptBytes(examples, dtype), &memory_.kept);
  pass.scratch =
      exchange_.Reserve(layers.ScratchBytes(examples, dtype), &memory_.scratch);
  return pass;
}

absl::StatusOr<Layer::BackwardPass> Network::Forward(WeightSpans weights,
                                                     const Batch& batch,
                                                     RowNumbers rows,
                                                     bool takes_outputs,
                                                     Layer::Context* context) {
  const Sequence& layers = *plan_->layers;
  const uint64_t examples = batch.size();
  RETURN_IF_ERROR(StatusOf(*device_, examples, steps_done_.most()));
  RETURN_IF_ERROR(
      CheckMemory(examples, weights, context->training, takes_outputs));
  context->device = device_.get();
  context->dtype = device_->activations();
  context->examples = examples;
  context->draws = plan_->draws;
  context->epoch = batch.range.epoch;
  context->first = batch.range.begin;
  context->starts = plan_->starts;
  context->swap = swap_.get();
  exchange_.Begin();
  context->offsets =
      exchange_.BringOffsets(recorded_.OffsetsOf(batch.offsets, *context));
  for (size_t i = 0; i < weights_.size(); ++i) {
    const size_t variable = plan_->shared[i];
    weights_[i].data = exchange_.PlaceWeights(variable, weights[variable]);
  }
  BringInputs(batch, rows);
  context->inputs = inputs_;
  Layer::BackwardPass pass = PlaceForward(context);
  RETURN_IF_ERROR(StatusOf(*device_, examples, steps_done_.most()));
  const auto walk = [&](Sequence::Needed needed) {
    layers.ForwardWith(pass, needed);
  };
  const auto bring = [&](size_t i) {
    const size_t variable = plan_->shared[i];
    exchange_.BringWeights(variable, weights[variable]);
  };
  if (!recorded_.Replay(pass, bring)) walk(bring);
  recorded_.Record(pass, walk, [&](size_t i) {
    return weights_[i].data != weights[plan_->shared[i]].data();
  });
  RETURN_IF_ERROR(swap_status());
  return pass;
}

absl::StatusOr<Metrics> Network::Step(WeightSpans weights, const Batch& batch,
                                      const StepOptions& options,
                                      GradientSpans gradients, Ready ready) {
  StepAmongReplicas others(replicas_.get(), options.sharing,
                           steps_done_.Has(batch.size()), device_.get(),
                           &exchange_);
  SetRows(options.rows);
  CheckWeights(*plan_, weights_, weights);
  CheckStep(*plan_, options, gradients);
  if (batch.size() == 0) {
    if (options.sharing == Sharing::kAlone) return ZerosOf(gradients, ready);
    return SendZeros(gradients, ready,
                     [&](bool* finite) { return others.Meet(finite); });
  }
  RETURN_IF_ERROR(CheckBatch(*plan_, batch));
  Targets targets = TargetsOf(*plan_, batch);
  if (teachers_ != nullptr) {
    RETURN_IF_ERROR(teachers_->AddTo(batch, &targets.front()));
  }
  Layer::Context context = TrainingOf(CountedExamples(batch), options);
  ASSIGN_OR_RETURN(
      Layer::BackwardPass pass,
      Forward(weights, batch, options.rows, /*takes_outputs=*/false, &context));
  if (context.IsAbandoned()) {
    exchange_.Finish();
    return Metrics();
  }
  const bool brings_ahead = BringsAhead(*plan_, options);
  const Tensor gradient = PlaceBackward(gradients, brings_ahead, &pass);
  scaler_.Begin(options.loss_scale, options.remembers_loss_scale,
                gradients.size());
  Metrics metrics;
  bool finite;
  bool is_first = true;
  do {
    metrics =
        exchange_.ComputeLoss(*plan_, pass.output, targets,
                              scaler_.scale() / options.divisor, gradient);
    RETURN_IF_ERROR(StatusOf(*device_, batch.size(), steps_done_.most()));
    finite = std::isfinite(metrics.loss_sum);
    RETURN_IF_ERROR(others.Meet(&finite));
    const Ready told = finite && !scaler_.scales() ? ready : Ready(NoneReady);
    Backward(pass, gradients, told);
    if (is_first && brings_ahead && exchange_.gradients_cross()) {
      BringAhead(options.next());
    }
    is_first = false;
    TakeGradients(context, gradients, told);
    RETURN_IF_ERROR(StatusOf(*device_, batch.size(), steps_done_.most()));
    RETURN_IF_ERROR(swap_status());
  } while (finite && !context.IsAbandoned() && scaler_.MustRepeat());
  if (finite && scaler_.scales() && !context.IsAbandoned()) {
    RETURN_IF_ERROR(StatusOf(*device_, batch.size(), steps_done_.most()));
    for (size_t v = gradients.size(); v-- > 0;) ready(v);
  }
  steps_done_.Add(batch.size());
  RecordBackward(pass);
  return metrics;
}

absl::StatusOr<Metrics> Network::SendZeros(
    GradientSpans gradients, Ready ready,
    absl::FunctionRef<absl::Status(bool* finite)> meet) {
  exchange_.Begin();
  PlaceGradients(gradients);
  exchange_.ReserveZeros(LargestSize(gradients));
  RETURN_IF_ERROR(device_->status());
  bool finite = true;
  RETURN_IF_ERROR(meet(&finite));
  sent_.clear();
  for (size_t i = plan_->shared.size(); i-- > 0;) {  // As a backward pass.
    if (plan_->IsUsedBefore(i)) continue;
    const size_t variable = plan_->shared[i];
    exchange_.SendZeros(variable, gradients[variable].size());
    sent_.push_back(variable);
  }
  exchange_.EndSending();
  TakeGradients(Layer::Context(), gradients, finite ? ready : Ready(NoneReady));
  RETURN_IF_ERROR(device_->status());
  return Metrics();
}

Tensor Network::PlaceBackward(GradientSpans gradients, bool brings_ahead,
                              Layer::BackwardPass* pass) {
  Tensor gradient = pass->output;
  gradient.data = exchange_.Reserve(gradient.size() * SizeOf(gradient.dtype),
                                    &memory_.output_gradient);
  pass->output_gradient = gradient;
  PlaceGradients(gradients);
  pass->gradients = gradients_;
  for (size_t i = 0; brings_ahead && i < inputs_.size(); ++i) {
    exchange_.ReserveAhead(i, pass->context->examples * plan_->InputBytes(i));
  }
  return gradient;
}

void Network::PlaceGradients(GradientSpans gradients) {
  // The last use of a variable, which is first in the backward pass, writes to
  // its gradient; the others write beside it and are added.
  const uint64_t bytes = FurtherBytes();
  std::byte* const further =
      bytes == 0
          ? nullptr
          : exchange_.Reserve(bytes * gradients_.size(), &memory_.further);
  for (size_t i = 0; i < gradients_.size(); ++i) {
    const size_t variable = plan_->shared[i];
    CHECK(gradients[variable].size() == gradients_[i].size(),
          "a gradient has the size of its variable");
    if (bytes > 0 && plan_->IsUsedBehind(i)) {
      gradients_[i].data = further + bytes * i;
    } else {
      gradients_[i].data =
          exchange_.PlaceGradient(variable, gradients[variable]);
    }
  }
}

void Network::Backward(const Layer::BackwardPass& pass, GradientSpans gradients,
                       Ready ready) {
  const bool has_shared = plan_->shared.size() > plan_->variables.size();
  sent_.clear();
  const auto written = [&](size_t i) {
    const size_t variable = plan_->shared[i];
    if (has_shared && plan_->IsUsedBehind(i)) {
      Tensor sum = gradients_[i];
      sum.data = exchange_.PlaceGradient(variable, gradients[variable]);
      device_->Add(sum, 1, gradients_[i], sum);
    }
    if (has_shared && plan_->IsUsedBefore(i)) return;
    // What is subtracted from an untrained one is no gradient of the loss.
    if (scaler_.scales() && !plan_->variables[variable].untrained()) {
      Tensor gradient = gradients_[i];
      gradient.data = exchange_.PlaceGradient(variable, gradients[variable]);
      scaler_.Unscale(gradient);
    }
    if (!exchange_.gradients_cross()) return ready(variable);
    exchange_.SendGradient(variable, gradients[variable].size());
    sent_.push_back(variable);
  };
  if (!recorded_.Replay(pass, written)) {
    plan_->layers->BackwardWith(Layer::Part::kWhole, pass, written);
  }
  exchange_.EndSending();
}

void Network::RecordBackward(const Layer::BackwardPass& pass) {
  recorded_.Record(
      pass,
      [&](Sequence::Written written) {
        plan_->layers->BackwardWith(Layer::Part::kWhole, pass, written);
      },
      [](size_t) { return true; });
}

void Network::TakeGradients(const Layer::Context& context,
                            GradientSpans gradients, Ready ready) {
  // Layers before those that are waited for are computed meanwhile.
  for (const size_t variable : sent_) {
    if (context.IsAbandoned()) break;
    exchange_.TakeGradient(variable, gradients[variable]);
    if (!device_->status().ok()) break;
    ready(variable);
  }
  if (exchange_.gradients_cross() && context.IsAbandoned()) {
    exchange_.Finish();
  }
}

void Network::BringAhead(const Batch* batch) {
  ahead_ = {};
  if (batch == nullptr) return;
  for (size_t i = 0; i < plan_->inputs.size(); ++i) {
    const Column* const input = batch->Find(plan_->inputs[i].feature.name);
    if (input == nullptr || !exchange_.BringAhead(i, input->tensor())) return;
  }
  const std::string& first = plan_->inputs.front().feature.name;
  ahead_ = {batch->Find(first)->tensor().data, batch->range};
}

absl::StatusOr<Metrics> Network::EvaluateRows(WeightSpans weights,
                                              const Batch& batch,
                                              RowNumbers rows) {
  SetRows(rows);
  CheckWeights(*plan_, weights_, weights);
  if (batch.size() == 0) return Metrics();
  RETURN_IF_ERROR(CheckBatch(*plan_, batch));
  Layer::Context context;
  const bool takes_outputs = plan_->NeedsScores();
  ASSIGN_OR_RETURN(const Layer::Pass pass,
                   Forward(weights, batch, rows, takes_outputs, &context));
  if (!takes_outputs) {
    const Metrics metrics = exchange_.ComputeLoss(
        *plan_, pass.output, TargetsOf(*plan_, batch), /*scale=*/1,
        /*gradient=*/{});
    RETURN_IF_ERROR(StatusOf(*device_, batch.size(), steps_done_.most()));
    return metrics;
  }
  ASSIGN_OR_RETURN(const ConstTensor outputs,
                   OutputsOf(pass, steps_done_.most(), &exchange_));
  return CountMetrics(*plan_, outputs, batch);
}

absl::Status Network::PredictRows(WeightSpans weights, const Batch& batch,
                                  RowNumbers rows, Batch* out) {
  SetRows(rows);
  CheckWeights(*plan_, weights_, weights);
  LayOutPrediction(*plan_, batch, out);
  if (batch.size() == 0) return absl::OkStatus();
  RETURN_IF_ERROR(CheckBatch(*plan_, batch, /*labels=*/false));
  Layer::Context context;
  ASSIGN_OR_RETURN(
      const Layer::Pass pass,
      Forward(weights, batch, rows, /*takes_outputs=*/true, &context));
  ASSIGN_OR_RETURN(const ConstTensor outputs,
                   OutputsOf(pass, steps_done_.most(), &exchange_));
  WritePrediction(*plan_, outputs, out);
  return absl::OkStatus();
}

}  // namespace paramd
