#ifndef PARAMD_COMPUTE_MODEL_NETWORK_H_
#define PARAMD_COMPUTE_MODEL_NETWORK_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/optional.h"

#include "compute/device/device.h"
#include "compute/model/exchange.h"
#include "compute/model/loss.h"
#include "compute/model/loss_scaler.h"
#include "compute/model/network_batch.h"
#include "compute/model/network_plan.h"
#include "compute/model/recorded_passes.h"
#include "compute/model/trained_model.h"
#include "input/batch.h"
#include "proto/paramd/v1/model.pb.h"

namespace paramd {

class Teachers;

// The built-in model: the layers and the loss of a job file, on a device of its
// own. Memory for activations is kept from step to step and grows with the
// largest batch seen, so that later steps allocate nothing but what a metric
// keeps. A step fails with UNAVAILABLE if the device is lost, and with
// RESOURCE_EXHAUSTED, saying what would fit, if the device lacks the memory for
// the batch.
//
//   ASSIGN_OR_RETURN(auto model, Network::Create(job.model(), input.spec()));
//   for (const v1::Variable& variable : model->variables()) ...
class Network : public TrainedModel, public ReplicatedModel {
 public:
  using MakeDevice = std::function<std::unique_ptr<Device>()>;

  // On the processor, or on the device that `make_device` makes, whose name is
  // `device_name`. `of_replicas` makes the devices of the process's replicas,
  // in their order; empty: all use `make_device`. INVALID_ARGUMENT names the
  // layer, what it gets and what it needs: see PlanNetwork.
  static absl::StatusOr<std::unique_ptr<Network>> Create(
      const v1::ModelConfig& config, const InputSpec& input,
      MakeDevice make_device = nullptr, std::string device_name = "cpu",
      std::vector<MakeDevice> of_replicas = {});

  // `plan` is immutable, and shared by clones.
  Network(std::shared_ptr<const NetworkPlan> plan, MakeDevice make_device,
          std::string device_name, std::vector<MakeDevice> of_replicas = {});
  ~Network() override;

  // From now on its steps, and those of clones, learn of these too. An
  // evaluation is of the labels alone. REQUIRES: softmax cross entropy, and
  // predictions of the teachers look like the outputs.
  void LearnFrom(std::unique_ptr<Teachers> teachers);

  const std::vector<v1::Variable>& variables() const override {
    return plan_->variables;
  }
  std::unique_ptr<TrainedModel> Clone() const override;
  ReplicatedModel* replicated() override { return this; }
  std::unique_ptr<TrainedModel> CloneForReplica(
      uint32_t replica) const override;
  absl::Status JoinReplicas(const ReplicaGroup& group) override;
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
  uint64_t CountedExamples(const Batch& batch) const override {
    return paramd::CountedExamples(*plan_, batch);
  }
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
  ModelCost cost() const override { return plan_->cost(); }
  std::string device() const override { return device_name_; }
  DeviceLink* link() override { return device_->link(); }
  void SetTrace(ChromeTrace* trace) override;
  LossScaling loss_scaling() const override { return scaler_.figures(); }
  std::vector<std::string> metrics() const override { return plan_->metrics(); }

  const std::shared_ptr<const NetworkPlan>& plan() const { return plan_; }

 private:
  // The batch sizes of the steps done so far: for these, memory is allocated
  // and kernels are loaded; another size may need more of both.
  class StepSizes {
   public:
    void Add(uint64_t size) {
      most_ = std::max(most_, size);
      if (!Has(size) && sizes_.size() < kMaxSizes) sizes_.push_back(size);
    }
    uint64_t most() const { return most_; }
    bool Has(uint64_t size) const {
      return std::find(sizes_.begin(), sizes_.end(), size) != sizes_.end();
    }

   private:
    // A filter or a skipped example can make batches of any size.
    static constexpr size_t kMaxSizes = 256;
    uint64_t most_ = 0;
    std::vector<uint64_t> sizes_;
  };

  // From now on passes read these rows of sparse variables.
  void SetRows(RowNumbers rows);
  // The step of a replica whose batch is empty while the others' are not: it
  // contributes zeros. Calls `meet` before it sends anything, as they do.
  absl::StatusOr<Metrics> SendZeros(
      GradientSpans gradients, Ready ready,
      absl::FunctionRef<absl::Status(bool* finite)> meet);
  // A pass whose memory is estimated.
  struct Reckoned {
    bool training = false;
    DType dtype = DType::kFloat32;  // Of activations.
    // The outputs are copied to the host.
    bool takes_outputs = false;
    // As if every layer that contains layers were in a "recompute".
    bool recomputes = false;
  };
  // A clone on the device that `make_device` makes.
  std::unique_ptr<TrainedModel> CloneOn(MakeDevice make_device,
                                        uint32_t replica) const;
  absl::Status swap_status() const {
    return swap_ == nullptr ? absl::OkStatus() : swap_->status();
  }
  // Of the largest gradient, if a variable has several uses.
  uint64_t FurtherBytes() const;
  // How many more bytes the device must have for a pass over `examples`.
  uint64_t MissingBytes(uint64_t examples, WeightSpans weights,
                        const Reckoned& pass) const;
  // RESOURCE_EXHAUSTED if it has fewer, saying what would fit. Of a processor
  // only scores of a batch are counted, which grow with its square.
  absl::Status CheckMemory(uint64_t examples, WeightSpans weights,
                           bool training, bool takes_outputs);
  // Runs the forward pass over the batch. The output stays in the device's
  // memory; `takes_outputs` says that it will be copied from there. Fills the
  // rest of `context`, which outlives the pass.
  absl::StatusOr<Layer::BackwardPass> Forward(WeightSpans weights,
                                              const Batch& batch,
                                              RowNumbers rows,
                                              bool takes_outputs,
                                              Layer::Context* context);
  // Transfers what layers read of the batch, unless BringAhead has done so.
  void BringInputs(const Batch& batch, RowNumbers rows);
  // Memory for what a forward pass over the inputs writes.
  Layer::BackwardPass PlaceForward(Layer::Context* context);
  // Memory for what a step writes after its forward pass, and if it
  // `brings_ahead` for the next one's input. The gradient of its outputs.
  Tensor PlaceBackward(GradientSpans gradients, bool brings_ahead,
                       Layer::BackwardPass* pass);
  // Decides where layers write the gradient of each use of a variable.
  void PlaceGradients(GradientSpans gradients);
  // Starts the transfer of gradients that have to cross to the host.
  void Backward(const Layer::BackwardPass& pass, GradientSpans gradients,
                Ready ready);
  // Waits for each of them, and reports it ready.
  void TakeGradients(const Layer::Context& context, GradientSpans gradients,
                     Ready ready);
  // Records what Backward called. REQUIRES: nothing is being summed with other
  // replicas.
  void RecordBackward(const Layer::BackwardPass& pass);
  // Starts to transfer what will be the batch of the next step.
  void BringAhead(const Batch* batch);

  const std::shared_ptr<const NetworkPlan> plan_;
  const MakeDevice make_device_;
  const std::string device_name_;
  const std::vector<MakeDevice> of_replicas_;
  ChromeTrace* trace_ = nullptr;
  const std::unique_ptr<Device> device_;
  Exchange exchange_;
  LossScaler scaler_;
  RecordedPasses recorded_;
  struct PassMemory {
    GrowingMemory kept;
    GrowingMemory scratch;
    GrowingMemory output;
    GrowingMemory output_gradient;
    // Gradients of further uses of a shared variable.
    GrowingMemory further;
  };
  PassMemory memory_;
  std::unique_ptr<SwapFile> swap_;  // Null: no layer is swapped.
  std::vector<ConstTensor> weights_;
  std::vector<Tensor> gradients_;
  std::vector<size_t> sent_;  // Gradients under way to the host, in order.
  std::vector<std::vector<int32_t>> places_;  // Of each input.
  std::vector<ConstTensor> inputs_;           // Of the pass, on the device.
  // The inputs that BringAhead transferred, by the first; null: none.
  struct Ahead {
    const void* input = nullptr;
    Portion range;
  };
  Ahead ahead_;
  StepSizes steps_done_;
  std::unique_ptr<Teachers> teachers_;  // Null: it learns of labels alone.
  // Null until it has joined other replicas.
  std::shared_ptr<ReplicaMeeting> replicas_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_NETWORK_H_
