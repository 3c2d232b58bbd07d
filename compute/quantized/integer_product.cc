#include "compute/quantized/integer_product.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <limits>

#include "compute/quantized/affine.h"

namespace paramd {
namespace {

// What is multiplied: its ends, and what its sums are exact in.
template <class T>
struct Width;
template <>
struct Width<uint8_t> {
  using Sum = int32_t;
  static constexpr float kLow = 0;
  static constexpr float kHigh = 255;
};
template <>
struct Width<int16_t> {
  using Sum = int64_t;
  static constexpr float kLow = -kMostInt16;
  static constexpr float kHigh = kMostInt16;
};

template <class T>
using Sums = std::vector<typename Width<T>::Sum>;

// Writes the results of one row, or of one place of an image, from its sums.
template <class T>
void Finish(const IntegerProduct& product, const Sums<T>& sums, uint64_t row,
            void* output) {
  const uint64_t first = row * product.outputs;
  for (uint64_t c = 0; c < product.outputs; ++c) {
    if (product.result == IntegerProduct::Result::kSums) {
      static_cast<typename Width<T>::Sum*>(output)[first + c] = sums[c];
      continue;
    }
    const float scaled = ScaledSum(product, c, sums[c]);
    if (product.result == IntegerProduct::Result::kFloat) {
      static_cast<float*>(output)[first + c] = scaled;
      continue;
    }
    // In this order NaN is the lowest one.
    const float cut =
        std::min(std::max(Width<T>::kLow, scaled), Width<T>::kHigh);
    static_cast<T*>(output)[first + c] = static_cast<T>(std::lrintf(cut));
  }
}

template <class Sum>
void AddRow(Sum factor, const int8_t* weights, uint64_t count, Sum* sums) {
  for (uint64_t i = 0; i < count; ++i) sums[i] += factor * weights[i];
}

template <class T>
void MultiplyRows(const IntegerProduct& product, uint64_t rows, const T* input,
                  void* output) {
  Sums<T> sums(product.outputs);
  for (uint64_t row = 0; row < rows; ++row) {
    std::fill(sums.begin(), sums.end(), 0);
    for (uint64_t k = 0; k < product.inputs; ++k) {
      AddRow<typename Width<T>::Sum>(
          input[row * product.inputs + k],
          product.weights.data() + k * product.outputs, product.outputs,
          sums.data());
    }
    Finish<T>(product, sums, row, output);
  }
}

// The sums of one place of the output: (image, y, x).
struct Place {
  uint64_t image;
  uint64_t y;
  uint64_t x;
};

template <class T>
void SumWindow(const IntegerProduct& product, const Place& place,
               const T* input, Sums<T>* sums) {
  const Convolution& shape = *product.convolution;
  const Window& w = shape.window;
  const uint64_t in = shape.group_inputs();
  const uint64_t out = shape.group_outputs();
  std::fill(sums->begin(), sums->end(), 0);
  for (uint64_t ky = 0; ky < w.kernel_height; ++ky) {
    const uint64_t y = place.y * w.stride_height + ky - w.top;
    for (uint64_t kx = 0; kx < w.kernel_width; ++kx) {
      const uint64_t x = place.x * w.stride_width + kx - w.left;
      // Above the image y is beyond it, too: it is unsigned.
      const bool inside = y < w.height && x < w.width;
      const T* const pixel =
          inside ? input +
                       ((place.image * w.height + y) * w.width + x) * w.channels
                 : nullptr;
      const int8_t* weights = product.weights.data() +
                              (ky * w.kernel_width + kx) * in * product.outputs;
      for (uint64_t i = 0; i < in; ++i, weights += product.outputs) {
        for (uint64_t group = 0; group < shape.groups; ++group) {
          AddRow<typename Width<T>::Sum>(
              inside ? pixel[group * in + i] : T{product.zero_point},
              weights + group * out, out, sums->data() + group * out);
        }
      }
    }
  }
}

template <class T>
void Larger(const T* values, uint64_t count, T* largest) {
  uint64_t i = 0;
#if defined(__SSE2__)
  constexpr uint64_t kLanes = 16 / sizeof(T);
  for (; i + kLanes <= count; i += kLanes) {
    auto* const to = reinterpret_cast<__m128i*>(largest + i);
    const __m128i a = _mm_loadu_si128(to);
    const __m128i b =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(values + i));
    _mm_storeu_si128(to,
                     sizeof(T) == 1 ? _mm_max_epu8(a, b) : _mm_max_epi16(a, b));
  }
#endif
  for (; i < count; ++i) largest[i] = std::max(largest[i], values[i]);
}

template <class T>
void MaxPool(const Window& w, const T* input, T* output) {
  for (uint64_t image = 0; image < w.batch; ++image) {
    for (uint64_t y = 0; y < w.out_height; ++y) {
      for (uint64_t x = 0; x < w.out_width; ++x, output += w.channels) {
        std::fill_n(output, w.channels, std::numeric_limits<T>::min());
        for (uint64_t ky = 0; ky < w.kernel_height; ++ky) {
          const uint64_t row = y * w.stride_height + ky - w.top;
          if (row >= w.height) continue;
          for (uint64_t kx = 0; kx < w.kernel_width; ++kx) {
            const uint64_t column = x * w.stride_width + kx - w.left;
            if (column >= w.width) continue;
            Larger(input + ((image * w.height + row) * w.width + column) *
                               w.channels,
                   w.channels, output);
          }
        }
      }
    }
  }
}

template <class T>
void MultiplyAll(const IntegerProduct& product, uint64_t examples,
                 const T* input, void* output) {
  if (!product.convolution.has_value()) {
    return MultiplyRows(product, examples, input, output);
  }
  const Window& w = product.convolution->window;
  Sums<T> sums(product.outputs);
  uint64_t row = 0;
  for (uint64_t image = 0; image < examples; ++image) {
    for (uint64_t y = 0; y < w.out_height; ++y) {
      for (uint64_t x = 0; x < w.out_width; ++x) {
        SumWindow(product, {image, y, x}, input, &sums);
        Finish<T>(product, sums, row++, output);
      }
    }
  }
}

}  // namespace

void SetScales(float input_scale, uint8_t zero_point,
               const std::vector<float>& weight_scales,
               const std::vector<float>& bias, float output_scale,
               IntegerProduct* product) {
  const std::vector<int32_t> sums = WeightSums(*product);
  product->zero_point = zero_point;
  product->bias.resize(product->outputs);
  product->scale.resize(product->outputs);
  for (uint64_t c = 0; c < product->outputs; ++c) {
    const double unit = static_cast<double>(input_scale) *
                        weight_scales[weight_scales.size() == 1 ? 0 : c];
    const double shift = bias.empty() ? 0 : bias[c] / unit;
    product->bias[c] =
        static_cast<float>(shift - static_cast<double>(zero_point) * sums[c]);
    product->scale[c] = static_cast<float>(unit / output_scale);
  }
}

std::vector<int32_t> WeightSums(const IntegerProduct& product) {
  std::vector<int32_t> sums(product.outputs);
  for (size_t i = 0; i < product.weights.size(); ++i) {
    sums[i % product.outputs] += product.weights[i];
  }
  return sums;
}

float ScaledSum(const IntegerProduct& product, uint64_t output, int64_t sum) {
  const float scaled =
      (static_cast<float>(sum) + product.bias[output]) * product.scale[output];
  return product.relu && !(scaled > 0) ? 0.0f : scaled;
}

void MultiplyPlainly(const IntegerProduct& product, uint64_t examples,
                     const uint8_t* input, void* output) {
  MultiplyAll(product, examples, input, output);
}

void MultiplyPlainly(const IntegerProduct& product, uint64_t examples,
                     const int16_t* input, void* output) {
  MultiplyAll(product, examples, input, output);
}

void MaxPoolIntegers(const Window& window, const uint8_t* input,
                     uint8_t* output) {
  MaxPool(window, input, output);
}

void MaxPoolIntegers(const Window& window, const int16_t* input,
                     int16_t* output) {
  MaxPool(window, input, output);
}

}  // namespace paramd
