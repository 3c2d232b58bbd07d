#include "compute/model/norm_layers.h"

namespace paramd {
namespace {

// Places of a batch norm's variables.
constexpr size_t kScale = 0;
constexpr size_t kShift = 1;
constexpr size_t kMean = 2;
constexpr size_t kVariance = 3;

}  // namespace

BatchNormLayer::BatchNormLayer(std::string name, const Dims& dims,
                               double epsilon, double momentum)
    : Layer(std::move(name), dims, dims),
      epsilon_(epsilon),
      momentum_(momentum) {
  const Dims channels = {dims.back()};
  AddVariable("scale", channels, 1, 1);
  AddVariable("shift", channels, 0, 0);
  AddVariable("mean", channels, 0, 0).set_untrained(true);
  AddVariable("variance", channels, 1, 1).set_untrained(true);
}

BatchNormLayer::Kept BatchNormLayer::Lay(DType dtype, std::byte* memory) const {
  Arena arena(memory);
  Kept kept;
  kept.mean = arena.Take(WideOf(dtype), {output_dims().back()});
  kept.variance = arena.Take(WideOf(dtype), {output_dims().back()});
  kept.bytes = arena.used();
  return kept;
}

uint64_t BatchNormLayer::KeptBytes(uint64_t, DType dtype) const {
  return Lay(dtype, nullptr).bytes;
}

Norm BatchNormLayer::NormOf(const Pass& pass) const {
  return {.epsilon = epsilon_,
          .scale = pass.weights[kScale],
          .shift = pass.weights[kShift]};
}

void BatchNormLayer::Forward(const Pass& pass) const {
  const Context& context = *pass.context;
  if (!context.training) {
    context.device->BatchNormWith(NormOf(pass), pass.input, pass.weights[kMean],
                                  pass.weights[kVariance], pass.output);
    return;
  }
  const Kept kept = Lay(context.dtype, pass.kept);
  context.device->BatchNorm(NormOf(pass), pass.input, kept.mean, kept.variance,
                            pass.output);
}

void BatchNormLayer::Backward(const BackwardPass& pass) const {
  const Context& context = *pass.context;
  const Kept kept = Lay(context.dtype, pass.kept);
  context.device->BatchNormBackward(
      NormOf(pass), pass.input, kept.mean, kept.variance, pass.output_gradient,
      {pass.gradients[kScale], pass.gradients[kShift], pass.input_gradient});
  const double step = (1 - momentum_) * context.share;
  const auto update = [&](const ConstTensor& value, const Tensor& statistic,
                          const Tensor& out) {
    context.device->Add(value, -1, statistic, out);
    context.device->Add(out, step - 1, out, out);
  };
  update(pass.weights[kMean], kept.mean, pass.gradients[kMean]);
  update(pass.weights[kVariance], kept.variance, pass.gradients[kVariance]);
}

LayerNormLayer::LayerNormLayer(std::string name, const Dims& dims,
                               double epsilon)
    : Layer(std::move(name), dims, dims), epsilon_(epsilon) {
  AddVariable("scale", {dims.back()}, 1, 1);
  AddVariable("shift", {dims.back()}, 0, 0);
}

LayerNormLayer::Kept LayerNormLayer::Lay(uint64_t examples, DType dtype,
                                         std::byte* memory) const {
  const uint64_t rows = examples * output_size() / output_dims().back();
  Arena arena(memory);
  Kept kept;
  kept.mean = arena.Take(WideOf(dtype), {rows});
  kept.variance = arena.Take(WideOf(dtype), {rows});
  kept.bytes = arena.used();
  return kept;
}

uint64_t LayerNormLayer::KeptBytes(uint64_t examples, DType dtype) const {
  return Lay(examples, dtype, nullptr).bytes;
}

Norm LayerNormLayer::NormOf(const Pass& pass) const {
  return {.epsilon = epsilon_,
          .scale = pass.weights[kScale],
          .shift = pass.weights[kShift]};
}

void LayerNormLayer::Forward(const Pass& pass) const {
  const Context& context = *pass.context;
  const Kept kept = Lay(context.examples, context.dtype, pass.kept);
  context.device->LayerNorm(NormOf(pass), pass.input, kept.mean, kept.variance,
                            pass.output);
}

void LayerNormLayer::Backward(const BackwardPass& pass) const {
  const Context& context = *pass.context;
  const Kept kept = Lay(context.examples, context.dtype, pass.kept);
  context.device->LayerNormBackward(
      NormOf(pass), pass.input, kept.mean, kept.variance, pass.output_gradient,
      {pass.gradients[kScale], pass.gradients[kShift], pass.input_gradient});
}

}  // namespace paramd
