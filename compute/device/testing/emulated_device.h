#ifndef PARAMD_COMPUTE_DEVICE_TESTING_EMULATED_DEVICE_H_
#define PARAMD_COMPUTE_DEVICE_TESTING_EMULATED_DEVICE_H_

#include <functional>
#include <memory>

#include "compute/device/accelerated_device.h"
#include "compute/device/testing/emulated_accelerator.h"

namespace paramd {

// An accelerated device without one: another device computes its primitives, on
// the thread of the emulated stream. So all that is between a network and a GPU
// but the kernels runs, and mistakes of order are found.
class EmulatedDevice : public AcceleratedDevice {
 public:
  // Computes as `twin` does, or as the processor.
  explicit EmulatedDevice(const EmulatedAccelerator::Options& accelerator = {},
                          std::unique_ptr<Device> twin = nullptr,
                          const Options& options = {});

  EmulatedAccelerator* accelerator() { return accelerator_.get(); }

  void SetComputeFormat(ComputeFormat format) override;
  DType activations() const override { return twin_->activations(); }

  void Multiply(const Product& product, const ConstTensor& a,
                const ConstTensor& b, const Tensor& c) override;
  void Convolve(const Convolution& shape, const ConstTensor& input,
                const ConstTensor& kernel, const ConstTensor& bias,
                const Tensor& output) override;
  void ConvolveBackwardInput(const Convolution& shape,
                             const ConstTensor& kernel,
                             const ConstTensor& output_gradient,
                             const Tensor& input_gradient) override;
  void ConvolveBackwardKernel(const Convolution& shape,
                              const ConstTensor& input,
                              const ConstTensor& output_gradient,
                              const Tensor& kernel_gradient) override;
  void Pool(const Pooling& shape, const ConstTensor& input,
            const Tensor& output, const Tensor& places) override;
  void PoolBackward(const Pooling& shape, const ConstTensor& places,
                    const ConstTensor& output_gradient,
                    const Tensor& input_gradient) override;
  void PoolAll(Pooling::Kind kind, const ConstTensor& input,
               const Tensor& output) override;
  void PoolAllBackward(Pooling::Kind kind, const ConstTensor& input,
                       const ConstTensor& output,
                       const ConstTensor& output_gradient,
                       const Tensor& input_gradient) override;
  void PoolBag(Bag kind, const ConstTensor& input,
               const Tensor& output) override;
  void PoolBagBackward(Bag kind, const ConstTensor& input,
                       const ConstTensor& output,
                       const ConstTensor& output_gradient,
                       const Tensor& input_gradient) override;
  void BatchNorm(const Norm& norm, const ConstTensor& input, const Tensor& mean,
                 const Tensor& variance, const Tensor& output) override;
  void BatchNormWith(const Norm& norm, const ConstTensor& input,
                     const ConstTensor& mean, const ConstTensor& variance,
                     const Tensor& output) override;
  void BatchNormBackward(const Norm& norm, const ConstTensor& input,
                         const ConstTensor& mean, const ConstTensor& variance,
                         const ConstTensor& output_gradient,
                         const NormGradients& gradients) override;
  void LayerNorm(const Norm& norm, const ConstTensor& input, const Tensor& mean,
                 const Tensor& variance, const Tensor& output) override;
  void LayerNormBackward(const Norm& norm, const ConstTensor& input,
                         const ConstTensor& mean, const ConstTensor& variance,
                         const ConstTensor& output_gradient,
                         const NormGradients& gradients) override;
  void Softmax(bool causal, const ConstTensor& input,
               const Tensor& output) override;
  void SoftmaxBackward(const ConstTensor& output,
                       const ConstTensor& output_gradient,
                       const Tensor& input_gradient) override;
  void Gather(const ConstTensor& table, const ConstTensor& indices,
              const Tensor& rows) override;
  void ScatterAdd(const ConstTensor& indices, const ConstTensor& rows,
                  const Tensor& table) override;
  void SumRows(const ConstTensor& in, const Tensor& out) override;
  void DotPairs(const ConstTensor& input, const Tensor& output) override;
  void DotPairsBackward(const ConstTensor& input,
                        const ConstTensor& output_gradient,
                        const Tensor& input_gradient) override;
  void CopyColumns(const ConstTensor& from, uint64_t from_first,
                   uint64_t columns, const Tensor& to,
                   uint64_t to_first) override;
  void AddRow(const ConstTensor& in, const ConstTensor& row,
              const Tensor& out) override;
  void ScaleRows(const ConstTensor& in, const ConstTensor& factors,
                 const Tensor& out) override;
  void Add(const ConstTensor& a, double factor, const ConstTensor& b,
           const Tensor& out) override;
  void Apply(Elementwise function, const ConstTensor& in,
             const Tensor& out) override;
  void ApplyBackward(Elementwise function, const ConstTensor& in,
                     const ConstTensor& out, const ConstTensor& out_gradient,
                     const Tensor& in_gradient) override;
  void Draw(const Drops& drops, const Tensor& factors) override;
  void Losses(const RowLoss& loss, const ConstTensor& outputs,
              const ConstTensor& target, const ConstTensor& factors,
              const Tensor& gradient, const Tensor& numbers) override;
  void Convert(const ConstTensor& from, const Tensor& to) override;
  void Unscale(double factor, const Tensor& values,
               const Tensor& overflow) override;

 private:
  // The constructor's, before its base is made.
  EmulatedDevice(std::unique_ptr<EmulatedAccelerator> accelerator,
                 std::unique_ptr<Device> twin, const Options& options);

  // The same tensor as a stream sees it.
  Tensor At(const Tensor& tensor) const;
  ConstTensor At(const ConstTensor& tensor) const;
  Norm At(const Norm& norm) const;
  NormGradients At(const NormGradients& gradients) const;
  // Calls `primitive` of the twin with `arguments`, tensors as a stream sees
  // them, in the stream.
  template <class Primitive, class... Arguments>
  void Run(Primitive primitive, Arguments... arguments);

  const std::unique_ptr<Device> twin_;  // Of the stream's thread.
  // Last: it ends with its threads.
  const std::unique_ptr<EmulatedAccelerator> accelerator_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_TESTING_EMULATED_DEVICE_H_
