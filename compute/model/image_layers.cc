#include "compute/model/image_layers.h"

#include <algorithm>

namespace paramd {
namespace {

Dims OutputOf(const Dims& image, const Sliding& sliding, uint64_t channels) {
  return {sliding.Outputs(image[0]), sliding.Outputs(image[1]), channels};
}

// Zeros before the first value.
uint64_t Before(const Sliding& sliding, uint64_t size) {
  const uint64_t covered =
      (sliding.Outputs(size) - 1) * sliding.stride + sliding.kernel;
  return sliding.same && covered > size ? (covered - size) / 2 : 0;
}

Window WindowOf(const Sliding& sliding, const Dims& image, const Dims& output,
                uint64_t examples) {
  return {.batch = examples,
          .height = image[0],
          .width = image[1],
          .channels = image[2],
          .out_height = output[0],
          .out_width = output[1],
          .kernel_height = sliding.kernel,
          .kernel_width = sliding.kernel,
          .stride_height = sliding.stride,
          .stride_width = sliding.stride,
          .top = Before(sliding, image[0]),
          .left = Before(sliding, image[1])};
}

}  // namespace

uint64_t Sliding::Outputs(uint64_t size) const {
  if (same) return (size + stride - 1) / stride;
  return size < kernel ? 0 : (size - kernel) / stride + 1;
}

Conv2d::Conv2d(std::string name, const Dims& image, const Options& options)
    : Layer(std::move(name), image,
            OutputOf(image, options.sliding, options.filters)),
      options_(options) {
  const uint64_t kernel = options.sliding.kernel;
  const uint64_t inputs = image[2] / options.groups;
  const uint64_t outputs = options.filters / options.groups;
  AddKernel("kernel", {kernel, kernel, inputs, options.filters},
            kernel * kernel * inputs, kernel * kernel * outputs);
  if (options.bias) {
    AddBias("bias", options.filters, kernel * kernel * inputs);
  }
}

Convolution Conv2d::Shape(uint64_t examples) const {
  return {.window =
              WindowOf(options_.sliding, input_dims(), output_dims(), examples),
          .outputs = options_.filters,
          .groups = options_.groups};
}

void Conv2d::Forward(const Pass& pass) const {
  pass.context->device->Convolve(
      Shape(pass.context->examples), pass.input, pass.weights[0],
      options_.bias ? pass.weights[1] : ConstTensor(), pass.output);
}

void Conv2d::Backward(const BackwardPass& pass) const {
  BackwardVariables(pass);
  BackwardInput(pass);
}

void Conv2d::BackwardVariables(const BackwardPass& pass) const {
  Device& device = *pass.context->device;
  device.ConvolveBackwardKernel(Shape(pass.context->examples), pass.input,
                                pass.output_gradient, pass.gradients[0]);
  if (options_.bias) device.SumRows(pass.output_gradient, pass.gradients[1]);
}

void Conv2d::BackwardInput(const BackwardPass& pass) const {
  if (pass.input_gradient.data == nullptr) return;
  pass.context->device->ConvolveBackwardInput(
      Shape(pass.context->examples), pass.weights[0], pass.output_gradient,
      pass.input_gradient);
}

uint64_t Conv2d::flops() const {
  const uint64_t window = options_.sliding.kernel * options_.sliding.kernel *
                          input_dims()[2] / options_.groups;
  return output_size() * (2 * window + (options_.bias ? 1 : 0));
}

Pool::Pool(std::string name, const Dims& image, Pooling::Kind kind,
           const Sliding& sliding)
    : Layer(std::move(name), image, OutputOf(image, sliding, image[2])),
      kind_(kind),
      sliding_(sliding) {}

uint64_t Pool::KeptBytes(uint64_t examples, DType) const {
  return kind_ == Pooling::Kind::kMax ? examples * output_size() : 0;
}

Pooling Pool::Shape(uint64_t examples) const {
  return {.kind = kind_,
          .window = WindowOf(sliding_, input_dims(), output_dims(), examples)};
}

Tensor Pool::Places(const Pass& pass) const {
  if (kind_ == Pooling::Kind::kAverage) return {};
  return {pass.kept, DType::kUInt8, pass.output.dims};
}

void Pool::Forward(const Pass& pass) const {
  pass.context->device->Pool(Shape(pass.context->examples), pass.input,
                             pass.output, Places(pass));
}

void Pool::Backward(const BackwardPass& pass) const {
  if (pass.input_gradient.data == nullptr) return;
  pass.context->device->PoolBackward(Shape(pass.context->examples),
                                     Places(pass), pass.output_gradient,
                                     pass.input_gradient);
}

void GlobalPool::Forward(const Pass& pass) const {
  pass.context->device->PoolAll(kind_, pass.input, pass.output);
}

void GlobalPool::Backward(const BackwardPass& pass) const {
  if (pass.input_gradient.data == nullptr) return;
  pass.context->device->PoolAllBackward(kind_, pass.input, pass.output,
                                        pass.output_gradient,
                                        pass.input_gradient);
}

}  // namespace paramd
