#include "compute/device/cpu_device.h"

#include <algorithm>
#include <limits>

#include "compute/device/cpu_programs.h"
#include "compute/device/elementwise.h"
#include "compute/device/half_kernels.h"
#include "compute/device/matrix.h"
#include "compute/device/onednn.h"
#include "compute/device/rounding.h"

namespace paramd {
namespace {

using Kind = ProgramKind;

bool IsFloat32(const Tensor& tensor) { return tensor.dtype == DType::kFloat32; }

}  // namespace

CpuDevice::CpuDevice() : onednn_(std::make_unique<OneDnn>()) {}

CpuDevice::~CpuDevice() = default;

void CpuDevice::Multiply(const Product& product, const ConstTensor& a,
                         const ConstTensor& b, const Tensor& c) {
  if (!IsFloat32(c)) return ReferenceDevice::Multiply(product, a, b, c);
  using kernels::OperandRows;
  Product p = product;
  const float* const left = RoundedRows(OperandRows::Left(product),
                                        a.values<float>().data(), &left_, &p.a);
  const float* const right = RoundedRows(
      OperandRows::Right(product), b.values<float>().data(), &right_, &p.b);
  MultiplyGrid(p, left, right, c.values<float>().data());
}

const float* CpuDevice::Rounded(const ConstTensor& values,
                                std::vector<float>* memory) {
  const auto from = values.values<float>();
  if (compute_format() == ComputeFormat::kFp32) return from.data();
  memory->resize(from.size());
  Round(compute_format(), from.data(), from.size(), memory->data());
  return memory->data();
}

const float* CpuDevice::RoundedRows(const kernels::OperandRows& rows,
                                    const float* values,
                                    std::vector<float>* memory,
                                    Product::Strides* strides) {
  if (compute_format() == ComputeFormat::kFp32) return values;
  memory->resize(rows.size());
  for (uint64_t row = 0; row < rows.count; ++row) {
    Round(compute_format(), values + rows.begin(row), rows.columns,
          memory->data() + row * rows.columns);
  }
  *strides = rows.packed();
  return memory->data();
}

// The products of all fields with all, of which half is not asked for: faster
// than as many short sums.
void CpuDevice::DotPairs(const ConstTensor& input, const Tensor& output) {
  if (!IsFloat32(output)) return ReferenceDevice::DotPairs(input, output);
  const uint64_t fields = input.dims[1];
  const uint64_t width = input.dims[2];
  square_.resize(fields * fields);
  const auto from = input.values<float>();
  float* to = output.values<float>().data();
  for (size_t example = 0; example < from.size(); example += fields * width) {
    const ConstMatrix x(from.data() + example, fields, width);
    MultiplyTransposedRight(x, x, {square_.data(), fields, fields});
    for (uint64_t i = 1; i < fields; ++i) {
      to = std::copy_n(square_.begin() + i * fields, i, to);
    }
  }
}

void CpuDevice::DotPairsBackward(const ConstTensor& input,
                                 const ConstTensor& output_gradient,
                                 const Tensor& input_gradient) {
  if (!IsFloat32(input_gradient)) {
    return ReferenceDevice::DotPairsBackward(input, output_gradient,
                                             input_gradient);
  }
  const uint64_t fields = input.dims[1];
  const uint64_t width = input.dims[2];
  square_.assign(fields * fields, 0);
  const auto from = input.values<float>();
  const float* gradient = output_gradient.values<float>().data();
  float* const to = input_gradient.values<float>().data();
  for (size_t example = 0; example < from.size(); example += fields * width) {
    for (uint64_t i = 1; i < fields; ++i) {
      for (uint64_t j = 0; j < i; ++j, ++gradient) {
        square_[i * fields + j] = *gradient;
        square_[j * fields + i] = *gradient;
      }
    }
    paramd::Multiply({square_.data(), fields, fields},
                     {from.data() + example, fields, width},
                     {to + example, fields, width});
  }
}

void CpuDevice::Convolve(const Convolution& shape, const ConstTensor& input,
                         const ConstTensor& kernel, const ConstTensor& bias,
                         const Tensor& output) {
  if (!IsFloat32(output)) {
    return ReferenceDevice::Convolve(shape, input, kernel, bias, output);
  }
  const float* const images = Rounded(input, &left_);
  const float* const filters = Rounded(kernel, &right_);
  const bool biased = bias.data != nullptr;
  const auto make = [&](OneDnn::Program* program) {
    MakeConvolution(shape, biased, onednn_.get(), program);
  };
  const auto key =
      KeyOf(biased ? Kind::kBiasedConvolution : Kind::kConvolution, shape);
  if (biased) {
    onednn_->Run(key, make, {images, filters, output.data, bias.data});
  } else {
    onednn_->Run(key, make, {images, filters, output.data});
  }
}

void CpuDevice::ConvolveBackwardInput(const Convolution& shape,
                                      const ConstTensor& kernel,
                                      const ConstTensor& output_gradient,
                                      const Tensor& input_gradient) {
  if (!IsFloat32(input_gradient)) {
    return ReferenceDevice::ConvolveBackwardInput(
        shape, kernel, output_gradient, input_gradient);
  }
  onednn_->Run(KeyOf(Kind::kConvolutionBackwardInput, shape),
               [&](OneDnn::Program* program) {
                 MakeConvolutionBackwardInput(shape, onednn_.get(), program);
               },
               {input_gradient.data, Rounded(kernel, &left_),
                Rounded(output_gradient, &right_)});
}

void CpuDevice::ConvolveBackwardKernel(const Convolution& shape,
                                       const ConstTensor& input,
                                       const ConstTensor& output_gradient,
                                       const Tensor& kernel_gradient) {
  if (!IsFloat32(kernel_gradient)) {
    return ReferenceDevice::ConvolveBackwardKernel(
        shape, input, output_gradient, kernel_gradient);
  }
  onednn_->Run(KeyOf(Kind::kConvolutionBackwardKernel, shape),
               [&](OneDnn::Program* program) {
                 MakeConvolutionBackwardKernel(shape, onednn_.get(), program);
               },
               {Rounded(input, &left_), kernel_gradient.data,
                Rounded(output_gradient, &right_)});
}

void CpuDevice::Pool(const Pooling& shape, const ConstTensor& input,
                     const Tensor& output, const Tensor& places) {
  if (!IsFloat32(output)) {
    return ReferenceDevice::Pool(shape, input, output, places);
  }
  const auto make = [&](OneDnn::Program* program) {
    MakePooling(shape, onednn_.get(), program);
  };
  if (shape.kind == Pooling::Kind::kMax) {
    onednn_->Run(KeyOf(Kind::kPooling, shape), make,
                 {input.data, output.data, places.data});
  } else {
    onednn_->Run(KeyOf(Kind::kPooling, shape), make, {input.data, output.data});
  }
}

void CpuDevice::PoolBackward(const Pooling& shape, const ConstTensor& places,
                             const ConstTensor& output_gradient,
                             const Tensor& input_gradient) {
  if (!IsFloat32(input_gradient)) {
    return ReferenceDevice::PoolBackward(shape, places, output_gradient,
                                         input_gradient);
  }
  const auto make = [&](OneDnn::Program* program) {
    MakePoolingBackward(shape, onednn_.get(), program);
  };
  if (shape.kind == Pooling::Kind::kMax) {
    onednn_->Run(KeyOf(Kind::kPoolingBackward, shape), make,
                 {input_gradient.data, output_gradient.data, places.data});
  } else {
    onednn_->Run(KeyOf(Kind::kPoolingBackward, shape), make,
                 {input_gradient.data, output_gradient.data});
  }
}

void CpuDevice::RunBatchNorm(const Norm& norm, const ConstTensor& input,
                             bool given, const void* mean, const void* variance,
                             const Tensor& output) {
  const uint64_t columns = norm.scale.size();
  const uint64_t rows = input.size() / columns;
  onednn_->Run(KeyOf(given ? Kind::kBatchNormWith : Kind::kBatchNorm, rows,
                     columns, norm.epsilon),
               [&](OneDnn::Program* program) {
                 MakeBatchNorm(rows, columns, norm.epsilon, given,
                               onednn_.get(), program);
               },
               {input.data, mean, variance, norm.scale.data, norm.shift.data,
                output.data});
}

void CpuDevice::BatchNorm(const Norm& norm, const ConstTensor& input,
                          const Tensor& mean, const Tensor& variance,
                          const Tensor& output) {
  if (!IsFloat32(output)) {
    return ReferenceDevice::BatchNorm(norm, input, mean, variance, output);
  }
  RunBatchNorm(norm, input, /*given=*/false, mean.data, variance.data, output);
}

void CpuDevice::BatchNormWith(const Norm& norm, const ConstTensor& input,
                              const ConstTensor& mean,
                              const ConstTensor& variance,
                              const Tensor& output) {
  if (!IsFloat32(output)) {
    return ReferenceDevice::BatchNormWith(norm, input, mean, variance, output);
  }
  RunBatchNorm(norm, input, /*given=*/true, mean.data, variance.data, output);
}

void CpuDevice::BatchNormBackward(const Norm& norm, const ConstTensor& input,
                                  const ConstTensor& mean,
                                  const ConstTensor& variance,
                                  const ConstTensor& output_gradient,
                                  const NormGradients& gradients) {
  if (!IsFloat32(gradients.scale) || gradients.input.data == nullptr) {
    return ReferenceDevice::BatchNormBackward(norm, input, mean, variance,
                                              output_gradient, gradients);
  }
  const uint64_t columns = norm.scale.size();
  const uint64_t rows = input.size() / columns;
  onednn_->Run(KeyOf(Kind::kBatchNormBackward, rows, columns, norm.epsilon),
               [&](OneDnn::Program* program) {
                 MakeBatchNormBackward(rows, columns, norm.epsilon,
                                       onednn_.get(), program);
               },
               {input.data, mean.data, variance.data, norm.scale.data,
                norm.shift.data, output_gradient.data, gradients.input.data,
                gradients.scale.data, gradients.shift.data});
}

void CpuDevice::LayerNorm(const Norm& norm, const ConstTensor& input,
                          const Tensor& mean, const Tensor& variance,
                          const Tensor& output) {
  if (!IsFloat32(output)) {
    return ReferenceDevice::LayerNorm(norm, input, mean, variance, output);
  }
  const uint64_t columns = norm.scale.size();
  const uint64_t rows = input.size() / columns;
  onednn_->Run(
      KeyOf(Kind::kLayerNorm, rows, columns, norm.epsilon),
      [&](OneDnn::Program* program) {
        MakeLayerNorm(rows, columns, norm.epsilon, onednn_.get(), program);
      },
      {input.data, mean.data, variance.data, norm.scale.data, norm.shift.data,
       output.data});
}

void CpuDevice::LayerNormBackward(const Norm& norm, const ConstTensor& input,
                                  const ConstTensor& mean,
                                  const ConstTensor& variance,
                                  const ConstTensor& output_gradient,
                                  const NormGradients& gradients) {
  if (!IsFloat32(gradients.scale) || gradients.input.data == nullptr) {
    return ReferenceDevice::LayerNormBackward(norm, input, mean, variance,
                                              output_gradient, gradients);
  }
  const uint64_t columns = norm.scale.size();
  const uint64_t rows = input.size() / columns;
  onednn_->Run(KeyOf(Kind::kLayerNormBackward, rows, columns, norm.epsilon),
               [&](OneDnn::Program* program) {
                 MakeLayerNormBackward(rows, columns, norm.epsilon,
                                       onednn_.get(), program);
               },
               {input.data, mean.data, variance.data, norm.scale.data,
                norm.shift.data, output_gradient.data, gradients.input.data,
                gradients.scale.data, gradients.shift.data});
}

void CpuDevice::Softmax(bool causal, const ConstTensor& input,
                        const Tensor& output) {
  if (!IsFloat32(output)) {
    return ReferenceDevice::Softmax(causal, input, output);
  }
  const uint64_t columns = input.dims.back();
  const uint64_t rows = input.size() / columns;
  const void* from = input.data;
  if (causal) {
    const float* x = input.values<float>().data();
    float* y = output.values<float>().data();
    for (uint64_t r = 0; r < rows; ++r, x += columns, y += columns) {
      const uint64_t kept = r % columns + 1;
      if (x != y) std::copy_n(x, kept, y);
      std::fill(y + kept, y + columns, -std::numeric_limits<float>::infinity());
    }
    from = output.data;
  }
  onednn_->Run(KeyOf(Kind::kSoftmax, rows, columns),
               [&](OneDnn::Program* program) {
                 MakeSoftmax(rows, columns, onednn_.get(), program);
               },
               {from, output.data});
}

void CpuDevice::SoftmaxBackward(const ConstTensor& output,
                                const ConstTensor& output_gradient,
                                const Tensor& input_gradient) {
  if (!IsFloat32(input_gradient)) {
    return ReferenceDevice::SoftmaxBackward(output, output_gradient,
                                            input_gradient);
  }
  const uint64_t columns = output.dims.back();
  const uint64_t rows = output.size() / columns;
  onednn_->Run(KeyOf(Kind::kSoftmaxBackward, rows, columns),
               [&](OneDnn::Program* program) {
                 MakeSoftmaxBackward(rows, columns, onednn_.get(), program);
               },
               {output.data, output_gradient.data, input_gradient.data});
}

void CpuDevice::Apply(Elementwise function, const ConstTensor& in,
                      const Tensor& out) {
  if (!IsFloat32(out)) return ReferenceDevice::Apply(function, in, out);
  // oneDNN's relu loses a NaN.
  if (function == Elementwise::kRelu) {
    return Relu(in.values<float>(), out.values<float>());
  }
  onednn_->Run(
      KeyOf(Kind::kElementwise, static_cast<uint64_t>(function), in.size()),
      [&](OneDnn::Program* program) {
        MakeElementwise(function, in.size(), onednn_.get(), program);
      },
      {in.data, out.data});
}

void CpuDevice::ApplyBackward(Elementwise function, const ConstTensor& in,
                              const ConstTensor& out,
                              const ConstTensor& out_gradient,
                              const Tensor& in_gradient) {
  if (!IsFloat32(in_gradient)) {
    return ReferenceDevice::ApplyBackward(function, in, out, out_gradient,
                                          in_gradient);
  }
  if (function == Elementwise::kRelu) {
    return ReluBackward(out.values<float>(), out_gradient.values<float>(),
                        in_gradient.values<float>());
  }
  onednn_->Run(KeyOf(Kind::kElementwiseBackward,
                     static_cast<uint64_t>(function), in.size()),
               [&](OneDnn::Program* program) {
                 MakeElementwiseBackward(function, in.size(), onednn_.get(),
                                         program);
               },
               {in.data, out_gradient.data, in_gradient.data});
}

}  // namespace paramd
