#ifndef PARAMD_COMPUTE_DEVICE_KERNEL_DEVICE_H_
#define PARAMD_COMPUTE_DEVICE_KERNEL_DEVICE_H_

#include <algorithm>
#include <cstdint>

#include "compute/device/device.h"
#include "compute/device/kernel_products.h"
#include "compute/device/kernels.h"
#include "compute/device/loss_kernels.h"
#include "compute/device/window_kernels.h"

namespace paramd {

template <class T>
kernels::Normalised<T> NormalisedOf(const Norm& norm, const ConstTensor& input,
                                    const ConstTensor& mean,
                                    const ConstTensor& variance, bool by_rows) {
  return {ValuesOf<T>(input),
          FloatsOf(mean),
          FloatsOf(variance),
          static_cast<float>(norm.epsilon),
          by_rows,
          norm.scale.size()};
}

// The primitives, over kernels, in float32. Where they run is the base's: see
// KernelProducts.
template <class Base>
class KernelDevice : public KernelProducts<Base> {
 public:
  using KernelProducts<Base>::KernelProducts;

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
      this->Run(
          input_gradient.size(),
          kernels::PoolBackward<T>{
              shape.window, is_max, static_cast<const uint8_t*>(places.data),
              ValuesOf<T>(output_gradient), ValuesOf<T>(input_gradient)});
    });
  }

  void PoolAll(Pooling::Kind kind, const ConstTensor& input,
               const Tensor& output) override {
    if (output.size() == 0) return;
    WithElement(output.dtype, [&](auto zero) {
      using T = decltype(zero);
      this->Run(
          output.size(),
          kernels::PoolAll<T>{kind == Pooling::Kind::kMax,
                              input.size() / output.size(), output.dims.back(),
                              ValuesOf<T>(input), ValuesOf<T>(output)});
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
                    output.dims.back(), ValuesOf<T>(input), ValuesOf<T>(output),
                    ValuesOf<T>(output_gradient), ValuesOf<T>(input_gradient)});
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
      this->Run(output.size(), kernels::NormaliseColumns<T>{
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
      this->Run(
          input.size(),
          kernels::NormaliseColumnsBackward<T>{
              normalised, FloatsOf(norm.scale), ValuesOf<T>(output_gradient),
              FloatsOf(gradients.scale), FloatsOf(gradients.shift),
              static_cast<float>(input.size() / mean.size()),
              ValuesOf<T>(gradients.input)});
    });
  }

  void LayerNorm(const Norm& norm, const ConstTensor& input, const Tensor& mean,
                 const Tensor& variance, const Tensor& output) override {
    WithElement(output.dtype, [&](auto zero) {
      using T = decltype(zero);
      this->RunRows(
          mean.size(),
          kernels::LayerNorm<T>{
              ValuesOf<T>(input), FloatsOf(norm.scale), FloatsOf(norm.shift),
              static_cast<float>(norm.epsilon), norm.scale.size(),
              FloatsOf(mean), FloatsOf(variance), ValuesOf<T>(output)});
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
      this->RunRows(mean.size(), kernels::LayerNormBackward<T>{
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
      this->Run(
          rows.size(),
          kernels::Gather<T>{FloatsOf(table), IndicesOf(indices),
                             ValuesOf<T>(rows), rows.size() / indices.size()});
    });
  }

  void ScatterAdd(const ConstTensor& indices, const ConstTensor& rows,
                  const Tensor& table) override {
    this->Zero(table);
    const uint64_t count = indices.size();
    if (count == 0) return;
    auto* const numbers = static_cast<int32_t*>(
        this->Scratch(this->kParts, 3 * count * sizeof(int32_t)));
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
                    ValuesOf<T>(input_gradient), input.dims[1], input.dims[2]});
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
      this->Run(out.size(), kernels::AddRow<T>{ValuesOf<T>(in), FloatsOf(row),
                                               ValuesOf<T>(out), row.size()});
    });
  }

  void ScaleRows(const ConstTensor& in, const ConstTensor& factors,
                 const Tensor& out) override {
    if (factors.size() == 0) return;
    WithElement(out.dtype, [&](auto zero) {
      using T = decltype(zero);
      this->Run(out.size(), kernels::ScaleRows<T>{
                                ValuesOf<T>(in), ValuesOf<T>(factors),
                                ValuesOf<T>(out), in.size() / factors.size()});
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
      this->Run(out.size(),
                kernels::Apply<T>{function, ValuesOf<T>(in), ValuesOf<T>(out)});
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
      this->Run(
          factors.size(),
          kernels::Draw<T>{drops, static_cast<float>(1 / (1 - drops.rate)),
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
      const kernels::LossRows<T> all{loss,
                                     outputs.size() / rows,
                                     ValuesOf<T>(outputs),
                                     ValuesOf<double>(factors),
                                     ValuesOf<T>(gradient),
                                     ValuesOf<double>(numbers)};
      switch (loss.kind) {
        case RowLoss::Kind::kSoftmaxCrossEntropy:
          return this->RunRows(
              rows, kernels::SoftmaxCrossEntropy<T>{all, IndicesOf(target)});
        case RowLoss::Kind::kDivergence:
          return this->RunRows(rows,
                               kernels::Divergence<T>{all, FloatsOf(target)});
        case RowLoss::Kind::kBinaryCrossEntropy:
        case RowLoss::Kind::kSquaredError:
          return this->RunRows(rows,
                               kernels::NumberLoss<T>{all, FloatsOf(target)});
        case RowLoss::Kind::kInBatchSoftmax:
          return this->RunRows(
              rows, kernels::InBatchSoftmax<T>{all, ValuesOf<int64_t>(target)});
      }
    });
  }

  void Convert(const ConstTensor& from, const Tensor& to) override {
    WithElement(IsHalf(to.dtype) ? to.dtype : from.dtype, [&](auto zero) {
      using T = decltype(zero);
      if (to.dtype == DTypeOf<T>::value) {
        this->Run(to.size(),
                  kernels::Convert<float, T>{FloatsOf(from), ValuesOf<T>(to)});
      } else {
        this->Run(to.size(),
                  kernels::Convert<T, float>{ValuesOf<T>(from), FloatsOf(to)});
      }
    });
  }

  void Unscale(double factor, const Tensor& values,
               const Tensor& overflow) override {
    this->Zero(overflow);
    this->Run(values.size(),
              kernels::Unscale{static_cast<float>(factor), FloatsOf(values),
                               FloatsOf(overflow)});
  }

 private:
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
    float* const sums = static_cast<float*>(this->Scratch(
        this->kParts, std::max<uint64_t>(most, 1) * columns * sizeof(float)));
    if (sums == nullptr) return;
    this->Run(parts * columns,
              kernels::ColumnParts<Value>{value, rows, columns, length, sums});
    this->Run(columns,
              kernels::SumOfParts<T>{sums, parts, columns,
                                     static_cast<float>(divisor), out});
  }
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_KERNEL_DEVICE_H_
