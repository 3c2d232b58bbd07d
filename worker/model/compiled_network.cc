#include "worker/model/compiled_network.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <utility>

#include "base/check.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "worker/model/drops.h"

namespace paramd {
namespace {

// Batches have a few sizes: the job's, evaluation's, and the last ones of both.
constexpr size_t kMostPrograms = 16;

}  // namespace

struct CompiledNetwork::Program {
  uint64_t examples = 0;
  bool training = false;
  NetworkProgram written;
  std::unique_ptr<PjrtProgram> compiled;
};

// The programs of a model on a device, those used last. Thread-safe: who needs
// one that is being compiled waits.
class CompiledNetwork::Programs {
 public:
  Programs(std::shared_ptr<PjrtClient> client, size_t device)
      : client_(std::move(client)), device_(device) {}

  absl::StatusOr<std::shared_ptr<const Program>> Get(const NetworkPlan& plan,
                                                     uint64_t examples,
                                                     bool training) {
    const MutexLock lock(&mutex_);
    for (auto it = programs_.begin(); it != programs_.end(); ++it) {
      if ((*it)->examples != examples || (*it)->training != training) continue;
      programs_.splice(programs_.begin(), programs_, it);
      return programs_.front();
    }
    auto program = std::make_shared<Program>();
    program->examples = examples;
    program->training = training;
    ASSIGN_OR_RETURN(program->written, WriteProgram(plan, examples, training));
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
    return std::make_shared<Programs>(client_, device_ + devices);
  }

 private:
  // Shared with the process's other models on its devices.
  const std::shared_ptr<PjrtClient> client_;
  const size_t device_;
  Mutex mutex_;
  // Used last first. Shared: one that is running may have been dropped.
  std::list<std::shared_ptr<const Program>> programs_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<std::unique_ptr<CompiledNetwork>> CompiledNetwork::Create(
    const v1::ModelConfig& config, const InputSpec& input,
    std::shared_ptr<PjrtClient> client, size_t device) {
  ASSIGN_OR_RETURN(std::unique_ptr<Network> network,
                   Network::Create(config, input));
  RETURN_IF_ERROR(WriteProgram(network->plan(), /*examples=*/1,
                               /*training=*/true)
                      .status());
  auto programs = std::make_shared<Programs>(std::move(client), device);
  return std::unique_ptr<CompiledNetwork>(
      new CompiledNetwork(std::move(network), std::move(programs)));
}

CompiledNetwork::CompiledNetwork(std::unique_ptr<Network> network,
                                 std::shared_ptr<Programs> programs)
    : network_(std::move(network)), programs_(std::move(programs)) {}

CompiledNetwork::~CompiledNetwork() = default;

std::unique_ptr<TrainedModel> CompiledNetwork::Clone() const {
  return std::unique_ptr<TrainedModel>(
      new CompiledNetwork(network_->CloneNetwork(), programs_));
}

std::unique_ptr<TrainedModel> CompiledNetwork::CloneForReplica(
    uint32_t replica) const {
  return std::unique_ptr<TrainedModel>(new CompiledNetwork(
      network_->CloneNetwork(), programs_->Behind(replica)));
}

std::string CompiledNetwork::device() const { return programs_->DeviceName(); }

void CompiledNetwork::SetInputs(const Program& program, WeightSpans weights,
                                const Batch& batch) {
  const std::vector<HloType>& types = program.written.parameters;
  CHECK(weights.size() == variables().size(),
        "there is one span of weights per variable");
  inputs_.clear();
  for (size_t v = 0; v < weights.size(); ++v) {
    CHECK(weights[v].size() == SizeOf(types[v].dims),
          "weights have the size of their variable");
    inputs_.push_back({weights[v].data(), types[v]});
  }
  const Column& input = *batch.Find(network_->plan().input.name);
  inputs_.push_back({input.tensor().data, types[weights.size()]});
}

void CompiledNetwork::AddStepInputs(const Program& program, const Batch& batch,
                                    const StepOptions& options) {
  scale_ = static_cast<float>(1 / options.divisor);
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
  add(batch.Find(network_->plan().label.name)->tensor().data);
  add(&scale_);
  add(offsets_.data());
  for (const uint64_t& key : keys_) add(&key);
}

ConstTensor CompiledNetwork::OutputsOf(const Batch& batch) const {
  return {outputs_.data(), DType::kFloat32,
          Batched(batch.size(), network_->plan().layers->output_dims())};
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
  RETURN_IF_ERROR(network_->CheckBatch(batch));
  if (options.abandoned != nullptr && options.abandoned->load()) {
    return Metrics();
  }
  ASSIGN_OR_RETURN(
      const std::shared_ptr<const Program> program,
      programs_->Get(network_->plan(), batch.size(), /*training=*/true));
  SetInputs(*program, weights, batch);
  AddStepInputs(*program, batch, options);
  const std::vector<HloType>& types = program->written.results;
  outputs_.resize(SizeOf(types[0].dims));
  std::vector<PjrtProgram::Output> outputs = {{outputs_.data(), types[0]}};
  for (size_t i = 1; i < types.size(); ++i) {
    const absl::Span<float> gradient = gradients[variables - i];
    CHECK(gradient.size() == SizeOf(types[i].dims),
          "a gradient has the size of its variable");
    outputs.push_back({gradient.data(), types[i]});
  }
  Metrics metrics;
  RETURN_IF_ERROR(
      program->compiled->Run(inputs_, outputs, [&](size_t output) {
        if (output > 0) {
          if (std::isfinite(metrics.loss_sum)) ready(variables - output);
          return;
        }
        metrics = network_->plan().loss->Compute(
            OutputsOf(batch),
            batch.Find(network_->plan().label.name)->tensor(),
            1 / options.divisor, Tensor(), /*scored=*/false);
      }));
  return metrics;
}

absl::StatusOr<ConstTensor> CompiledNetwork::Use(WeightSpans weights,
                                                 const Batch& batch) {
  ASSIGN_OR_RETURN(
      const std::shared_ptr<const Program> program,
      programs_->Get(network_->plan(), batch.size(), /*training=*/false));
  SetInputs(*program, weights, batch);
  const HloType& type = program->written.results[0];
  outputs_.resize(SizeOf(type.dims));
  RETURN_IF_ERROR(program->compiled->Run(
      inputs_, {{outputs_.data(), type}}, [](size_t) {}));
  return OutputsOf(batch);
}

absl::StatusOr<Metrics> CompiledNetwork::Evaluate(WeightSpans weights,
                                                  const Batch& batch) {
  if (batch.size() == 0) return Metrics();
  RETURN_IF_ERROR(network_->CheckBatch(batch));
  ASSIGN_OR_RETURN(const ConstTensor outputs, Use(weights, batch));
  return network_->plan().loss->Compute(
      outputs, batch.Find(network_->plan().label.name)->tensor(), 1, Tensor(),
      /*scored=*/true);
}

absl::Status CompiledNetwork::Predict(WeightSpans weights, const Batch& batch,
                                      Batch* out) {
  RETURN_IF_ERROR(network_->BeginPrediction(batch, out));
  if (batch.size() == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ConstTensor outputs, Use(weights, batch));
  network_->plan().loss->Predict(outputs, out->columns.front().tensor());
  return absl::OkStatus();
}

}  // namespace paramd
