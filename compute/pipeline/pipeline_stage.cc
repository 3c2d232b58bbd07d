#include "compute/pipeline/pipeline_stage.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"

namespace paramd {

PipelineStage::PipelineStage(std::shared_ptr<const NetworkPlan> plan,
                             size_t begin, size_t end,
                             std::unique_ptr<Device> device)
    : plan_(std::move(plan)),
      begin_(begin),
      end_(end),
      first_use_(plan_->layers->first_variable(begin)),
      layers_(plan_->layers->Range(begin, end)),
      device_(std::move(device)),
      exchange_(device_.get(), layers_->variables().size()) {
  for (const v1::Variable& variable : layers_->variables()) {
    const Dims dims(variable.shape().begin(), variable.shape().end());
    weights_.push_back({nullptr, DType::kFloat32, dims});
    sums_.push_back({nullptr, DType::kFloat32, dims});
  }
  parts_ = sums_;
}

absl::Status PipelineStage::Begin(WeightSpans weights, RowNumbers rows,
                                  size_t slots) {
  RETURN_IF_ERROR(device_->status());
  if (slots_.size() < slots) slots_.resize(slots);
  exchange_.Begin();
  for (size_t i = 0; i < weights_.size(); ++i) {
    const size_t v = plan_->shared[first_use_ + i];
    const v1::Variable& variable = plan_->variables[v];
    if (variable.sparse()) {
      const uint64_t count = rows.empty()
                                 ? variable.shape(0)
                                 : rows[plan_->sparse_before[v]].size();
      weights_[i].dims[0] = count;
      sums_[i].dims[0] = count;
      parts_[i].dims[0] = count;
    }
    CHECK(weights[v].size() == weights_[i].size(),
          "weights have the size of their variable");
    weights_[i].data = exchange_.PlaceWeights(i, weights[v]);
    RETURN_IF_ERROR(device_->status());
    exchange_.BringWeights(i, weights[v]);
  }
  return device_->status();
}

const void* PipelineStage::Bring(const void* from, uint64_t bytes,
                                 GrowingMemory* memory) {
  if (!crosses() || bytes == 0) return from;
  std::byte* const there = exchange_.Reserve(bytes, memory);
  if (device_->status().ok()) device_->Copy(from, bytes, there);
  return there;
}

absl::StatusOr<Buffer> PipelineStage::Hand(const void* from, uint64_t bytes,
                                           BorderMemory* memory) {
  std::byte* data = nullptr;
  Buffer handed = memory->Take(bytes, &data);
  device_->Copy(from, bytes, data);
  RETURN_IF_ERROR(device_->status());
  return handed;
}

absl::StatusOr<ConstTensor> PipelineStage::BringInput(const ConstTensor& input,
                                                      GrowingMemory* there,
                                                      GrowingMemory* half) {
  ConstTensor brought = input;
  brought.data = Bring(input.data, input.size() * SizeOf(input.dtype), there);
  const DType wanted = device_->activations();
  if (input.dtype != DType::kFloat32 || !IsHalf(wanted)) {
    RETURN_IF_ERROR(device_->status());
    return brought;
  }
  const Tensor converted = {
      exchange_.Reserve(input.size() * SizeOf(wanted), half), wanted,
      input.dims};
  RETURN_IF_ERROR(device_->status());
  device_->Convert(brought, converted);
  return converted;
}

absl::Status PipelineStage::Forward(size_t number,
                                    const Layer::Context& context,
                                    absl::Span<const uint64_t> offsets,
                                    absl::Span<const ConstTensor> inputs,
                                    Buffer input) {
  Slot* const slot = &slots_[number];
  slot->context = context;
  slot->context.device = device_.get();
  slot->context.dtype = device_->activations();
  if (!plan_->swap_directory.empty() && slot->swap == nullptr) {
    slot->swap = std::make_unique<SwapFile>(plan_->swap_directory);
  }
  slot->context.swap = slot->swap.get();
  slot->context.offsets = {
      static_cast<const uint64_t*>(Bring(offsets.data(),
                                         offsets.size() * sizeof(uint64_t),
                                         &slot->offsets_there)),
      offsets.size()};
  const uint64_t examples = context.examples;
  const DType dtype = slot->context.dtype;
  slot->inputs.resize(inputs.size());
  slot->inputs_there.resize(inputs.size());
  slot->half_inputs.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASSIGN_OR_RETURN(
        slot->inputs[i],
        BringInput(inputs[i], &slot->inputs_there[i], &slot->half_inputs[i]));
  }
  slot->context.inputs = slot->inputs;
  Layer::Pass& pass = slot->pass;
  pass.context = &slot->context;
  pass.weights = weights_;
  if (is_first()) {
    pass.input = slot->inputs.front();
  } else {
    slot->input = std::move(input);
    pass.input = {Bring(slot->input.bytes().data(), slot->input.size(),
                        &slot->input_there),
                  dtype, Batched(examples, layers_->input_dims())};
  }
  pass.output = {nullptr, dtype, Batched(examples, layers_->output_dims())};
  const uint64_t bytes = pass.output.size() * SizeOf(dtype);
  if (crosses()) {
    pass.output.data = exchange_.Reserve(bytes, &slot->output_there);
  } else {
    std::byte* data = nullptr;
    slot->output = outputs_.Take(bytes, &data);
    pass.output.data = data;
  }
  pass.kept =
      exchange_.Reserve(layers_->KeptBytes(examples, dtype), &slot->kept);
  pass.scratch =
      exchange_.Reserve(layers_->ScratchBytes(examples, dtype), &scratch_);
  RETURN_IF_ERROR(device_->status());
  layers_->Forward(pass);
  return StatusOf(*slot);
}

absl::StatusOr<Buffer> PipelineStage::TakeOutput(size_t slot) {
  const Layer::Pass& pass = slots_[slot].pass;
  if (!crosses()) return slots_[slot].output;
  return Hand(pass.output.data, pass.output.size() * SizeOf(pass.output.dtype),
              &outputs_);
}

absl::StatusOr<Metrics> PipelineStage::ComputeLoss(
    size_t slot, absl::Span<const Loss::Target> targets, double scale) {
  const Tensor& output = slots_[slot].pass.output;
  Tensor gradient;
  if (scale != 0) {
    gradient = output;
    gradient.data =
        exchange_.Reserve(output.size() * SizeOf(output.dtype),
                          &UnfinishedOf(slot)->output_gradient_there);
    RETURN_IF_ERROR(device_->status());
  }
  const Metrics metrics = exchange_.ComputeLoss(
      *plan_, output, targets, scale == 0 ? 1 : scale, gradient);
  RETURN_IF_ERROR(device_->status());
  return metrics;
}

absl::StatusOr<ConstTensor> PipelineStage::TakeOutputs(size_t slot) {
  const ConstTensor outputs = exchange_.TakeOutput(slots_[slot].pass.output);
  RETURN_IF_ERROR(device_->status());
  return outputs;
}

uint64_t PipelineStage::LayOutParts(std::byte* memory) {
  uint64_t largest = 0;
  for (size_t i = 0; i < layers_->size(); ++i) {
    Arena arena(memory);
    const size_t first = layers_->first_variable(i);
    for (size_t v = 0; v < layers_->layer(i).variables().size(); ++v) {
      parts_[first + v] = arena.Take(DType::kFloat32, parts_[first + v].dims);
    }
    largest = std::max(largest, arena.used());
  }
  return largest;
}

absl::Status PipelineStage::PlaceGradients(
    std::vector<absl::Span<float>> gradients) {
  wanted_ = std::move(gradients);
  for (size_t i = 0; i < sums_.size(); ++i) {
    CHECK(wanted_[i].size() == sums_[i].size(),
          "a gradient has the size of its variable");
    sums_[i].data = exchange_.PlaceGradient(i, wanted_[i]);
  }
  std::byte* const memory =
      exchange_.Reserve(LayOutParts(nullptr), &parts_memory_);
  LayOutParts(memory);
  return device_->status();
}

PipelineStage::Unfinished* PipelineStage::UnfinishedOf(size_t slot) {
  std::unique_ptr<Unfinished>& backward = slots_[slot].backward;
  if (backward != nullptr) return backward.get();
  if (free_.empty()) {
    backward = std::make_unique<Unfinished>();
  } else {
    backward = std::move(free_.back());
    free_.pop_back();
  }
  return backward.get();
}

absl::Status PipelineStage::BeginBackward(Layer::Part part, size_t slot,
                                          Buffer output_gradient, bool adds) {
  const Slot& forward = slots_[slot];
  const uint64_t examples = forward.context.examples;
  const DType dtype = forward.context.dtype;
  Unfinished* const backward = UnfinishedOf(slot);
  backward->output_gradient = std::move(output_gradient);
  Layer::BackwardPass& pass = backward->pass;
  static_cast<Layer::Pass&>(pass) = forward.pass;
  pass.output_gradient = pass.output;
  const absl::Span<const std::byte> handed = backward->output_gradient.bytes();
  pass.output_gradient.data = is_last()
                                  ? backward->output_gradient_there.get()
                                  : Bring(handed.data(), handed.size(),
                                          &backward->output_gradient_there);
  pass.input_gradient = {};
  if (!is_first()) {
    pass.input_gradient = {nullptr, dtype,
                           Batched(examples, layers_->input_dims())};
    const uint64_t bytes = pass.input_gradient.size() * SizeOf(dtype);
    if (crosses()) {
      pass.input_gradient.data =
          exchange_.Reserve(bytes, &input_gradient_there_);
    } else {
      std::byte* data = nullptr;
      input_gradient_ = input_gradients_.Take(bytes, &data);
      pass.input_gradient.data = data;
    }
  }
  if (part != Layer::Part::kWhole) {
    pass.deferred =
        exchange_.Reserve(layers_->DeferredBytes(examples, dtype, !is_first()),
                          &backward->deferred);
  }
  RETURN_IF_ERROR(device_->status());
  present_input_gradient_ = pass.input_gradient;
  return RunBackward(part, slot, adds);
}

absl::Status PipelineStage::RunBackward(Layer::Part part, size_t number,
                                        bool adds) {
  Slot* const slot = &slots_[number];
  Layer::BackwardPass& pass = slot->backward->pass;
  // Memory for scratch may have moved since the pass began.
  pass.scratch = scratch_.get();
  pass.gradients = adds ? parts_ : sums_;
  layers_->BackwardWith(part, pass, [&](size_t i) {
    if (adds) device_->Add(sums_[i], 1, parts_[i], sums_[i]);
  });
  // What others wrote is read: they may write there again.
  if (crosses()) device_->Finish();
  if (part != Layer::Part::kInput) {
    slot->input = Buffer();
    slot->output = Buffer();
    slot->backward->output_gradient = Buffer();
    free_.push_back(std::move(slot->backward));
  }
  return StatusOf(*slot);
}

absl::StatusOr<Buffer> PipelineStage::TakeInputGradient() {
  if (!crosses()) return std::move(input_gradient_);
  const Tensor& gradient = present_input_gradient_;
  return Hand(gradient.data, gradient.size() * SizeOf(gradient.dtype),
              &input_gradients_);
}

absl::Status PipelineStage::TakeGradients() {
  if (!exchange_.gradients_cross()) return device_->status();
  for (size_t i = sums_.size(); i-- > 0;) {
    exchange_.SendGradient(i, sums_[i].size());
  }
  exchange_.EndSending();
  for (size_t i = sums_.size(); i-- > 0;) {
    exchange_.TakeGradient(i, wanted_[i]);
    RETURN_IF_ERROR(device_->status());
  }
  return absl::OkStatus();
}

uint64_t PipelineStage::KeptBytes(uint64_t examples) const {
  const DType dtype = device_->activations();
  return layers_->KeptBytes(examples, dtype) +
         examples * (layers_->input_size() + layers_->output_size()) *
             SizeOf(dtype);
}

uint64_t PipelineStage::DeferredBytes(uint64_t examples) const {
  if (uses() == 0) return 0;
  const DType dtype = device_->activations();
  return layers_->DeferredBytes(examples, dtype, !is_first()) +
         examples * layers_->output_size() * SizeOf(dtype);
}

}  // namespace paramd
