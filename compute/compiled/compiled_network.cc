#include "compute/compiled/compiled_network.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <utility>

#include "base/check.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "compute/model/drops.h"

namespace paramd {
namespace {

// Batches have a few sizes: the job's, evaluation's, and the last ones of both;
// and rows a few powers of two.
constexpr size_t kMostPrograms = 16;

// Rows of each sparse variable that a program takes where these are handed in.
uint64_t RowsFor(RowNumbers rows) {
  if (rows.empty()) return 0;
  uint64_t padded = 64;
  for (const absl::Span<const uint64_t> some : rows) {
    while (padded < some.size()) padded *= 2;
  }
  return padded;
}

}  // namespace

struct CompiledNetwork::Program {
  ProgramShape shape;
  NetworkProgram written;
  std::unique_ptr<PjrtProgram> compiled;
};

// The programs of a model on a device, those used last. Thread-safe: who needs
// one that is being compiled waits.
class CompiledNetwork::Programs {
 public:
  Programs(std::shared_ptr<PjrtClient> client, size_t device,
           HloElement operands)
      : client_(std::move(client)), device_(device), operands_(operands) {}

  absl::StatusOr<std::shared_ptr<const Program>> Get(
      const NetworkPlan& plan, const ProgramShape& shape) {
    const MutexLock lock(&mutex_);
    for (auto it = programs_.begin(); it != programs_.end(); ++it) {
      if (!((*it)->shape == shape)) continue;
      programs_.splice(programs_.begin(), programs_, it);
      return programs_.front();
    }
    auto program = std::make_shared<Program>();
    program->shape = shape;
    ASSIGN_OR_RETURN(program->written, WriteProgram(plan, shape, operands_));
    ASSIGN_OR_RETURN(program->compiled,
                     client_->Compile(program->written.text, device_,
                                      program->written.results.size()));
    programs_.push_front(std::move(program));
    if (programs_.size() > kMostPrograms) programs_.pop_back();
    return programs_.front();
  }

  std::string DeviceName() const { return client_->NameOf(device_); }

  // Those of the device that is so many behind.
  std::shared_ptr<Programs> Behind(uint32_t devices) const {
    return std::make_shared<Programs>(client_, device_ + devices, operands_);
  }

 private:
  // Shared with the process's other models on its devices.
  const std::shared_ptr<PjrtClient> client_;
  const size_t device_;
  const HloElement operands_;
  Mutex mutex_;
  // Used last first. Shared: one that is running may have been dropped.
  std::list<std::shared_ptr<const Program>> programs_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<std::unique_ptr<CompiledNetwork>> CompiledNetwork::Create(
    const v1::ModelConfig& config, const InputSpec& input,
    std::shared_ptr<PjrtClient> client, size_t device, ComputeFormat format) {
  CHECK(format == ComputeFormat::kFp32 || format == ComputeFormat::kBf16,
        "programs are written in fp32 and bf16");
  ASSIGN_OR_RETURN(std::shared_ptr<const NetworkPlan> plan,
                   PlanNetwork(config, input));
  if (plan->tasks.front().loss->IsOfBatch()) {
    return absl::InvalidArgumentError(
        "the loss in_batch_softmax is computed on the processor and on GPUs, "
        "and not by a PJRT plugin: choose another device");
  }
  // A layer that has no form in a program is refused now, not in a step.
  RETURN_IF_ERROR(WriteProgram(*plan, {.examples = 1}).status());
  auto programs = std::make_shared<Programs>(
      std::move(client), device,
      format == ComputeFormat::kBf16 ? HloElement::kBF16 : HloElement::kF32);
  return std::unique_ptr<CompiledNetwork>(
      new CompiledNetwork(std::move(plan), std::move(programs)));
}

CompiledNetwork::CompiledNetwork(std::shared_ptr<const NetworkPlan> plan,
                                 std::shared_ptr<Programs> programs)
    : plan_(std::move(plan)), programs_(std::move(programs)) {}

CompiledNetwork::~CompiledNetwork() = default;

std::unique_ptr<TrainedModel> CompiledNetwork::Clone() const {
  return std::unique_ptr<TrainedModel>(new CompiledNetwork(plan_, programs_));
}

std::unique_ptr<TrainedModel> CompiledNetwork::CloneForReplica(
    uint32_t replica) const {
  return std::unique_ptr<TrainedModel>(
      new CompiledNetwork(plan_, programs_->Behind(replica)));
}

std::string CompiledNetwork::device() const { return programs_->DeviceName(); }

const float* CompiledNetwork::Padded(size_t variable,
                                     absl::Span<const float> values,
                                     const HloType& type) {
  const uint64_t size = SizeOf(type.dims);
  if (values.size() == size) return values.data();
  CHECK(plan_->variables[variable].sparse() && values.size() < size,
        "weights have the size of their variable, or of the rows");
  std::vector<float>& padded = padded_[variable];
  padded.resize(size);
  std::copy(values.begin(), values.end(), padded.begin());
  std::fill(padded.begin() + static_cast<int64_t>(values.size()), padded.end(),
            0.0f);
  return padded.data();
}

void CompiledNetwork::SetInputs(const Program& program, WeightSpans weights,
                                const Batch& batch, RowNumbers rows) {
  const std::vector<HloType>& types = program.written.parameters;
  CHECK(weights.size() == variables().size(),
        "there is one span of weights per variable");
  padded_.resize(2 * weights.size());
  inputs_.clear();
  for (size_t v = 0; v < weights.size(); ++v) {
    inputs_.push_back({Padded(v, weights[v], types[v]), types[v]});
  }
  places_.resize(plan_->inputs.size());
  for (size_t i = 0; i < places_.size(); ++i) {
    inputs_.push_back({InputOf(*plan_, i, batch, rows, &places_[i]).data,
                       types[inputs_.size()]});
  }
}

void CompiledNetwork::SetResults(const Program& program,
                                 GradientSpans gradients) {
  const std::vector<HloType>& types = program.written.results;
  const size_t variables = gradients.size();
  outputs_.resize(SizeOf(types[0].dims));
  results_ = {{outputs_.data(), types[0]}};
  for (size_t i = 1; i < types.size(); ++i) {
    const size_t variable = variables - i;
    const uint64_t size = SizeOf(types[i].dims);
    float* data = gradients[variable].data();
    if (gradients[variable].size() != size) {
      CHECK(plan_->variables[variable].sparse() &&
                gradients[variable].size() < size,
            "a gradient has the size of its variable, or of the rows");
      std::vector<float>& padded = padded_[variables + variable];
      padded.resize(size);
      data = padded.data();
    }
    results_.push_back({data, types[i]});
  }
}

void CompiledNetwork::AddStepInputs(const Program& program, const Batch& batch,
                                    const StepOptions& options) {
  scale_ = static_cast<float>(1 / options.divisor);
  share_ = static_cast<float>(static_cast<double>(CountedExamples(batch)) /
                              options.divisor);
  offsets_.assign(batch.offsets.begin(), batch.offsets.end());
  if (offsets_.empty()) {
    for (uint64_t i = 0; i < batch.size(); ++i) {
      offsets_.push_back(batch.range.begin + i);
    }
  }
  keys_.clear();
  for (const std::string& layer : program.written.draws) {
    keys_.push_back(DropKey(layer, options.seed, batch.range.epoch));
  }
  const auto add = [&](const void* data) {
    inputs_.push_back({data, program.written.parameters[inputs_.size()]});
  };
  for (const Loss::Target& target : TargetsOf(*plan_, batch)) {
    add(target.labels.data);
    if (!target.weights.empty()) add(target.weights.data());
  }
  add(&scale_);
  add(&share_);
  add(offsets_.data());
  for (const uint64_t& key : keys_) add(&key);
}

ConstTensor CompiledNetwork::OutputsOf(const Batch& batch) const {
  return {outputs_.data(), DType::kFloat32,
          Batched(batch.size(), plan_->layers->output_dims())};
}

absl::StatusOr<Metrics> CompiledNetwork::Step(WeightSpans weights,
                                              const Batch& batch,
                                              const StepOptions& options,
                                              GradientSpans gradients,
                                              Ready ready) {
  CHECK(options.divisor > 0, "the divisor of a gradient is above 0");
  const size_t variables = gradients.size();
  if (batch.size() == 0) {
    for (size_t v = variables; v-- > 0;) {
      std::fill(gradients[v].begin(), gradients[v].end(), 0.0f);
      ready(v);
    }
    return Metrics();
  }
  RETURN_IF_ERROR(CheckBatch(*plan_, batch));
  if (options.abandoned != nullptr && options.abandoned->load()) {
    return Metrics();
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program,
                   programs_->Get(*plan_, {.examples = batch.size(),
                                           .rows = RowsFor(options.rows),
                                           .training = true}));
  SetInputs(*program, weights, batch, options.rows);
  AddStepInputs(*program, batch, options);
  SetResults(*program, gradients);
  Metrics metrics;
  RETURN_IF_ERROR(program->compiled->Run(inputs_, results_, [&](size_t result) {
    if (result == 0) {
      metrics =
          *CountMetrics(*plan_, OutputsOf(batch), batch, /*scored=*/false);
      return;
    }
    const size_t variable = variables - result;
    const absl::Span<float> gradient = gradients[variable];
    if (results_[result].data != gradient.data()) {
      std::copy_n(padded_[variables + variable].begin(), gradient.size(),
                  gradient.begin());
    }
    if (std::isfinite(metrics.loss_sum)) ready(variable);
  }));
  return metrics;
}

absl::StatusOr<ConstTensor> CompiledNetwork::Use(WeightSpans weights,
                                                 const Batch& batch,
                                                 RowNumbers rows) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program,
                   programs_->Get(*plan_, {.examples = batch.size(),
                                           .rows = RowsFor(rows)}));
  SetInputs(*program, weights, batch, rows);
  const HloType& type = program->written.results[0];
  outputs_.resize(SizeOf(type.dims));
  RETURN_IF_ERROR(program->compiled->Run(inputs_, {{outputs_.data(), type}},
                                         [](size_t) {}));
  return OutputsOf(batch);
}

absl::StatusOr<Metrics> CompiledNetwork::EvaluateRows(WeightSpans weights,
                                                      const Batch& batch,
                                                      RowNumbers rows) {
  if (batch.size() == 0) return Metrics();
  RETURN_IF_ERROR(CheckBatch(*plan_, batch));
  ASSIGN_OR_RETURN(const ConstTensor outputs, Use(weights, batch, rows));
  return CountMetrics(*plan_, outputs, batch);
}

absl::Status CompiledNetwork::PredictRows(WeightSpans weights,
                                          const Batch& batch, RowNumbers rows,
                                          Batch* out) {
  LayOutPrediction(*plan_, batch, out);
  if (batch.size() == 0) return absl::OkStatus();
  RETURN_IF_ERROR(CheckBatch(*plan_, batch, /*labels=*/false));
  ASSIGN_OR_RETURN(const ConstTensor outputs, Use(weights, batch, rows));
  WritePrediction(*plan_, outputs, out);
  return absl::OkStatus();
}

}  // namespace paramd
