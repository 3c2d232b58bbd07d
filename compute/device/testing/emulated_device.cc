#include "compute/device/testing/emulated_device.h"

#include <utility>

#include "compute/device/cpu_device.h"

namespace paramd {

EmulatedDevice::EmulatedDevice(const EmulatedAccelerator::Options& accelerator,
                               std::unique_ptr<Device> twin,
                               const Options& options)
    : EmulatedDevice(std::make_unique<EmulatedAccelerator>(accelerator),
                     std::move(twin), options) {}

EmulatedDevice::EmulatedDevice(std::unique_ptr<EmulatedAccelerator> accelerator,
                               std::unique_ptr<Device> twin,
                               const Options& options)
    : AcceleratedDevice(accelerator.get(), options),
      twin_(twin != nullptr ? std::move(twin) : std::make_unique<CpuDevice>()),
      accelerator_(std::move(accelerator)) {}

Tensor EmulatedDevice::At(const Tensor& tensor) const {
  Tensor inside = tensor;
  if (tensor.data != nullptr) {
    inside.data =
        accelerator_->Inside(tensor.data, tensor.size() * SizeOf(tensor.dtype));
  }
  return inside;
}

ConstTensor EmulatedDevice::At(const ConstTensor& tensor) const {
  ConstTensor inside = tensor;
  if (tensor.data != nullptr) {
    inside.data =
        accelerator_->Inside(tensor.data, tensor.size() * SizeOf(tensor.dtype));
  }
  return inside;
}

Norm EmulatedDevice::At(const Norm& norm) const {
  return {.epsilon = norm.epsilon,
          .scale = At(norm.scale),
          .shift = At(norm.shift)};
}

NormGradients EmulatedDevice::At(const NormGradients& gradients) const {
  return {At(gradients.scale), At(gradients.shift), At(gradients.input)};
}

template <class Primitive, class... Arguments>
void EmulatedDevice::Run(Primitive primitive, Arguments... arguments) {
  if (!status().ok()) return;
  accelerator_->Launch(
      compute(), [=, twin = twin_.get()] { (twin->*primitive)(arguments...); });
}

void EmulatedDevice::SetComputeFormat(ComputeFormat format) {
  AcceleratedDevice::SetComputeFormat(format);
  twin_->SetComputeFormat(format);
}

void EmulatedDevice::Multiply(const Product& product, const ConstTensor& a,
                              const ConstTensor& b, const Tensor& c) {
  Run(&Device::Multiply, product, At(a), At(b), At(c));
}

void EmulatedDevice::Convolve(const Convolution& shape,
                              const ConstTensor& input,
                              const ConstTensor& kernel,
                              const ConstTensor& bias, const Tensor& output) {
  Run(&Device::Convolve, shape, At(input), At(kernel), At(bias), At(output));
}

void EmulatedDevice::ConvolveBackwardInput(const Convolution& shape,
                                           const ConstTensor& kernel,
                                           const ConstTensor& output_gradient,
                                           const Tensor& input_gradient) {
  Run(&Device::ConvolveBackwardInput, shape, At(kernel), At(output_gradient),
      At(input_gradient));
}

void EmulatedDevice::ConvolveBackwardKernel(const Convolution& shape,
                                            const ConstTensor& input,
                                            const ConstTensor& output_gradient,
                                            const Tensor& kernel_gradient) {
  Run(&Device::ConvolveBackwardKernel, shape, At(input), At(output_gradient),
      At(kernel_gradient));
}

void EmulatedDevice::Pool(const Pooling& shape, const ConstTensor& input,
                          const Tensor& output, const Tensor& places) {
  Run(&Device::Pool, shape, At(input), At(output), At(places));
}

void EmulatedDevice::PoolBackward(const Pooling& shape,
                                  const ConstTensor& places,
                                  const ConstTensor& output_gradient,
                                  const Tensor& input_gradient) {
  Run(&Device::PoolBackward, shape, At(places), At(output_gradient),
      At(input_gradient));
}

void EmulatedDevice::PoolAll(Pooling::Kind kind, const ConstTensor& input,
                             const Tensor& output) {
  Run(&Device::PoolAll, kind, At(input), At(output));
}

void EmulatedDevice::PoolAllBackward(Pooling::Kind kind,
                                     const ConstTensor& input,
                                     const ConstTensor& output,
                                     const ConstTensor& output_gradient,
                                     const Tensor& input_gradient) {
  Run(&Device::PoolAllBackward, kind, At(input), At(output),
      At(output_gradient), At(input_gradient));
}

void EmulatedDevice::PoolBag(Bag kind, const ConstTensor& input,
                             const Tensor& output) {
  Run(&Device::PoolBag, kind, At(input), At(output));
}

void EmulatedDevice::PoolBagBackward(Bag kind, const ConstTensor& input,
                                     const ConstTensor& output,
                                     const ConstTensor& output_gradient,
                                     const Tensor& input_gradient) {
  Run(&Device::PoolBagBackward, kind, At(input), At(output),
      At(output_gradient), At(input_gradient));
}

void EmulatedDevice::BatchNorm(const Norm& norm, const ConstTensor& input,
                               const Tensor& mean, const Tensor& variance,
                               const Tensor& output) {
  Run(&Device::BatchNorm, At(norm), At(input), At(mean), At(variance),
      At(output));
}

void EmulatedDevice::BatchNormWith(const Norm& norm, const ConstTensor& input,
                                   const ConstTensor& mean,
                                   const ConstTensor& variance,
                                   const Tensor& output) {
  Run(&Device::BatchNormWith, At(norm), At(input), At(mean), At(variance),
      At(output));
}

void EmulatedDevice::BatchNormBackward(const Norm& norm,
                                       const ConstTensor& input,
                                       const ConstTensor& mean,
                                       const ConstTensor& variance,
                                       const ConstTensor& output_gradient,
                                       const NormGradients& gradients) {
  Run(&Device::BatchNormBackward, At(norm), At(input), At(mean), At(variance),
      At(output_gradient), At(gradients));
}

void EmulatedDevice::LayerNorm(const Norm& norm, const ConstTensor& input,
                               const Tensor& mean, const Tensor& variance,
                               const Tensor& output) {
  Run(&Device::LayerNorm, At(norm), At(input), At(mean), At(variance),
      At(output));
}

void EmulatedDevice::LayerNormBackward(const Norm& norm,
                                       const ConstTensor& input,
                                       const ConstTensor& mean,
                                       const ConstTensor& variance,
                                       const ConstTensor& output_gradient,
                                       const NormGradients& gradients) {
  Run(&Device::LayerNormBackward, At(norm), At(input), At(mean), At(variance),
      At(output_gradient), At(gradients));
}

void EmulatedDevice::Softmax(bool causal, const ConstTensor& input,
                             const Tensor& output) {
  Run(&Device::Softmax, causal, At(input), At(output));
}

void EmulatedDevice::SoftmaxBackward(const ConstTensor& output,
                                     const ConstTensor& output_gradient,
                                     const Tensor& input_gradient) {
  Run(&Device::SoftmaxBackward, At(output), At(output_gradient),
      At(input_gradient));
}

void EmulatedDevice::Gather(const ConstTensor& table,
                            const ConstTensor& indices, const Tensor& rows) {
  Run(&Device::Gather, At(table), At(indices), At(rows));
}

void EmulatedDevice::ScatterAdd(const ConstTensor& indices,
                                const ConstTensor& rows, const Tensor& table) {
  Run(&Device::ScatterAdd, At(indices), At(rows), At(table));
}

void EmulatedDevice::SumRows(const ConstTensor& in, const Tensor& out) {
  Run(&Device::SumRows, At(in), At(out));
}

void EmulatedDevice::DotPairs(const ConstTensor& input, const Tensor& output) {
  Run(&Device::DotPairs, At(input), At(output));
}

void EmulatedDevice::DotPairsBackward(const ConstTensor& input,
                                      const ConstTensor& output_gradient,
                                      const Tensor& input_gradient) {
  Run(&Device::DotPairsBackward, At(input), At(output_gradient),
      At(input_gradient));
}

void EmulatedDevice::CopyColumns(const ConstTensor& from, uint64_t from_first,
                                 uint64_t columns, const Tensor& to,
                                 uint64_t to_first) {
  Run(&Device::CopyColumns, At(from), from_first, columns, At(to), to_first);
}

void EmulatedDevice::AddRow(const ConstTensor& in, const ConstTensor& row,
                            const Tensor& out) {
  Run(&Device::AddRow, At(in), At(row), At(out));
}

void EmulatedDevice::ScaleRows(const ConstTensor& in,
                               const ConstTensor& factors, const Tensor& out) {
  Run(&Device::ScaleRows, At(in), At(factors), At(out));
}

void EmulatedDevice::Add(const ConstTensor& a, double factor,
                         const ConstTensor& b, const Tensor& out) {
  Run(&Device::Add, At(a), factor, At(b), At(out));
}

void EmulatedDevice::Apply(Elementwise function, const ConstTensor& in,
                           const Tensor& out) {
  Run(&Device::Apply, function, At(in), At(out));
}

void EmulatedDevice::ApplyBackward(Elementwise function, const ConstTensor& in,
                                   const ConstTensor& out,
                                   const ConstTensor& out_gradient,
                                   const Tensor& in_gradient) {
  Run(&Device::ApplyBackward, function, At(in), At(out), At(out_gradient),
      At(in_gradient));
}

void EmulatedDevice::Draw(const Drops& drops, const Tensor& factors) {
  Drops inside = drops;
  if (drops.offsets != nullptr) {
    const uint64_t examples = factors.size() / drops.width;
    inside.offsets = static_cast<const uint64_t*>(
        accelerator_->Inside(drops.offsets, examples * sizeof(uint64_t)));
  }
  Run(&Device::Draw, inside, At(factors));
}

void EmulatedDevice::Losses(const RowLoss& loss, const ConstTensor& outputs,
                            const ConstTensor& target,
                            const ConstTensor& factors, const Tensor& gradient,
                            const Tensor& numbers) {
  Run(&Device::Losses, loss, At(outputs), At(target), At(factors), At(gradient),
      At(numbers));
}

void EmulatedDevice::Convert(const ConstTensor& from, const Tensor& to) {
  Run(&Device::Convert, At(from), At(to));
}

void EmulatedDevice::Unscale(double factor, const Tensor& values,
                             const Tensor& overflow) {
  Run(&Device::Unscale, factor, At(values), At(overflow));
}

}  // namespace paramd
