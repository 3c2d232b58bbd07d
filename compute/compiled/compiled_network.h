#ifndef PARAMD_COMPUTE_COMPILED_COMPILED_NETWORK_H_
#define PARAMD_COMPUTE_COMPILED_COMPILED_NETWORK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compute/compiled/network_program.h"
#include "compute/model/network_batch.h"
#include "compute/model/trained_model.h"
#include "compute/pjrt/pjrt_client.h"

namespace paramd {

// The built-in model on a device of a PJRT plugin: a step is one program,
// forward and backward, compiled for each size of batch that comes
// (compute/hlo, compute/pjrt), and for each power of two of rows where a
// variable is sparse. Outputs come back to the host, where losses and metrics
// are counted, and gradients after them, the last layer's first. The device's
// bits are its own; they are those of Network within rounding.
//
// Fails as Network does, a device that is lost with UNAVAILABLE, and INTERNAL
// if a program can't be compiled.
class CompiledNetwork : public TrainedModel, public ReplicatedModel {
 public:
  // INVALID_ARGUMENT as Network::Create, and if the loss or a layer has no form
  // in a program. REQUIRES: the client has that device;
  // the format is fp32 or bf16.
  static absl::StatusOr<std::unique_ptr<CompiledNetwork>> Create(
      const v1::ModelConfig& config, const InputSpec& input,
      std::shared_ptr<PjrtClient> client, size_t device,
      ComputeFormat format = ComputeFormat::kFp32);
  ~CompiledNetwork() override;

  const std::vector<v1::Variable>& variables() const override {
    return plan_->variables;
  }
  std::unique_ptr<TrainedModel> Clone() const override;
  ReplicatedModel* replicated() override { return this; }
  // On the device that is so many behind. REQUIRES: the client has it.
  std::unique_ptr<TrainedModel> CloneForReplica(
      uint32_t replica) const override;
  uint64_t CountedExamples(const Batch& batch) const override {
    return paramd::CountedExamples(*plan_, batch);
  }
  absl::StatusOr<Metrics> Step(WeightSpans weights, const Batch& batch,
                               const StepOptions& options,
                               GradientSpans gradients, Ready ready) override;
  absl::Status FindRows(const Batch& batch,
                        absl::Span<std::vector<uint64_t>> rows) const override {
    return paramd::FindRows(*plan_, batch, rows);
  }
  absl::Status CheckTestData(const InputSpec& test) const override {
    return paramd::CheckTestData(*plan_, test);
  }
  absl::Status CheckExamples(const Batch& batch) const override {
    return CheckBatch(*plan_, batch);
  }
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
  ModelCost cost() const override { return plan_->cost(); }
  std::vector<std::string> metrics() const override { return plan_->metrics(); }
  std::string device() const override;

 private:
  class Programs;
  struct Program;

  CompiledNetwork(std::shared_ptr<const NetworkPlan> plan,
                  std::shared_ptr<Programs> programs);

  // Values of a variable, with zeros after them up to the size of `type`.
  const float* Padded(size_t variable, absl::Span<const float> values,
                      const HloType& type);
  // Sets inputs_ to the weights and the batch's examples.
  void SetInputs(const Program& program, WeightSpans weights,
                 const Batch& batch, RowNumbers rows);
  // Sets results_ to where a step's outputs and gradients arrive.
  void SetResults(const Program& program, GradientSpans gradients);
  // Appends what a step reads besides.
  void AddStepInputs(const Program& program, const Batch& batch,
                     const StepOptions& options);
  // The outputs for a batch, which lie in outputs_.
  absl::StatusOr<ConstTensor> Use(WeightSpans weights, const Batch& batch,
                                  RowNumbers rows);
  ConstTensor OutputsOf(const Batch& batch) const;

  const std::shared_ptr<const NetworkPlan> plan_;
  // Shared by clones, which run the same ones.
  const std::shared_ptr<Programs> programs_;
  std::vector<PjrtProgram::Input> inputs_;
  std::vector<PjrtProgram::Output> results_;
  std::vector<float> outputs_;
  std::vector<std::vector<int32_t>> places_;
  // Of sparse variables, of which programs take more rows than there are: their
  // values, and in training then their gradients.
  std::vector<std::vector<float>> padded_;
  // What a step is told beside its batch.
  float scale_ = 1;
  float share_ = 1;
  std::vector<uint64_t> offsets_;
  std::vector<uint64_t> keys_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_COMPILED_COMPILED_NETWORK_H_
