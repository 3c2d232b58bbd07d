#ifndef PARAMD_WORKER_DEVICE_KERNEL_DEVICE_H_
#define PARAMD_WORKER_DEVICE_KERNEL_DEVICE_H_

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "worker/device/device.h"
#include "worker/device/kernels.h"
#include "worker/device/window_kernels.h"

namespace paramd {

// A grid of matrix products as cublasSgemmStridedBatched has it: column-major,
// c = alpha op(a) op(b) + beta c, c is m x n, leading dimensions and strides in
// elements.
struct ColumnMajorProduct {
  bool transpose_a = false;
  bool transpose_b = false;
  uint64_t m = 0;
  uint64_t n = 0;
  uint64_t k = 0;
  float alpha = 1;
  const float* a = nullptr;
  uint64_t a_leading = 0;
  uint64_t a_stride = 0;
  const float* b = nullptr;
  uint64_t b_leading = 0;
  uint64_t b_stride = 0;
  float beta = 0;
  float* c = nullptr;
  uint64_t c_leading = 0;
  uint64_t c_stride = 0;
  uint64_t count = 1;
};

// Values of tensors, as kernels take them.
inline const float* FloatsOf(const ConstTensor& tensor) {
  CHECK(tensor.data == nullptr || tensor.dtype == DType::kFloat32,
        "kernels compute in float32");
  return static_cast<const float*>(tensor.data);
}
inline float* FloatsOf(const Tensor& tensor) {
  CHECK(tensor.data == nullptr || tensor.dtype == DType::kFloat32,
        "kernels compute in float32");
  return static_cast<float*>(tensor.data);
}
inline const int32_t* IndicesOf(const ConstTensor& tensor) {
  return static_cast<const int32_t*>(tensor.data);
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

inline kernels::Normalised NormalisedOf(const Norm& norm,
                                        const ConstTensor& input,
                                        const ConstTensor& mean,
                                        const ConstTensor& variance,
                                        bool by_rows) {
  return {FloatsOf(input),
          FloatsOf(mean),
          FloatsOf(variance),
          static_cast<float>(norm.epsilon),
          by_rows,
          norm.scale.size()};
}

// The primitives, over kernels, in float32. Where they run is the base's, a
// Device: CUDA's, or that of a test, where the same code runs on the host. The
// base has
//   Run(count, function)       function(i) for each i below count
//   RunRows(rows, function)    function(row, lanes): see kernels.h
//   MultiplyColumnMajor(...)   a ColumnMajorProduct
//   unfolded_bytes()           what unfolded windows may take at a time
//   Scratch(bytes)             memory until the next call that is not of Run...
//                              and Multiply...; null if status() says why
// each in order, and doing nothing once status() is not OK.
template <class Base>
class KernelDevice : public Base {
 public:
  using Base::Base;

  void Multiply(const Product& p, const ConstTensor& a, const ConstTensor& b,
                const Tensor& c) override {
    MultiplyGrid(p, FloatsOf(a), FloatsOf(b), /*add=*/false, FloatsOf(c));
  }

  void Convolve(const Convolution& shape, const ConstTensor& input,
                const ConstTensor& kernel, const ConstTensor& bias,
                const Tensor& output) override {
    ForEachPiece(shape, [&](const Piece& piece) {
      UnfoldInput(shape, piece, FloatsOf(input));
      Product p = ProductOf(shape, piece.rows, piece.width, piece.outputs);
      p.a = piece.OfUnfolded();
      p.b = p.c = {.row = shape.outputs, .outer = 0, .inner = piece.outputs};
      MultiplyGrid(p, piece.unfolded, FloatsOf(kernel), false,
                   FloatsOf(output) + piece.first_row * shape.outputs);
    });
    if (bias.data != nullptr) AddRow(output, bias, output);
  }

  void ConvolveBackwardInput(const Convolution& shape,
                             const ConstTensor& kernel,
                             const ConstTensor& output_gradient,
                             const Tensor& input_gradient) override {
    ForEachPiece(shape, [&](const Piece& piece) {
      Product p = ProductOf(shape, piece.rows, piece.outputs, piece.width);
      p.transpose_b = true;
      p.a = p.b = {.row = shape.outputs, .outer = 0, .inner = piece.outputs};
      p.c = piece.OfUnfolded();
      MultiplyGrid(p,
                   FloatsOf(output_gradient) + piece.first_row * shape.outputs,
                   FloatsOf(kernel), false, piece.unfolded);
      const Window& w = shape.window;
      this->Run(piece.images * w.height * w.width * w.channels,
                kernels::Fold{w, shape.groups, piece.first, piece.rows,
                              piece.unfolded, FloatsOf(input_gradient)});
    });
  }

  void ConvolveBackwardKernel(const Convolution& shape,
                              const ConstTensor& input,
                              const ConstTensor& output_gradient,
                              const Tensor& kernel_gradient) override {
    if (shape.window.batch == 0) Zero(kernel_gradient);
    ForEachPiece(shape, [&](const Piece& piece) {
      UnfoldInput(shape, piece, FloatsOf(input));
      Product p = ProductOf(shape, piece.width, piece.rows, piece.outputs);
      p.transpose_a = true;
      p.a = piece.OfUnfolded();
      p.b = p.c = {.row = shape.outputs, .outer = 0, .inner = piece.outputs};
      MultiplyGrid(p, piece.unfolded,
                   FloatsOf(output_gradient) + piece.first_row * shape.outputs,
                   /*add=*/piece.first > 0, FloatsOf(kernel_gradient));
    });
  }

  void Pool(const Pooling& shape, const ConstTensor& input,
            const Tensor& output, const Tensor& places) override {
    const bool is_max = shape.kind == Pooling::Kind::kMax;
    this->Run(output.size(), kernels::Pool{shape.window, is_max,
                                           FloatsOf(input), FloatsOf(output),
                                           static_cast<uint8_t*>(places.data)});
  }

  void PoolBackward(const Pooling& shape, const ConstTensor& places,
                    const ConstTensor& output_gradient,
                    const Tensor& input_gradient) override {
    const bool is_max = shape.kind == Pooling::Kind::kMax;
    this->Run(input_gradient.size(),
              kernels::PoolBackward{shape.window, is_max,
                                    static_cast<const uint8_t*>(places.data),
                                    FloatsOf(output_gradient),
                                    FloatsOf(input_gradient)});
  }

  void PoolAll(Pooling::Kind kind, const ConstTensor& input,
               const Tensor& output) override {
    if (output.size() == 0) return;
    this->Run(output.size(),
              kernels::PoolAll{kind == Pooling::Kind::kMax,
                               input.size() / output.size(), output.dims.back(),
                               FloatsOf(input), FloatsOf(output)});
  }

  void PoolAllBackward(Pooling::Kind kind, const ConstTensor& input,
                       const ConstTensor& output,
                       const ConstTensor& output_gradient,
                       const Tensor& input_gradient) override {
    if (output.size() == 0) return;
    this->Run(output.size(),
              kernels::PoolAllBackward{
                  kind == Pooling::Kind::kMax, input.size() / output.size(),
                  output.dims.back(), FloatsOf(input), FloatsOf(output),
                  FloatsOf(output_gradient), FloatsOf(input_gradient)});
  }

  void PoolBag(Bag kind, const ConstTensor& input,
               const Tensor& output) override {
    this->Run(output.size(),
              kernels::PoolBag{kind, input.dims[1], input.dims[2],
                               FloatsOf(input), FloatsOf(output)});
  }

  void PoolBagBackward(Bag kind, const ConstTensor& input,
                       const ConstTensor& output,
                       const ConstTensor& output_gradient,
                       const Tensor& input_gradient) override {
    this->Run(output.size(),
              kernels::PoolBagBackward{
                  kind, input.dims[1], input.dims[2], FloatsOf(input),
                  FloatsOf(output), FloatsOf(output_gradient),
                  FloatsOf(input_gradient)});
  }

  void BatchNorm(const Norm& norm, const ConstTensor& input, const Tensor& mean,
                 const Tensor& variance, const Tensor& output) override {
    const uint64_t columns = mean.size();
    const uint64_t rows = input.size() / columns;
    const float* const x = FloatsOf(input);
    SumColumns(kernels::ValueItself{x}, rows, columns, rows, FloatsOf(mean));
    SumColumns(kernels::SquaredDeviation{x, FloatsOf(mean)}, rows, columns,
               rows, FloatsOf(variance));
    BatchNormWith(norm, input, mean, variance, output);
  }

  void BatchNormWith(const Norm& norm, const ConstTensor& input,
                     const ConstTensor& mean, const ConstTensor& variance,
                     const Tensor& output) override {
    this->Run(output.size(), kernels::NormaliseColumns{
                                 NormalisedOf(norm, input, mean, variance,
                                              /*by_rows=*/false),
                                 FloatsOf(norm.scale), FloatsOf(norm.shift),
                                 FloatsOf(output)});
  }

  void BatchNormBackward(const Norm& norm, const ConstTensor& input,
                         const ConstTensor& mean, const ConstTensor& variance,
                         const ConstTensor& output_gradient,
                         const NormGradients& gradients) override {
    const auto normalised = NormalisedOf(norm, input, mean, variance,
                                         /*by_rows=*/false);
    SumNormGradients(normalised, output_gradient, gradients);
    if (gradients.input.data == nullptr) return;
    this->Run(input.size(),
              kernels::NormaliseColumnsBackward{
                  normalised, FloatsOf(norm.scale), FloatsOf(output_gradient),
                  FloatsOf(gradients.scale), FloatsOf(gradients.shift),
                  static_cast<float>(input.size() / mean.size()),
                  FloatsOf(gradients.input)});
  }

  void LayerNorm(const Norm& norm, const ConstTensor& input, const Tensor& mean,
                 const Tensor& variance, const Tensor& output) override {
    this->RunRows(mean.size(),
                  kernels::LayerNorm{FloatsOf(input), FloatsOf(norm.scale),
                                     FloatsOf(norm.shift),
                                     static_cast<float>(norm.epsilon),
                                     norm.scale.size(), FloatsOf(mean),
                                     FloatsOf(variance), FloatsOf(output)});
  }

  void LayerNormBackward(const Norm& norm, const ConstTensor& input,
                         const ConstTensor& mean, const ConstTensor& variance,
                         const ConstTensor& output_gradient,
                         const NormGradients& gradients) override {
    const auto normalised = NormalisedOf(norm, input, mean, variance,
                                         /*by_rows=*/true);
    SumNormGradients(normalised, output_gradient, gradients);
    if (gradients.input.data == nullptr) return;
    this->RunRows(mean.size(),
                  kernels::LayerNormBackward{normalised, FloatsOf(norm.scale),
                                             FloatsOf(output_gradient),
                                             FloatsOf(gradients.input)});
  }

  void Softmax(bool causal, const ConstTensor& input,
               const Tensor& output) override {
    const uint64_t columns = input.dims.back();
    this->RunRows(
        input.size() / columns,
        kernels::Softmax{causal, FloatsOf(input), FloatsOf(output), columns});
  }

  void SoftmaxBackward(const ConstTensor& output,
                       const ConstTensor& output_gradient,
                       const Tensor& input_gradient) override {
    const uint64_t columns = output.dims.back();
    this->RunRows(
        output.size() / columns,
        kernels::SoftmaxBackward{FloatsOf(output), FloatsOf(output_gradient),
                                 FloatsOf(input_gradient), columns});
  }

  void Gather(const ConstTensor& table, const ConstTensor& indices,
              const Tensor& rows) override {
    if (indices.size() == 0) return;
    this->Run(rows.size(),
              kernels::Gather{FloatsOf(table), IndicesOf(indices),
                              FloatsOf(rows), rows.size() / indices.size()});
  }

  void ScatterAdd(const ConstTensor& indices, const ConstTensor& rows,
                  const Tensor& table) override {
    Zero(table);
    const uint64_t count = indices.size();
    if (count == 0) return;
    this->RunRows(count, kernels::ScatterAdd{IndicesOf(indices), FloatsOf(rows),
                                             FloatsOf(table), count,
                                             rows.size() / count});
  }

  void SumRows(const ConstTensor& in, const Tensor& out) override {
    if (out.size() == 0) return;
    SumColumns(kernels::ValueItself{FloatsOf(in)}, in.size() / out.size(),
               out.size(), 1, FloatsOf(out));
  }

  void DotPairs(const ConstTensor& input, const Tensor& output) override {
    this->Run(output.size(),
              kernels::DotPairs{FloatsOf(input), FloatsOf(output),
                                input.dims[1], input.dims[2]});
  }

  void DotPairsBackward(const ConstTensor& input,
                        const ConstTensor& output_gradient,
                        const Tensor& input_gradient) override {
    this->Run(input.size(),
              kernels::DotPairsBackward{
                  FloatsOf(input), FloatsOf(output_gradient),
                  FloatsOf(input_gradient), input.dims[1], input.dims[2]});
  }

  void CopyColumns(const ConstTensor& from, uint64_t from_first,
                   uint64_t columns, const Tensor& to,
                   uint64_t to_first) override {
    const uint64_t rows = to.dims[0];
    if (rows == 0) return;
    this->Run(rows * columns,
              kernels::CopyColumns{FloatsOf(from) + from_first,
                                   from.size() / rows, FloatsOf(to) + to_first,
                                   to.size() / rows, columns});
  }

  void AddRow(const ConstTensor& in, const ConstTensor& row,
              const Tensor& out) override {
    this->Run(out.size(), kernels::AddRow{FloatsOf(in), FloatsOf(row),
                                          FloatsOf(out), row.size()});
  }

  void ScaleRows(const ConstTensor& in, const ConstTensor& factors,
                 const Tensor& out) override {
    if (factors.size() == 0) return;
    this->Run(out.size(),
              kernels::ScaleRows{FloatsOf(in), FloatsOf(factors), FloatsOf(out),
                                 in.size() / factors.size()});
  }

  void Add(const ConstTensor& a, double factor, const ConstTensor& b,
           const Tensor& out) override {
    this->Run(out.size(), kernels::Add{FloatsOf(a), static_cast<float>(factor),
                                       FloatsOf(b), FloatsOf(out)});
  }

  void Apply(Elementwise function, const ConstTensor& in,
             const Tensor& out) override {
    this->Run(out.size(),
              kernels::Apply{function, FloatsOf(in), FloatsOf(out)});
  }

  void ApplyBackward(Elementwise function, const ConstTensor& in,
                     const ConstTensor& out, const ConstTensor& out_gradient,
                     const Tensor& in_gradient) override {
    this->Run(
        in_gradient.size(),
        kernels::ApplyBackward{function, FloatsOf(in), FloatsOf(out),
                               FloatsOf(out_gradient), FloatsOf(in_gradient)});
  }

  void Draw(const Drops& drops, const Tensor& factors) override {
    this->Run(factors.size(),
              kernels::Draw{drops, static_cast<float>(1 / (1 - drops.rate)),
                            static_cast<uint64_t>(drops.rate * 4294967296.0),
                            FloatsOf(factors)});
  }

 private:
  // Images of a convolution whose windows are unfolded at once.
  struct Piece {
    uint64_t first;  // Image.
    uint64_t images;
    uint64_t first_row;  // Of the output's, and how many.
    uint64_t rows;
    uint64_t width;    // Values of a window in a group.
    uint64_t outputs;  // Of a group.
    float* unfolded;

    Product::Strides OfUnfolded() const {
      return {.row = width, .outer = 0, .inner = rows * width};
    }
  };

  void Zero(const Tensor& tensor) {
    this->Run(tensor.size(), kernels::Fill{0, FloatsOf(tensor)});
  }

  // Row-major is column-major transposed: c' = op(b)' op(a)'. The longer side
  // of the grid is one call.
  void MultiplyGrid(const Product& p, const float* a, const float* b, bool add,
                    float* c) {
    if (p.m == 0 || p.n == 0) return;
    if (p.k == 0) {
      if (add) return;
      this->Run(p.outer * p.inner * p.m * p.n,
                kernels::ZeroGrid{p.inner, p.m, p.n, p.c, c});
      return;
    }
    const bool by_outer = p.outer >= p.inner;
    const auto stride = [&](const Product::Strides& s) {
      return by_outer ? s.outer : s.inner;
    };
    const auto step = [&](const Product::Strides& s) {
      return by_outer ? s.inner : s.outer;
    };
    for (uint64_t i = 0; i < (by_outer ? p.inner : p.outer); ++i) {
      ColumnMajorProduct call;
      call.transpose_a = p.transpose_b;
      call.transpose_b = p.transpose_a;
      call.m = p.n;
      call.n = p.m;
      call.k = p.k;
      call.alpha = static_cast<float>(p.scale);
      call.a = b + i * step(p.b);
      call.a_leading = p.b_row();
      call.a_stride = stride(p.b);
      call.b = a + i * step(p.a);
      call.b_leading = p.a_row();
      call.b_stride = stride(p.a);
      call.beta = add ? 1 : 0;
      call.c = c + i * step(p.c);
      call.c_leading = p.c_row();
      call.c_stride = stride(p.c);
      call.count = by_outer ? p.outer : p.inner;
      this->MultiplyColumnMajor(call);
    }
  }

  template <class Function>
  void ForEachPiece(const Convolution& shape, Function f) {
    const Window& w = shape.window;
    Piece piece;
    piece.width = w.kernel_height * w.kernel_width * shape.group_inputs();
    piece.outputs = shape.group_outputs();
    const uint64_t places = w.out_height * w.out_width;
    const uint64_t image = std::max<uint64_t>(
        places * piece.width * shape.groups * sizeof(float), 1);
    const uint64_t at_once = std::min(
        std::max<uint64_t>(this->unfolded_bytes() / image, 1), w.batch);
    if (at_once == 0) return;
    piece.unfolded = static_cast<float*>(this->Scratch(at_once * image));
    if (piece.unfolded == nullptr) return;
    for (piece.first = 0; piece.first < w.batch; piece.first += at_once) {
      piece.images = std::min(at_once, w.batch - piece.first);
      piece.first_row = piece.first * places;
      piece.rows = piece.images * places;
      f(piece);
    }
  }

  void UnfoldInput(const Convolution& shape, const Piece& piece,
                   const float* input) {
    this->Run(shape.groups * piece.rows * piece.width,
              kernels::Unfold{shape.window, shape.groups, piece.first,
                              piece.rows, input, piece.unfolded});
  }

  void SumNormGradients(const kernels::Normalised& normalised,
                        const ConstTensor& output_gradient,
                        const NormGradients& gradients) {
    const uint64_t columns = normalised.columns;
    const uint64_t rows = output_gradient.size() / columns;
    const float* const dy = FloatsOf(output_gradient);
    SumColumns(kernels::TimesNormalised{dy, normalised}, rows, columns, 1,
               FloatsOf(gradients.scale));
    SumColumns(kernels::ValueItself{dy}, rows, columns, 1,
               FloatsOf(gradients.shift));
  }

  // Cut by the shape alone, so that the same input gives the same bits.
  template <class Value>
  void SumColumns(const Value& value, uint64_t rows, uint64_t columns,
                  uint64_t divisor, float* out) {
    constexpr uint64_t kRows = 32;
    constexpr uint64_t kParts = 256;
    const uint64_t length = std::max(kRows, (rows + kParts - 1) / kParts);
    const uint64_t parts = (rows + length - 1) / length;
    float* const sums = static_cast<float*>(
        this->Scratch(std::max<uint64_t>(parts, 1) * columns * sizeof(float)));
    if (sums == nullptr) return;
    this->Run(parts * columns,
              kernels::ColumnParts<Value>{value, rows, columns, length, sums});
    this->Run(columns, kernels::SumOfParts{sums, parts, columns,
                                           static_cast<float>(divisor), out});
  }
};

}  // namespace paramd

#endif  // PARAMD_WORKER_DEVICE_KERNEL_DEVICE_H_
