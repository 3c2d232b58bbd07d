#ifndef PARAMD_COMPUTE_DEVICE_CPU_DEVICE_H_
#define PARAMD_COMPUTE_DEVICE_CPU_DEVICE_H_

#include <memory>
#include <vector>

#include "compute/device/reference_device.h"

namespace paramd {

namespace kernels {
struct OperandRows;
}  // namespace kernels

class OneDnn;

// The processor, one thread: OpenBLAS for products of matrices, oneDNN for
// convolution, pooling, normalisation, softmax and what has an exponential, the
// plain loops of the reference for the rest and for float64. Operands are
// rounded to the compute format in other memory, and multiplied as float32.
class CpuDevice : public ReferenceDevice {
 public:
  CpuDevice();
  ~CpuDevice() override;

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
  void DotPairs(const ConstTensor& input, const Tensor& output) override;
  void DotPairsBackward(const ConstTensor& input,
                        const ConstTensor& output_gradient,
                        const Tensor& input_gradient) override;
  void Softmax(bool causal, const ConstTensor& input,
               const Tensor& output) override;
  void SoftmaxBackward(const ConstTensor& output,
                       const ConstTensor& output_gradient,
                       const Tensor& input_gradient) override;
  void Apply(Elementwise function, const ConstTensor& in,
             const Tensor& out) override;
  void ApplyBackward(Elementwise function, const ConstTensor& in,
                     const ConstTensor& out, const ConstTensor& out_gradient,
                     const Tensor& in_gradient) override;

 private:
  void RunBatchNorm(const Norm& norm, const ConstTensor& input, bool given,
                    const void* mean, const void* variance,
                    const Tensor& output);

  // `values` rounded to the compute format, in `memory` or as they are.
  const float* Rounded(const ConstTensor& values, std::vector<float>* memory);
  // The rows, likewise; packed, `strides` say how.
  const float* RoundedRows(const kernels::OperandRows& rows,
                           const float* values, std::vector<float>* memory,
                           Product::Strides* strides);

  std::unique_ptr<OneDnn> onednn_;
  std::vector<float> square_;  // Of one example's pairs of fields.
  // Operands that were rounded.
  std::vector<float> left_;
  std::vector<float> right_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_CPU_DEVICE_H_
