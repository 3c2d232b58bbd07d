#include "compute/model/transformed_layer.h"

#include <utility>

#include "base/check.h"

namespace paramd {

TransformedLayer::TransformedLayer(
    std::shared_ptr<const Layer> layer,
    std::shared_ptr<const LayerTransform> transform)
    : Layer(layer->name(), layer->input_dims(), layer->output_dims()),
      layer_(std::move(layer)),
      transform_(std::move(transform)) {
  CHECK(!layer_->variables().empty(),
        "a layer that is transformed has a kernel");
  variables_ = layer_->variables();
  for (const LayerTransform::Variable& one : transform_->variables()) {
    AddVariable(one.part, one.dims, 0, 0).set_untrained(true);
  }
}

TransformedLayer::Laid TransformedLayer::Lay(uint64_t examples, DType dtype,
                                             std::byte* memory) const {
  const auto& shape = layer_->variables().front().shape();
  Arena arena(memory);
  Laid laid;
  laid.kernel = arena.Take(WideOf(dtype), {shape.begin(), shape.end()});
  laid.input = arena.Take(dtype, Batched(examples, input_dims()));
  laid.channels = arena.Take(DType::kFloat32, {laid.kernel.dims.back()});
  laid.bytes = arena.used();
  laid.rest = memory == nullptr ? nullptr : memory + laid.bytes;
  return laid;
}

uint64_t TransformedLayer::ScratchBytes(uint64_t examples, DType dtype) const {
  return Lay(examples, dtype, nullptr).bytes +
         layer_->ScratchBytes(examples, dtype);
}

TransformedLayer::Handed TransformedLayer::HandedOf(const Pass& pass,
                                                    const Laid& laid) const {
  const LayerTransform::Use use = UseOf(pass, laid);
  const auto own = pass.weights.first(layer_->variables().size());
  Handed handed;
  handed.weights.assign(own.begin(), own.end());
  handed.weights[0] = transform_->Kernel(use, own[0], laid.kernel);
  handed.input = transform_->Input(use, pass.input, laid.input);
  handed.scratch = laid.rest;
  return handed;
}

void TransformedLayer::Forward(const Pass& pass) const {
  const Laid laid = LaidOf(pass);
  const Handed handed = HandedOf(pass, laid);
  Pass inner = pass;
  inner.weights = handed.weights;
  inner.input = handed.input;
  inner.scratch = handed.scratch;
  layer_->Forward(inner);
}

void TransformedLayer::Backward(const BackwardPass& pass) const {
  const Laid laid = LaidOf(pass);
  const Handed handed = HandedOf(pass, laid);
  const size_t count = layer_->variables().size();
  BackwardPass inner = pass;
  inner.weights = handed.weights;
  inner.input = handed.input;
  inner.scratch = handed.scratch;
  inner.gradients = pass.gradients.first(count);
  layer_->Backward(inner);
  const LayerTransform::Use use = UseOf(pass, laid);
  transform_->KernelGradient(use, pass.weights[0], pass.gradients[0]);
  if (pass.input_gradient.data != nullptr) {
    transform_->InputGradient(use, pass.input, pass.input_gradient);
  }
  transform_->Update(use, pass.input, pass.gradients.subspan(count));
}

}  // namespace paramd
