#ifndef PARAMD_COMPUTE_DEVICE_REFERENCE_DEVICE_H_
#define PARAMD_COMPUTE_DEVICE_REFERENCE_DEVICE_H_

#include "compute/device/device.h"

namespace paramd {

// Each primitive as one plain loop in host memory, in the order in which it is
// read: what it means, and what every other device is compared with. Keeps
// nothing between calls.
class ReferenceDevice : public Device {
 public:
  Memory Allocate(size_t bytes) override;
  void Copy(const void* from, size_t bytes, void* to) override;

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
  void DotPairs(const ConstTensor& input, const Tensor& output) override;
  void DotPairsBackward(const ConstTensor& input,
                        const ConstTensor& output_gradient,
                        const Tensor& input_gradient) override;
  void CopyColumns(const ConstTensor& from, uint64_t from_first,
                   uint64_t columns, const Tensor& to,
                   uint64_t to_first) override;
  void SumRows(const ConstTensor& in, const Tensor& out) override;
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
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_REFERENCE_DEVICE_H_
