#ifndef PARAMD_COMPUTE_DEVICE_CPU_PROGRAMS_H_
#define PARAMD_COMPUTE_DEVICE_CPU_PROGRAMS_H_

#include <cstdint>

#include "compute/device/onednn.h"
#include "compute/device/shapes.h"

namespace paramd {

// What a program of CpuDevice does.
enum class ProgramKind : uint64_t {
  kConvolution,
  kBiasedConvolution,
  kConvolutionBackwardInput,
  kConvolutionBackwardKernel,
  kPooling,
  kPoolingBackward,
  kBatchNorm,
  kBatchNormWith,
  kBatchNormBackward,
  kLayerNorm,
  kLayerNormBackward,
  kSoftmax,
  kSoftmaxBackward,
  kElementwise,
  kElementwiseBackward,
};

// Equal only for the same program.
OneDnn::Key KeyOf(ProgramKind kind, const Convolution& shape);
OneDnn::Key KeyOf(ProgramKind kind, const Pooling& shape);
OneDnn::Key KeyOf(ProgramKind kind, uint64_t rows, uint64_t columns,
                  double epsilon = 0);

// Each fills a program; the comment names what it is handed in, in order.

// Input, kernel, output, and the bias if there is one.
void MakeConvolution(const Convolution& shape, bool biased, OneDnn* onednn,
                     OneDnn::Program* program);
// Gradient by the input, kernel, gradient by the output.
void MakeConvolutionBackwardInput(const Convolution& shape, OneDnn* onednn,
                                  OneDnn::Program* program);
// Input, gradient by the kernel, gradient by the output.
void MakeConvolutionBackwardKernel(const Convolution& shape, OneDnn* onednn,
                                   OneDnn::Program* program);
// Input, output, and of a maximum the places.
void MakePooling(const Pooling& shape, OneDnn* onednn,
                 OneDnn::Program* program);
// Gradient by the input, gradient by the output, and of a maximum the places.
void MakePoolingBackward(const Pooling& shape, OneDnn* onednn,
                         OneDnn::Program* program);
// Input, mean, variance, scale, shift, output. `given`: the statistics are
// read.
void MakeBatchNorm(uint64_t rows, uint64_t columns, double epsilon, bool given,
                   OneDnn* onednn, OneDnn::Program* program);
// Input, mean, variance, scale, shift, gradient by the output; gradients by the
// input, the scale, the shift.
void MakeBatchNormBackward(uint64_t rows, uint64_t columns, double epsilon,
                           OneDnn* onednn, OneDnn::Program* program);
// As those of the batch norm.
void MakeLayerNorm(uint64_t rows, uint64_t columns, double epsilon,
                   OneDnn* onednn, OneDnn::Program* program);
void MakeLayerNormBackward(uint64_t rows, uint64_t columns, double epsilon,
                           OneDnn* onednn, OneDnn::Program* program);
// Input, output.
void MakeSoftmax(uint64_t rows, uint64_t columns, OneDnn* onednn,
                 OneDnn::Program* program);
// Output, gradient by the output, gradient by the input.
void MakeSoftmaxBackward(uint64_t rows, uint64_t columns, OneDnn* onednn,
                         OneDnn::Program* program);
// Input, output. REQUIRES: not relu, here and below.
void MakeElementwise(Elementwise function, uint64_t size, OneDnn* onednn,
                     OneDnn::Program* program);
// Input, gradient by the output, gradient by the input.
void MakeElementwiseBackward(Elementwise function, uint64_t size,
                             OneDnn* onednn, OneDnn::Program* program);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_CPU_PROGRAMS_H_
