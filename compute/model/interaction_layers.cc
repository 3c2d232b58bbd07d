#include "compute/model/interaction_layers.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace paramd {

DotInteraction::DotInteraction(std::string name, const Dims& input)
    : Layer(std::move(name), input, {input[0] * (input[0] - 1) / 2}) {}

void DotInteraction::Forward(const Pass& pass) const {
  pass.context->device->DotPairs(pass.input, pass.output);
}

void DotInteraction::Backward(const BackwardPass& pass) const {
  if (pass.input_gradient.data == nullptr) return;
  pass.context->device->DotPairsBackward(pass.input, pass.output_gradient,
                                         pass.input_gradient);
}

void GlobalSumPool::Forward(const Pass& pass) const {
  Device& device = *pass.context->device;
  device.PoolAll(Pooling::Kind::kAverage, pass.input, pass.output);
  device.Add(pass.output, static_cast<double>(places_ - 1), pass.output,
             pass.output);
}

void GlobalSumPool::Backward(const BackwardPass& pass) const {
  if (pass.input_gradient.data == nullptr) return;
  Device& device = *pass.context->device;
  device.PoolAllBackward(Pooling::Kind::kAverage, pass.input, pass.output,
                         pass.output_gradient, pass.input_gradient);
  device.Add(pass.input_gradient, static_cast<double>(places_ - 1),
             pass.input_gradient, pass.input_gradient);
}

Cross::Cross(std::string name, const Dims& dims, uint64_t layers)
    : Layer(std::move(name), dims, dims), layers_(layers) {
  for (uint64_t i = 0; i < layers_; ++i) {
    AddKernel(absl::StrCat("kernel_", i), {dims[0], dims[0]}, dims[0], dims[0]);
    AddBias(absl::StrCat("bias_", i), dims[0], dims[0]);
  }
}

// Factors of all layers, then the inputs of all but the first.
uint64_t Cross::KeptBytes(uint64_t examples, DType dtype) const {
  return (2 * layers_ - 1) * examples * input_size() * SizeOf(dtype);
}

uint64_t Cross::ScratchBytes(uint64_t examples, DType dtype) const {
  return 4 * examples * input_size() * SizeOf(dtype);
}

Tensor Cross::Kept(uint64_t place, const Pass& pass) const {
  const DType dtype = pass.context->dtype;
  return {pass.kept + place * pass.output.size() * SizeOf(dtype), dtype,
          pass.output.dims};
}

Tensor Cross::FactorOf(uint64_t i, const Pass& pass) const {
  return Kept(i, pass);
}

ConstTensor Cross::InputOf(uint64_t i, const Pass& pass) const {
  return i == 0 ? pass.input : Kept(layers_ + i - 1, pass);
}

void Cross::Forward(const Pass& pass) const {
  Device& device = *pass.context->device;
  const uint64_t width = input_size();
  const Product product = {.m = pass.context->examples, .n = width, .k = width};
  for (uint64_t i = 0; i < layers_; ++i) {
    const ConstTensor input = InputOf(i, pass);
    const Tensor factor = FactorOf(i, pass);
    device.Multiply(product, input, pass.weights[2 * i], factor);
    device.AddRow(factor, pass.weights[2 * i + 1], factor);
    const Tensor next =
        i + 1 == layers_ ? pass.output : Kept(layers_ + i, pass);
    MultiplyElements(&device, pass.input, factor, next);
    device.Add(next, 1, input, next);
  }
}

// With g the gradient by x[i + 1]: x[0] gets g * factor, W and b what a dense
// layer's get from g * x[0], and x[i] gets g and what that layer's input gets.
void Cross::Backward(const BackwardPass& pass) const {
  const Context& context = *pass.context;
  Device& device = *context.device;
  const uint64_t width = input_size();
  const uint64_t bytes = pass.output.size() * SizeOf(context.dtype);
  const auto scratch = [&](uint64_t place) {
    return Tensor{pass.scratch + place * bytes, context.dtype,
                  pass.output.dims};
  };
  const Tensor by_first = scratch(0);  // The gradient by x[0], but for g.
  const Tensor by_factor = scratch(1);
  const Tensor by_next = scratch(2);
  const Tensor through = scratch(3);
  device.Copy(pass.output_gradient.data, bytes, by_next.data);
  for (uint64_t i = layers_; i-- > 0;) {
    // What x[0] gets is added up in by_first, by way of by_factor.
    const Tensor& part = i + 1 == layers_ ? by_first : by_factor;
    MultiplyElements(&device, by_next, FactorOf(i, pass), part);
    if (i + 1 < layers_) device.Add(by_first, 1, part, by_first);
    MultiplyElements(&device, by_next, pass.input, by_factor);
    device.Multiply(
        {.m = width, .n = width, .k = context.examples, .transpose_a = true},
        InputOf(i, pass), by_factor, pass.gradients[2 * i]);
    device.SumRows(by_factor, pass.gradients[2 * i + 1]);
    device.Multiply(
        {.m = context.examples, .n = width, .k = width, .transpose_b = true},
        by_factor, pass.weights[2 * i], through);
    device.Add(by_next, 1, through, by_next);
  }
  if (pass.input_gradient.data == nullptr) return;
  device.Add(by_next, 1, by_first, pass.input_gradient);
}

}  // namespace paramd
