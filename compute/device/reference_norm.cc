// Normalisation and softmax.
#include <algorithm>
#include <cmath>

#include "compute/device/float_type.h"
#include "compute/device/reference_device.h"

namespace paramd {
namespace {

// `count` values, `stride` apart: what one pair of statistics is of.
struct Line {
  uint64_t first;
  uint64_t stride;
  uint64_t count;
};

template <class T>
void Statistics(const Line& line, absl::Span<const T> x, T* mean, T* variance) {
  T sum = 0;
  for (uint64_t i = 0; i < line.count; ++i) {
    sum += x[line.first + i * line.stride];
  }
  *mean = sum / static_cast<T>(line.count);
  T squares = 0;
  for (uint64_t i = 0; i < line.count; ++i) {
    const T deviation = x[line.first + i * line.stride] - *mean;
    squares += deviation * deviation;
  }
  *variance = squares / static_cast<T>(line.count);
}

Line Column(const ConstTensor& matrix, uint64_t columns, uint64_t column) {
  return {column, columns, matrix.size() / columns};
}

Line RowLine(uint64_t columns, uint64_t row) {
  return {row * columns, 1, columns};
}

// The gradient by the input along a line, where g = dy * scale and n is the
// normalised value: (g - mean(g) - n mean(g n)) / sqrt(variance + epsilon).
template <class T, class Scale>
void InputGradient(const Line& line, absl::Span<const T> x,
                   absl::Span<const T> dy, T mean, T inverse, Scale scale,
                   absl::Span<T> dx) {
  T sum = 0;
  T product = 0;
  for (uint64_t i = 0; i < line.count; ++i) {
    const uint64_t at = line.first + i * line.stride;
    const T g = dy[at] * scale(i);
    sum += g;
    product += g * (x[at] - mean) * inverse;
  }
  const T count = static_cast<T>(line.count);
  for (uint64_t i = 0; i < line.count; ++i) {
    const uint64_t at = line.first + i * line.stride;
    const T n = (x[at] - mean) * inverse;
    dx[at] = (dy[at] * scale(i) - sum / count - n * product / count) * inverse;
  }
}

}  // namespace

void ReferenceDevice::BatchNorm(const Norm& norm, const ConstTensor& input,
                                const Tensor& mean, const Tensor& variance,
                                const Tensor& output) {
  WithFloatType(output.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (uint64_t c = 0; c < mean.size(); ++c) {
      Statistics<T>(Column(input, mean.size(), c), input.values<T>(),
                    &mean.values<T>()[c], &variance.values<T>()[c]);
    }
  });
  // Of a device that overrides it, not its own: one twin, one arithmetic.
  ReferenceDevice::BatchNormWith(norm, input, mean, variance, output);
}

void ReferenceDevice::BatchNormWith(const Norm& norm, const ConstTensor& input,
                                    const ConstTensor& mean,
                                    const ConstTensor& variance,
                                    const Tensor& output) {
  const uint64_t columns = mean.size();
  WithFloatType(output.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto x = input.values<T>();
    const auto y = output.values<T>();
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t c = i % columns;
      const T deviation =
          std::sqrt(variance.values<T>()[c] + static_cast<T>(norm.epsilon));
      y[i] =
          (x[i] - mean.values<T>()[c]) / deviation * norm.scale.values<T>()[c] +
          norm.shift.values<T>()[c];
    }
  });
}

void ReferenceDevice::BatchNormBackward(const Norm& norm,
                                        const ConstTensor& input,
                                        const ConstTensor& mean,
                                        const ConstTensor& variance,
                                        const ConstTensor& output_gradient,
                                        const NormGradients& gradients) {
  const uint64_t columns = mean.size();
  WithFloatType(input.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto x = input.values<T>();
    const auto dy = output_gradient.values<T>();
    for (uint64_t c = 0; c < columns; ++c) {
      const T m = mean.values<T>()[c];
      const T inverse =
          1 / std::sqrt(variance.values<T>()[c] + static_cast<T>(norm.epsilon));
      T scale = 0;
      T shift = 0;
      for (size_t i = c; i < x.size(); i += columns) {
        scale += dy[i] * (x[i] - m) * inverse;
        shift += dy[i];
      }
      gradients.scale.values<T>()[c] = scale;
      gradients.shift.values<T>()[c] = shift;
      if (gradients.input.data == nullptr) continue;
      const T gamma = norm.scale.values<T>()[c];
      InputGradient<T>(
          Column(input, columns, c), x, dy, m, inverse,
          [&](uint64_t) { return gamma; }, gradients.input.values<T>());
    }
  });
}

void ReferenceDevice::LayerNorm(const Norm& norm, const ConstTensor& input,
                                const Tensor& mean, const Tensor& variance,
                                const Tensor& output) {
  const uint64_t columns = norm.scale.size();
  WithFloatType(output.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto x = input.values<T>();
    const auto y = output.values<T>();
    for (uint64_t r = 0; r < mean.size(); ++r) {
      T* m = &mean.values<T>()[r];
      T* v = &variance.values<T>()[r];
      Statistics<T>(RowLine(columns, r), x, m, v);
      const T deviation = std::sqrt(*v + static_cast<T>(norm.epsilon));
      for (uint64_t c = 0; c < columns; ++c) {
        const uint64_t at = r * columns + c;
        y[at] = (x[at] - *m) / deviation * norm.scale.values<T>()[c] +
                norm.shift.values<T>()[c];
      }
    }
  });
}

void ReferenceDevice::LayerNormBackward(const Norm& norm,
                                        const ConstTensor& input,
                                        const ConstTensor& mean,
                                        const ConstTensor& variance,
                                        const ConstTensor& output_gradient,
                                        const NormGradients& gradients) {
  const uint64_t columns = norm.scale.size();
  WithFloatType(input.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto x = input.values<T>();
    const auto dy = output_gradient.values<T>();
    const auto gamma = norm.scale.values<T>();
    const auto scale = gradients.scale.values<T>();
    const auto shift = gradients.shift.values<T>();
    std::fill(scale.begin(), scale.end(), T(0));
    std::fill(shift.begin(), shift.end(), T(0));
    for (uint64_t r = 0; r < mean.size(); ++r) {
      const T m = mean.values<T>()[r];
      const T inverse =
          1 / std::sqrt(variance.values<T>()[r] + static_cast<T>(norm.epsilon));
      for (uint64_t c = 0; c < columns; ++c) {
        const uint64_t at = r * columns + c;
        scale[c] += dy[at] * (x[at] - m) * inverse;
        shift[c] += dy[at];
      }
      if (gradients.input.data == nullptr) continue;
      InputGradient<T>(
          RowLine(columns, r), x, dy, m, inverse,
          [&](uint64_t c) { return gamma[c]; }, gradients.input.values<T>());
    }
  });
}

void ReferenceDevice::Softmax(bool causal, const ConstTensor& input,
                              const Tensor& output) {
  const uint64_t columns = input.dims.back();
  WithFloatType(output.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (uint64_t r = 0; r < input.size() / columns; ++r) {
      const T* x = input.values<T>().data() + r * columns;
      T* y = output.values<T>().data() + r * columns;
      const uint64_t kept = causal ? r % columns + 1 : columns;
      const T largest = *std::max_element(x, x + kept);
      T sum = 0;
      for (uint64_t c = 0; c < kept; ++c)
        sum += y[c] = std::exp(x[c] - largest);
      for (uint64_t c = 0; c < kept; ++c) y[c] /= sum;
      std::fill(y + kept, y + columns, T(0));
    }
  });
}

void ReferenceDevice::SoftmaxBackward(const ConstTensor& output,
                                      const ConstTensor& output_gradient,
                                      const Tensor& input_gradient) {
  const uint64_t columns = output.dims.back();
  WithFloatType(output.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (uint64_t r = 0; r < output.size() / columns; ++r) {
      const T* y = output.values<T>().data() + r * columns;
      const T* dy = output_gradient.values<T>().data() + r * columns;
      T* dx = input_gradient.values<T>().data() + r * columns;
      T sum = 0;
      for (uint64_t c = 0; c < columns; ++c) sum += y[c] * dy[c];
      for (uint64_t c = 0; c < columns; ++c) dx[c] = y[c] * (dy[c] - sum);
    }
  });
}

}  // namespace paramd
