#ifndef PARAMD_COMPUTE_PIPELINE_PIPELINE_STAGE_H_
#define PARAMD_COMPUTE_PIPELINE_PIPELINE_STAGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "compute/device/device.h"
#include "compute/model/exchange.h"
#include "compute/model/network_plan.h"
#include "compute/model/trained_model.h"
#include "compute/pipeline/model_stage.h"
#include "compute/pipeline/stage_mail.h"
#include "tensor/buffer.h"

namespace paramd {

// A ModelStage that a device of this process computes.
class PipelineStage : public ModelStage {
 public:
  PipelineStage(std::shared_ptr<const NetworkPlan> plan, size_t begin,
                size_t end, std::unique_ptr<Device> device);

  size_t first_use() const override { return first_use_; }
  size_t uses() const override { return weights_.size(); }
  absl::Status Begin(WeightSpans weights, RowNumbers rows,
                     size_t slots) override;
  absl::Status Forward(size_t slot, const Layer::Context& context,
                       absl::Span<const uint64_t> offsets,
                       absl::Span<const ConstTensor> inputs,
                       Buffer input) override;
  absl::StatusOr<Buffer> TakeOutput(size_t slot) override;
  absl::Status PlaceGradients(
      std::vector<absl::Span<float>> gradients) override;
  absl::Status Backward(size_t slot, Buffer output_gradient,
                        bool adds) override {
    return BeginBackward(Layer::Part::kWhole, slot, std::move(output_gradient),
                         adds);
  }
  absl::Status BackwardInput(size_t slot, Buffer output_gradient,
                             bool adds) override {
    return BeginBackward(Layer::Part::kInput, slot, std::move(output_gradient),
                         adds);
  }
  absl::Status BackwardVariables(size_t slot, bool adds) override {
    return RunBackward(Layer::Part::kVariables, slot, adds);
  }
  absl::StatusOr<Buffer> TakeInputGradient() override;
  absl::Status TakeGradients() override;

  // Of the last stage: the loss of what Forward has computed, and, unless
  // `scale` is 0, its derivative for Backward. See Exchange::ComputeLoss.
  absl::StatusOr<Metrics> ComputeLoss(size_t slot,
                                      absl::Span<const Loss::Target> targets,
                                      double scale);
  // Of the last stage: what Forward has computed, as Exchange::TakeOutput.
  absl::StatusOr<ConstTensor> TakeOutputs(size_t slot);

  // Of the model: its output is what the loss is of.
  bool is_last() const { return end_ == plan_->layers->size(); }
  DType activations() const { return device_->activations(); }
  // Of one example: what the stage gets and gives.
  const Dims& input_dims() const { return layers_->input_dims(); }
  const Dims& output_dims() const { return layers_->output_dims(); }

  // Of the device and for examples of a micro-batch: kept for each of them from
  // the forward to the backward pass, border included.
  uint64_t KeptBytes(uint64_t examples) const;
  // Kept besides from the first half of a backward pass to the second, the
  // gradient of the output included.
  uint64_t DeferredBytes(uint64_t examples) const;

 private:
  // A backward pass that has begun.
  struct Unfinished {
    Layer::BackwardPass pass;
    Buffer output_gradient;  // Of the stage after; keeps it alive.
    GrowingMemory output_gradient_there;
    GrowingMemory deferred;
  };

  struct Slot {
    Layer::Context context;
    Layer::Pass pass;
    Buffer input;   // Of the stage before; keeps it alive.
    Buffer output;  // Where the device's memory is the host's.
    GrowingMemory kept;
    // Of each feature.
    std::vector<ConstTensor> inputs;
    std::vector<GrowingMemory> inputs_there;
    std::vector<GrowingMemory> half_inputs;
    GrowingMemory input_there;
    GrowingMemory output_there;
    GrowingMemory offsets_there;
    std::unique_ptr<Unfinished> backward;
    std::unique_ptr<SwapFile> swap;  // Null: no layer is swapped.
  };

  // Of the device, and of what the slot has swapped.
  absl::Status StatusOf(const Slot& slot) const {
    const absl::Status status = device_->status();
    return status.ok() && slot.swap != nullptr ? slot.swap->status() : status;
  }
  bool is_first() const { return begin_ == 0; }
  bool crosses() const { return device_->link() != nullptr; }
  // Host memory of so many bytes as the device may read it.
  const void* Bring(const void* from, uint64_t bytes, GrowingMemory* memory);
  // What the device has written, in host memory of a border.
  absl::StatusOr<Buffer> Hand(const void* from, uint64_t bytes,
                              BorderMemory* memory);
  // A feature, or the output of the stage before, as the layers read it.
  absl::StatusOr<ConstTensor> BringInput(const ConstTensor& input,
                                         GrowingMemory* there,
                                         GrowingMemory* half);
  // That of the slot, which begins with this.
  Unfinished* UnfinishedOf(size_t slot);
  // Begins a backward pass and runs it, or its first half.
  absl::Status BeginBackward(Layer::Part part, size_t slot,
                             Buffer output_gradient, bool adds);
  absl::Status RunBackward(Layer::Part part, size_t slot, bool adds);
  // Gradients of one use after another, where those of one layer do not
  // overlap; bytes.
  uint64_t LayOutParts(std::byte* memory);

  const std::shared_ptr<const NetworkPlan> plan_;
  const size_t begin_;
  const size_t end_;
  const size_t first_use_;
  const std::unique_ptr<Sequence> layers_;
  const std::unique_ptr<Device> device_;
  Exchange exchange_;
  std::vector<Slot> slots_;
  GrowingMemory scratch_;
  std::vector<ConstTensor> weights_;
  // By use: the sum, and the part of a micro-batch after the first.
  std::vector<Tensor> sums_;
  std::vector<Tensor> parts_;
  std::vector<absl::Span<float>> wanted_;
  GrowingMemory parts_memory_;
  std::vector<std::unique_ptr<Unfinished>> free_;
  GrowingMemory input_gradient_there_;
  Buffer input_gradient_;
  Tensor present_input_gradient_;
  BorderMemory outputs_;
  BorderMemory input_gradients_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_PIPELINE_PIPELINE_STAGE_H_
