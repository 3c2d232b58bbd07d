#ifndef PARAMD_WORKER_MODEL_NETWORK_H_
#define PARAMD_WORKER_MODEL_NETWORK_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/optional.h"

#include "proto/paramd/v1/model.pb.h"
#include "worker/device/device.h"
#include "worker/input/batch.h"
#include "worker/model/exchange.h"
#include "worker/model/loss.h"
#include "worker/model/loss_scaler.h"
#include "worker/model/network_batch.h"
#include "worker/model/network_plan.h"
#include "worker/model/recorded_passes.h"
#include "worker/model/trained_model.h"

namespace paramd {

// The built-in model: layers and a loss from a job file. Computes on a device
// of its own. Keeps the memory of a step's intermediate values for the next: it
// grows with the largest batch seen, and a step that needs no more allocates
// none of ours but for what a metric keeps. A device that fails, or has not the
// memory that a batch needs, makes a step fail: UNAVAILABLE, it is lost, and
// RESOURCE_EXHAUSTED, which says what would fit.
//
//   ASSIGN_OR_RETURN(auto model, Network::Create(job.model(), input.spec()));
//   for (const v1::Variable& variable : model->variables()) ...
class Network : public TrainedModel {
 public:
  using MakeDevice = std::function<std::unique_ptr<Device>()>;

  // On the processor, or on what `make_device` gives, which is called
  // `device_name`. `of_replicas`: what the replicas of a process are made on,
  // in their order; empty: on the same. INVALID_ARGUMENT, a sentence that names
  // the layer, what it gets and what it needs: see PlanNetwork.
  static absl::StatusOr<std::unique_ptr<Network>> Create(
      const v1::ModelConfig& config, const InputSpec& input,
      MakeDevice make_device = nullptr, std::string device_name = "cpu",
      std::vector<MakeDevice> of_replicas = {});

  // `plan` is shared by clones: it is never changed.
  Network(std::shared_ptr<const NetworkPlan> plan, MakeDevice make_device,
          std::string device_name);

  const std::vector<v1::Variable>& variables() const override {
    return plan_->variables;
  }
  std::unique_ptr<TrainedModel> Clone() const override;
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
  std::vector<std::string> metrics() const override {
    return plan_->loss->metrics();
  }

  const std::shared_ptr<const NetworkPlan>& plan() const { return plan_; }

 private:
  // Of how many examples steps were that have had memory, and whose kernels are
  // loaded: other sizes may have others.
  class StepSizes {
   public:
    void Add(uint64_t size) {
      most_ = std::max(most_, size);
      if (!Has(size) && sizes_.size() < kMost) sizes_.push_back(size);
    }
    uint64_t most() const { return most_; }
    bool Has(uint64_t size) const {
      return std::find(sizes_.begin(), sizes_.end(), size) != sizes_.end();
    }

   private:
    static constexpr size_t kMost = 256;  // Input left out of each batch.
    uint64_t most_ = 0;
    std::vector<uint64_t> sizes_;
  };

  // The passes read these rows of sparse variables.
  void SetRows(RowNumbers rows);
  // The step of a replica among others whose batch has no examples. `meet`: as
  // theirs, before anything is sent.
  absl::StatusOr<Metrics> SendZeros(
      GradientSpans gradients, Ready ready,
      absl::FunctionRef<absl::Status(bool* finite)> meet);
  // A pass whose memory is reckoned.
  struct Reckoned {
    bool training = false;
    DType dtype = DType::kFloat32;  // Of what layers hand on.
    // They cross to the host at its end.
    bool takes_outputs = false;
    // As if layers that keep layers were computed again.
    bool recomputes = false;
  };
  // What the device must still have for a pass over so many examples.
  uint64_t MissingBytes(uint64_t examples, WeightSpans weights,
                        const Reckoned& pass) const;
  // RESOURCE_EXHAUSTED: it has not, and what would fit.
  absl::Status CheckMemory(uint64_t examples, WeightSpans weights,
                           bool training, bool takes_outputs);
  // A pass over the batch, forward; its output is in memory of the device, from
  // where it is taken if `takes_outputs`. Fills the rest of `context`, which
  // outlives the pass.
  absl::StatusOr<Layer::BackwardPass> Forward(WeightSpans weights,
                                              const Batch& batch,
                                              const ConstTensor& input,
                                              bool takes_outputs,
                                              Layer::Context* context);
  // Where layers write the gradient of each use of a variable.
  void PlaceGradients(GradientSpans gradients);
  // Gradients that cross are on their way then.
  void Backward(const Layer::BackwardPass& pass, GradientSpans gradients,
                Ready ready);
  // Waits for them, one by one.
  void TakeGradients(const Layer::Context& context, GradientSpans gradients,
                     Ready ready);
  // This will be the batch of the next step.
  void BringAhead(const Batch* batch);

  const std::shared_ptr<const NetworkPlan> plan_;
  const MakeDevice make_device_;
  const std::string device_name_;
  std::vector<MakeDevice> of_replicas_;
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
    // Of further uses of a shared variable.
    GrowingMemory further;
  };
  PassMemory memory_;
  std::vector<ConstTensor> weights_;
  std::vector<Tensor> gradients_;
  std::vector<size_t> sent_;  // Gradients that cross, in order.
  std::vector<int32_t> places_;
  // What was brought ahead; null: nothing.
  struct Ahead {
    const void* input = nullptr;
    Portion range;
  };
  Ahead ahead_;
  StepSizes steps_done_;
  // Where the replicas meet that it has joined; null: it has not.
  std::shared_ptr<ReplicaMeeting> replicas_;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_MODEL_NETWORK_H_
