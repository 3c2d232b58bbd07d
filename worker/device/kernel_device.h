#ifndef PARAMD_WORKER_DEVICE_KERNEL_DEVICE_H_
#define PARAMD_WORKER_DEVICE_KERNEL_DEVICE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/check.h"
#include "worker/device/device.h"
#include "worker/device/half_kernels.h"
#include "worker/device/kernels.h"
#include "worker/device/loss_kernels.h"
#include "worker/device/window_kernels.h"

namespace paramd {

// A grid of matrix products as cublasGemmStridedBatchedEx has it: column-major,
// c = alpha op(a) op(b) + beta c, c is m x n, leading dimensions and strides in
// elements.
struct ColumnMajorProduct {
  DType operands = DType::kFloat32;  // Of both.
  DType result = DType::kFloat32;
  bool rounds_to_tf32 = false;
  bool transpose_a = false;
  bool transpose_b = false;
  uint64_t m = 0;
  uint64_t n = 0;
  uint64_t k = 0;
  float alpha = 1;
  const void* a = nullptr;
  uint64_t a_leading = 0;
  uint64_t a_stride = 0;
  const void* b = nullptr;
  uint64_t b_leading = 0;
  uint64_t b_stride = 0;
  float beta = 0;
  void* c = nullptr;
  uint64_t c_leading = 0;
  uint64_t c_stride = 0;
  uint64_t count = 1;
};

// Values of tensors, as kernels take them.
template <class T>
const T* ValuesOf(const ConstTensor& tensor) {
  CHECK(tensor.data == nullptr || tensor.dtype == DTypeOf<T>::value,
        "a kernel is given values of its type");
  return static_cast<const T*>(tensor.data);
}
template <class T>
T* ValuesOf(const Tensor& tensor) {
  CHECK(tensor.data == nullptr || tensor.dtype == DTypeOf<T>::value,
        "a kernel is given values of its type");
  return static_cast<T*>(tensor.data);
}
inline const float* FloatsOf(const ConstTensor& tensor) {
  return ValuesOf<float>(tensor);
}
inline float* FloatsOf(const Tensor& tensor) { return ValuesOf<float>(tensor); }
inline const int32_t* IndicesOf(const ConstTensor& tensor) {
  return static_cast<const int32_t*>(tensor.data);
}

// Calls f(T()) for what kernels have as the dtype.
template <class Function>
void WithElement(DType dtype, Function f) {
  switch (dtype) {
    case DType::kBFloat16:
      return f(kernels::Bf16());
    case DType::kFloat16:
      return f(kernels::Fp16());
    default:
      CHECK(dtype == DType::kFloat32, "kernels compute with float32 at most");
      return f(float());
  }
}

// What begins so many values behind.
template <class SomeTensor>
SomeTensor Behind(SomeTensor tensor, uint64_t values) {
  using Byte = std::conditional_t<
      std::is_const_v<std::remove_pointer_t<decltype(tensor.data)>>,
      const std::byte, std::byte>;
  tensor.data =
      static_cast<Byte*>(tensor.data) + values * SizeOf(tensor.dtype);
  return tensor;
}

// A product for each group.
inline Product ProductOf(const Convolution& shape, uint64_t m, uint64_t k,
                         uint64_t n) {
  Product p;
  p.m = m;
  p.k = k;
  p.n = n;
  p.inner = shape.groups;
  return p;
}

template <class T>
kernels::Normalised<T> NormalisedOf(const Norm& norm, const ConstTensor& input,
                                    const ConstTensor& mean,
                                    const ConstTensor& variance,
                                    bool by_rows) {
  return {ValuesOf<T>(input),
          FloatsOf(mean),
          FloatsOf(variance),
          static_cast<float>(norm.epsilon),
          by_rows,
          norm.scale.size()};
}

// What a device with memory of its own gives as Scratch: see KernelDevice.
class ScratchMemory {
 public:
  // Of the device, which outlives it. Grows where it has fewer bytes.
  void* Get(Device* device, int number, uint64_t bytes) {
    Piece& piece = pieces_[number];
    if (piece.bytes < bytes) {
      piece = {};
      piece.memory = device->Allocate(bytes);
      if (piece.memory != nullptr) piece.bytes = bytes;
    }
    return piece.memory.get();
  }

 private:
  struct Piece {
    Device::Memory memory;
    uint64_t bytes = 0;
  };
  Piece pieces_[2];
};

// The primitives, over kernels, in float32. Where they run is the base's, a
// Device: CUDA's, or that of a test, where the same code runs on the host. The
// base has
//   Run(count, function)       function(i) for each i below count
//   RunRows(rows, function)    function(row, lanes): see kernels.h
//   MultiplyColumnMajor(...)   a ColumnMajorProduct
//   SortPairs(count, keys, values, sorted_keys, sorted_values)
//                              by keys, of equal ones as they were; may use
//                              scratch memory 1
//   unfolded_bytes()           what unfolded windows may take at a time
//   Scratch(number, bytes)     memory 0 or 1, until it is asked for again; null
//                              if status() says why
// each in order, and doing nothing once status() is not OK.
template <class Base>
class KernelDevice : public Base {
 public:
  using Base::Base;

  DType activations() const override {
    switch (this->compute_format()) {
      case ComputeFormat::kBf16:
        return DType::kBFloat16;
      case ComputeFormat::kFp16:
        return DType::kFloat16;
      default:
        return DType::kFloat32;
    }
  }

  void Multiply(const Product& p, const ConstTensor& a, const ConstTensor& b,
                const Tensor& c) override {
    MultiplyGrid(p, a, b, /*add=*/false, c);
  }

  void Convolve(const Convolution& shape, const ConstTensor& input,
                const ConstTensor& kernel, const ConstTensor& bias,
                const Tensor& output) override {
    ForEachPiece(shape, activations(), [&](const Piece& piece) {
      UnfoldInput(shape, piece, input);
      Product p = ProductOf(shape, piece.rows, piece.width, piece.outputs);
      p.a = piece.OfUnfolded();
      p.b = p.c = {.row = shape.outputs, .outer = 0, .inner = piece.outputs};
      MultiplyGrid(p, piece.unfolded, kernel, false,
                   Behind(output, piece.first_row * shape.outputs));
    });
    if (bias.data != nullptr) AddRow(output, bias, output);
  }

  void ConvolveBackwardInput(const Convolution& shape,
                             const ConstTensor& kernel,
                             const ConstTensor& output_gradient,
                             const Tensor& input_gradient) override {
    ForEachPiece(shape, DType::kFloat32, [&](const Piece& piece) {
      Product p = ProductOf(shape, piece.rows, piece.outputs, piece.width);
      p.transpose_b = true;
      p.a = p.b = {.row = shape.outputs, .outer = 0, .inner = piece.outputs};
      p.c = piece.OfUnfolded();
      MultiplyGrid(p, Behind(output_gradient, piece.first_row * shape.outputs),
                   kernel, false, piece.unfolded);
      const Window& w = shape.window;
      WithElement(input_gradient.dtype, [&](auto zero) {
        using T = decltype(zero);
        this->Run(piece.images * w.height * w.width * w.channels,
                  kernels::Fold<T>{w, shape.groups, piece.first, piece.rows,
                                   FloatsOf(piece.unfolded),
                                   ValuesOf<T>(input_gradient)});
      });
    });
  }

  void ConvolveBackwardKernel(const Convolution& shape,
                              const ConstTensor& input,
                              const ConstTensor& output_gradient,
                              const Tensor& kernel_gradient) override {
    if (shape.window.batch == 0) Zero(kernel_gradient);
    ForEachPiece(shape, activations(), [&](const Piece& piece) {
      UnfoldInput(shape, piece, input);
      Product p = ProductOf(shape, piece.width, piece.rows, piece.outputs);
      p.transpose_a = true;
      p.a = piece.OfUnfolded();
      p.b = p.c = {.row = shape.outputs, .outer = 0, .inner = piece.outputs};
      MultiplyGrid(p, piece.unfolded,
                   Behind(output_gradient, piece.first_row * shape.outputs),
                   /*add=*/piece.first > 0, kernel_gradient);
    });
  }

  void Pool(const Pooling& shape, const ConstTensor& input,
            const Tensor& output, const Tensor& places) override {
    const bool is_max = shape.kind == Pooling::Kind::kMax;
    WithElement(output.dtype, [&](auto zero) {
      using T = decltype(zero);
      this->Run(output.size(),
                kernels::Pool<T>{shape.window, is_max, ValuesOf<T>(input),
                                 ValuesOf<T>(output),
                                 static_cast<uint8_t*>(places.data)});
    });
  }

  void PoolBackward(const Pooling& shape, const ConstTensor& places,
                    const ConstTensor& output_gradient,
                    const Tensor& input_gradient) override {
    const bool is_max = shape.kind == Pooling::Kind::kMax;
    WithElement(input_gradient.dtype, [&](auto zero) {
      using T = decltype(zero);
      this->Run(input_gradient.size(),
                kernels::PoolBackward<T>{
                    shape.window, is_max,
                    static_cast<const uint8_t*>(places.data),
                    ValuesOf<T>(output_gradient), ValuesOf<T>(input_gradient)});
    });
  }

  void PoolAll(Pooling::Kind kind, const ConstTensor& input,
               const Tensor& output) override {
    if (output.size() == 0) return;
    WithElement(output.dtype, [&](auto zero) {
      using T = decltype(zero);
      this->Run(output.size(),
                kernels::PoolAll<T>{kind == Pooling::Kind::kMax,
                                    input.size() / output.size(),
                                    output.dims.back(), ValuesOf<T>(input),
                                    ValuesOf<T>(output)});
    });
  }

  void PoolAllBackward(Pooling::Kind kind, const ConstTensor& input,
                       const ConstTensor& output,
                       const ConstTensor& output_gradient,
                       const Tensor& input_gradient) override {
    if (output.size() == 0) return;
    WithElement(output.dtype, [&](auto zero) {
      using T = decltype(zero);
      this->Run(output.size(),
                kernels::PoolAllBackward<T>{
                    kind == Pooling::Kind::kMax, input.size() / output.size(),
                    output.dims.back(), ValuesOf<T>(input),
                    ValuesOf<T>(output), ValuesOf<T>(output_gradient),
                    ValuesOf<T>(input_gradient)});
    });
  }

  void PoolBag(Bag kind, const ConstTensor& input,
               const Tensor& output) override {
    WithElement(output.dtype, [&](auto zero) {
      using T = decltype(zero);
      this->Run(output.size(),
                kernels::PoolBag<T>{kind, input.dims[1], input.dims[2],
                                    ValuesOf<T>(input), ValuesOf<T>(output)});
    });
  }

  void PoolBagBackward(Bag kind, const ConstTensor& input,
                       const ConstTensor& output,
                       const ConstTensor& output_gradient,
                       const Tensor& input_gradient) override {
    WithElement(output.dtype, [&](auto zero) {
      using T = decltype(zero);
      this->Run(output.size(),
                kernels::PoolBagBackward<T>{
                    kind, input.dims[1], input.dims[2], ValuesOf<T>(input),
                    ValuesOf<T>(output), ValuesOf<T>(output_gradient),
                    ValuesOf<T>(input_gradient)});
    });
  }

  void BatchNorm(const Norm& norm, const ConstTensor& input, const Tensor& mean,
                 const Tensor& variance, const Tensor& output) override {
    const uint64_t columns = mean.size();
    const uint64_t rows = input.size() / columns;
    WithElement(input.dtype, [&](auto zero) {
      using T = decltype(zero);
      const T* const x = ValuesOf<T>(input);
      SumColumns(kernels::ValueItself<T>{x}, rows, columns, rows,
                 FloatsOf(mean));
      SumColumns(kernels::SquaredDeviation<T>{x, FloatsOf(mean)}, rows, columns,
                 rows, FloatsOf(variance));
    });
    BatchNormWith(norm, input, mean, variance, output);
  }

  void BatchNormWith(const Norm& norm, const ConstTensor& input,
                     const ConstTensor& mean, const ConstTensor& variance,
                     const Tensor& output) override {
    WithElement(output.dtype, [&](auto zero) {
      using T = decltype(zero);
      this->Run(output.size(),
                kernels::NormaliseColumns<T>{
                    NormalisedOf<T>(norm, input, mean, variance,
                                    /*by_rows=*/false),
                    FloatsOf(norm.scale), FloatsOf(norm.shift),
                    ValuesOf<T>(output)});
    });
  }

  void BatchNormBackward(const Norm& norm, const ConstTensor& input,
                         const ConstTensor& mean, const ConstTensor& variance,
                         const ConstTensor& output_gradient,
                         const NormGradients& gradients) override {
    WithElement(input.dtype, [&](auto zero) {
      using T = decltype(zero);
      const auto normalised = NormalisedOf<T>(norm, input, mean, variance,
                                              /*by_rows=*/false);
      SumNormGradients(normalised, output_gradient, gradients);
      if (gradients.input.data == nullptr) return;
      this->Run(input.size(),
                kernels::NormaliseColumnsBackward<T>{
                    normalised, FloatsOf(norm.scale),
                    ValuesOf<T>(output_gradient), FloatsOf(gradients.scale),
                    FloatsOf(gradients.shift),
                    static_cast<float>(input.size() / mean.size()),
                    ValuesOf<T>(gradients.input)});
    });
  }

  void LayerNorm(const Norm& norm, const ConstTensor& input, const Tensor& mean,
                 const Tensor& variance, const Tensor& output) override {
    WithElement(output.dtype, [&](auto zero) {
      using T = decltype(zero);
      this->RunRows(mean.size(),
                    kernels::LayerNorm<T>{
                        ValuesOf<T>(input), FloatsOf(norm.scale),
                        FloatsOf(norm.shift), static_cast<float>(norm.epsilon),
                        norm.scale.size(), FloatsOf(mean), FloatsOf(variance),
                        ValuesOf<T>(output)});
    });
  }

  void LayerNormBackward(const Norm& norm, const ConstTensor& input,
                         const ConstTensor& mean, const ConstTensor& variance,
                         const ConstTensor& output_gradient,
                         const NormGradients& gradients) override {
    WithElement(input.dtype, [&](auto zero) {
      using T = decltype(zero);
      const auto normalised = NormalisedOf<T>(norm, input, mean, variance,
                                              /*by_rows=*/true);
      SumNormGradients(normalised, output_gradient, gradients);
      if (gradients.input.data == nullptr) return;
      this->RunRows(mean.size(),
                    kernels::LayerNormBackward<T>{
                        normalised, FloatsOf(norm.scale),
                        ValuesOf<T>(output_gradient),
                        ValuesOf<T>(gradients.input)});
    });
  }

  void Softmax(bool causal, const ConstTensor& input,
               const Tensor& output) override {
    const uint64_t columns = input.dims.back();
    WithElement(output.dtype, [&](auto zero) {
      using T = decltype(zero);
      this->RunRows(input.size() / columns,
                    kernels::Softmax<T>{causal, ValuesOf<T>(input),
                                        ValuesOf<T>(output), columns});
    });
  }

  void SoftmaxBackward(const ConstTensor& output,
                       const ConstTensor& output_gradient,
                       const Tensor& input_gradient) override {
    const uint64_t columns = output.dims.back();
    WithElement(output.dtype, [&](auto zero) {
      using T = decltype(zero);
      this->RunRows(output.size() / columns,
                    kernels::SoftmaxBackward<T>{
                        ValuesOf<T>(output), ValuesOf<T>(output_gradient),
                        ValuesOf<T>(input_gradient), columns});
    });
  }

  void Gather(const ConstTensor& table, const ConstTensor& indices,
              const Tensor& rows) override {
    if (indices.size() == 0) return;
    WithElement(rows.dtype, [&](auto zero) {
      using T = decltype(zero);
      this->Run(rows.size(),
                kernels::Gather<T>{FloatsOf(table), IndicesOf(indices),
                                   ValuesOf<T>(rows),
                                   rows.size() / indices.size()});
    });
  }

  void ScatterAdd(const ConstTensor& indices, const ConstTensor& rows,
                  const Tensor& table) override {
    Zero(table);
    const uint64_t count = indices.size();
    if (count == 0) return;
    auto* const numbers = static_cast<int32_t*>(
        this->Scratch(kParts, 3 * count * sizeof(int32_t)));
    if (numbers == nullptr) return;
    int32_t* const sorted = numbers + count;
    int32_t* const places = sorted + count;
    this->Run(count, kernels::Count{numbers});
    this->SortPairs(count, IndicesOf(indices), numbers, sorted, places);
    WithElement(rows.dtype, [&](auto zero) {
      using T = decltype(zero);
      this->RunRows(count, kernels::SumSortedRows<T>{
                               sorted, places, ValuesOf<T>(rows),
                               FloatsOf(table), count, rows.size() / count});
    });
  }

  void SumRows(const ConstTensor& in, const Tensor& out) override {
    if (out.size() == 0) return;
    WithElement(in.dtype, [&](auto zero) {
      using T = decltype(zero);
      const kernels::ValueItself<T> value{ValuesOf<T>(in)};
      const uint64_t rows = in.size() / out.size();
      if (IsHalf(out.dtype)) {
        SumColumns(value, rows, out.size(), 1, ValuesOf<T>(out));
      } else {
        SumColumns(value, rows, out.size(), 1, FloatsOf(out));
      }
    });
  }

  void DotPairs(const ConstTensor& input, const Tensor& output) override {
    WithElement(output.dtype, [&](auto zero) {
      using T = decltype(zero);
      this->Run(output.size(),
                kernels::DotPairs<T>{ValuesOf<T>(input), ValuesOf<T>(output),
                                     input.dims[1], input.dims[2]});
    });
  }

  void DotPairsBackward(const ConstTensor& input,
                        const ConstTensor& output_gradient,
                        const Tensor& input_gradient) override {
    WithElement(input.dtype, [&](auto zero) {
      using T = decltype(zero);
      this->Run(input.size(),
                kernels::DotPairsBackward<T>{
                    ValuesOf<T>(input), ValuesOf<T>(output_gradient),
                    ValuesOf<T>(input_gradient), input.dims[1],
                    input.dims[2]});
    });
  }

  void CopyColumns(const ConstTensor& from, uint64_t from_first,
                   uint64_t columns, const Tensor& to,
                   uint64_t to_first) override {
    const uint64_t rows = to.dims[0];
    if (rows == 0) return;
    WithElement(to.dtype, [&](auto zero) {
      using T = decltype(zero);
      this->Run(rows * columns,
                kernels::CopyColumns<T>{
                    ValuesOf<T>(from) + from_first, from.size() / rows,
                    ValuesOf<T>(to) + to_first, to.size() / rows, columns});
    });
  }

  void AddRow(const ConstTensor& in, const ConstTensor& row,
              const Tensor& out) override {
    WithElement(out.dtype, [&](auto zero) {
      using T = decltype(zero);
      this->Run(out.size(),
                kernels::AddRow<T>{ValuesOf<T>(in), FloatsOf(row),
                                   ValuesOf<T>(out), row.size()});
    });
  }

  void ScaleRows(const ConstTensor& in, const ConstTensor& factors,
                 const Tensor& out) override {
    if (factors.size() == 0) return;
    WithElement(out.dtype, [&](auto zero) {
      using T = decltype(zero);
      this->Run(out.size(),
                kernels::ScaleRows<T>{ValuesOf<T>(in), ValuesOf<T>(factors),
                                      ValuesOf<T>(out),
                                      in.size() / factors.size()});
    });
  }

  void Add(const ConstTensor& a, double factor, const ConstTensor& b,
           const Tensor& out) override {
    WithElement(out.dtype, [&](auto zero) {
      using T = decltype(zero);
      this->Run(out.size(),
                kernels::Add<T>{ValuesOf<T>(a), static_cast<float>(factor),
                                ValuesOf<T>(b), ValuesOf<T>(out)});
    });
  }

  void Apply(Elementwise function, const ConstTensor& in,
             const Tensor& out) override {
    WithElement(out.dtype, [&](auto zero) {
      using T = decltype(zero);
      this->Run(out.size(), kernels::Apply<T>{function, ValuesOf<T>(in),
                                              ValuesOf<T>(out)});
    });
  }

  void ApplyBackward(Elementwise function, const ConstTensor& in,
                     const ConstTensor& out, const ConstTensor& out_gradient,
                     const Tensor& in_gradient) override {
    WithElement(in_gradient.dtype, [&](auto zero) {
      using T = decltype(zero);
      this->Run(in_gradient.size(),
                kernels::ApplyBackward<T>{
                    function, ValuesOf<T>(in), ValuesOf<T>(out),
                    ValuesOf<T>(out_gradient), ValuesOf<T>(in_gradient)});
    });
  }

  void Draw(const Drops& drops, const Tensor& factors) override {
    WithElement(factors.dtype, [&](auto zero) {
      using T = decltype(zero);
      this->Run(factors.size(),
                kernels::Draw<T>{
                    drops, static_cast<float>(1 / (1 - drops.rate)),
                    static_cast<uint64_t>(drops.rate * 4294967296.0),
                    ValuesOf<T>(factors)});
    });
  }

  void Losses(const RowLoss& loss, const ConstTensor& outputs,
              const ConstTensor& target, const ConstTensor& factors,
              const Tensor& gradient, const Tensor& numbers) override {
    const uint64_t rows = factors.size();
    if (rows == 0) return;
    WithElement(outputs.dtype, [&](auto zero) {
      using T = decltype(zero);
      const kernels::LossRows<T> all{
          loss,
          outputs.size() / rows,
          ValuesOf<T>(outputs),
          ValuesOf<double>(factors),
          ValuesOf<T>(gradient),
          ValuesOf<double>(numbers)};
      switch (loss.kind) {
        case RowLoss::Kind::kSoftmaxCrossEntropy:
          return this->RunRows(rows, kernels::SoftmaxCrossEntropy<T>{
                                         all, IndicesOf(target)});
        case RowLoss::Kind::kDivergence:
          return this->RunRows(
              rows, kernels::Divergence<T>{all, FloatsOf(target)});
        case RowLoss::Kind::kBinaryCrossEntropy:
        case RowLoss::Kind::kSquaredError:
          return this->RunRows(
              rows, kernels::NumberLoss<T>{all, FloatsOf(target)});
      }
    });
  }

  void Convert(const ConstTensor& from, const Tensor& to) override {
    WithElement(IsHalf(to.dtype) ? to.dtype : from.dtype, [&](auto zero) {
      using T = decltype(zero);
      if (to.dtype == DTypeOf<T>::value) {
        this->Run(to.size(), kernels::Convert<float, T>{FloatsOf(from),
                                                        ValuesOf<T>(to)});
      } else {
        this->Run(to.size(), kernels::Convert<T, float>{ValuesOf<T>(from),
                                                        FloatsOf(to)});
      }
    });
  }

  void Unscale(double factor, const Tensor& values,
               const Tensor& overflow) override {
    Zero(overflow);
    this->Run(values.size(),
              kernels::Unscale{static_cast<float>(factor), FloatsOf(values),
                               FloatsOf(overflow)});
  }

 private:
  // The numbers of scratch memory: for what a primitive is made of, and for the
  // operands of a product.
  static constexpr int kParts = 0;
  static constexpr int kOperands = 1;

  // Images of a convolution whose windows are unfolded at once.
  struct Piece {
    uint64_t first;  // Image.
    uint64_t images;
    uint64_t first_row;  // Of the output's, and how many.
    uint64_t rows;
    uint64_t width;    // Values of a window in a group.
    uint64_t outputs;  // Of a group.
    Tensor unfolded;

    Product::Strides OfUnfolded() const {
      return {.row = width, .outer = 0, .inner = rows * width};
    }
  };

  void Zero(const Tensor& tensor) {
    this->Run(tensor.size(), kernels::Fill<float>{0, FloatsOf(tensor)});
  }

  // Packs operands of float32 in two bytes a value. False: there is no memory.
  bool Halve(Product* p, ConstTensor* a, ConstTensor* b) {
    const auto left = kernels::OperandRows::Left(*p);
    const auto right = kernels::OperandRows::Right(*p);
    // The second begins where it is aligned.
    const uint64_t first =
        IsHalf(a->dtype) ? 0 : (left.size() + 127) / 128 * 128;
    const uint64_t values = first + (IsHalf(b->dtype) ? 0 : right.size());
    if (values == 0) return true;
    const Tensor packed = {this->Scratch(kOperands, values * sizeof(uint16_t)),
                           activations(), {values}};
    if (packed.data == nullptr) return false;
    const auto halve = [&](const kernels::OperandRows& rows, const Tensor& to,
                           Product::Strides* strides, ConstTensor* operand) {
      if (IsHalf(operand->dtype)) return;
      WithElement(to.dtype, [&](auto zero) {
        using T = decltype(zero);
        this->RunRows(rows.count,
                      kernels::HalveRows<T>{rows, FloatsOf(*operand),
                                            ValuesOf<T>(to)});
      });
      operand->data = to.data;
      operand->dtype = to.dtype;
      *strides = rows.packed();
    };
    halve(left, packed, &p->a, a);
    halve(right, Behind(packed, first), &p->b, b);
    return true;
  }

  // Row-major is column-major transposed: c' = op(b)' op(a)'. The longer side
  // of the grid is one call.
  void MultiplyGrid(Product p, ConstTensor a, ConstTensor b, bool add,
                    const Tensor& c) {
    if (p.m == 0 || p.n == 0) return;
    if (p.k == 0) {
      if (!add) ZeroGrid(p, c);
      return;
    }
    if (IsHalf(activations()) && !Halve(&p, &a, &b)) return;
    const bool by_outer = p.outer >= p.inner;
    const auto stride = [&](const Product::Strides& s) {
      return by_outer ? s.outer : s.inner;
    };
    const auto step = [&](const Product::Strides& s) {
      return by_outer ? s.inner : s.outer;
    };
    for (uint64_t i = 0; i < (by_outer ? p.inner : p.outer); ++i) {
      ColumnMajorProduct call;
      call.operands = a.dtype;
      call.result = c.dtype;
      call.rounds_to_tf32 = this->compute_format() == ComputeFormat::kTf32;
      call.transpose_a = p.transpose_b;
      call.transpose_b = p.transpose_a;
      call.m = p.n;
      call.n = p.m;
      call.k = p.k;
      call.alpha = static_cast<float>(p.scale);
      call.a = Behind(b, i * step(p.b)).data;
      call.a_leading = p.b_row();
      call.a_stride = stride(p.b);
      call.b = Behind(a, i * step(p.a)).data;
      call.b_leading = p.a_row();
      call.b_stride = stride(p.a);
      call.beta = add ? 1 : 0;
      call.c = Behind(c, i * step(p.c)).data;
      call.c_leading = p.c_row();
      call.c_stride = stride(p.c);
      call.count = by_outer ? p.outer : p.inner;
      this->MultiplyColumnMajor(call);
    }
  }

  void ZeroGrid(const Product& p, const Tensor& c) {
    WithElement(c.dtype, [&](auto zero) {
      using T = decltype(zero);
      this->Run(p.outer * p.inner * p.m * p.n,
                kernels::ZeroGrid<T>{p.inner, p.m, p.n, p.c, ValuesOf<T>(c)});
    });
  }

  // `dtype`: of unfolded values.
  template <class Function>
  void ForEachPiece(const Convolution& shape, DType dtype, Function f) {
    const Window& w = shape.window;
    Piece piece;
    piece.width = w.kernel_height * w.kernel_width * shape.group_inputs();
    piece.outputs = shape.group_outputs();
    const uint64_t places = w.out_height * w.out_width;
    const uint64_t image = std::max<uint64_t>(
        places * piece.width * shape.groups * SizeOf(dtype), 1);
    const uint64_t at_once = std::min(
        std::max<uint64_t>(this->unfolded_bytes() / image, 1), w.batch);
    if (at_once == 0) return;
    piece.unfolded.data = this->Scratch(kParts, at_once * image);
    piece.unfolded.dtype = dtype;
    if (piece.unfolded.data == nullptr) return;
    for (piece.first = 0; piece.first < w.batch; piece.first += at_once) {
      piece.images = std::min(at_once, w.batch - piece.first);
      piece.first_row = piece.first * places;
      piece.rows = piece.images * places;
      f(piece);
    }
  }

  void UnfoldInput(const Convolution& shape, const Piece& piece,
                   const ConstTensor& input) {
    WithElement(piece.unfolded.dtype, [&](auto zero) {
      using T = decltype(zero);
      const auto unfold = [&](const auto* in) {
        using In = std::remove_const_t<std::remove_pointer_t<decltype(in)>>;
        this->Run(shape.groups * piece.rows * piece.width,
                  kernels::Unfold<In, T>{shape.window, shape.groups,
                                         piece.first, piece.rows, in,
                                         ValuesOf<T>(piece.unfolded)});
      };
      if (IsHalf(input.dtype)) {
        unfold(ValuesOf<T>(input));
      } else {
        unfold(FloatsOf(input));
      }
    });
  }

  template <class T>
  void SumNormGradients(const kernels::Normalised<T>& normalised,
                        const ConstTensor& output_gradient,
                        const NormGradients& gradients) {
    const uint64_t columns = normalised.columns;
    const uint64_t rows = output_gradient.size() / columns;
    const T* const dy = ValuesOf<T>(output_gradient);
    SumColumns(kernels::TimesNormalised<T>{dy, normalised}, rows, columns, 1,
               FloatsOf(gradients.scale));
    SumColumns(kernels::ValueItself<T>{dy}, rows, columns, 1,
               FloatsOf(gradients.shift));
  }

  // Cut by the shape alone, so that the same input gives the same bits.
  template <class Value, class T>
  void SumColumns(const Value& value, uint64_t rows, uint64_t columns,
                  uint64_t divisor, T* out) {
    constexpr uint64_t kRows = 32;
    constexpr uint64_t kMostParts = 256;
    const uint64_t length =
        std::max(kRows, (rows + kMostParts - 1) / kMostParts);
    const uint64_t parts = (rows + length - 1) / length;
    // No more for fewer rows, so that a smaller batch needs no more memory.
    const uint64_t most = std::min(kMostParts, (rows + kRows - 1) / kRows);
    float* const sums = static_cast<float*>(
        this->Scratch(kParts, std::max<uint64_t>(most, 1) * columns *
                                  sizeof(float)));
    if (sums == nullptr) return;
    this->Run(parts * columns,
              kernels::ColumnParts<Value>{value, rows, columns, length, sums});
    this->Run(columns, kernels::SumOfParts<T>{
                           sums, parts, columns, static_cast<float>(divisor),
                           out});
  }
};

}  // namespace paramd

#endif  // PARAMD_WORKER_DEVICE_KERNEL_DEVICE_H_
