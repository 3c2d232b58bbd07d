#include "compute/quantized/affine.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <limits>

namespace paramd {
namespace {

constexpr float kLevels = 255;
// Of scales: as their inverses must be floats, too.
constexpr double kLeastScale = 2 * std::numeric_limits<float>::min();
constexpr double kMostScale = std::numeric_limits<float>::max() / 2;

// What is added and cut off before rounding, the same for all of a call.
struct Rounding {
  explicit Rounding(const Affine& affine)
      : factor(1 / affine.scale),
        zero_point(affine.zero_point),
        low(-static_cast<float>(affine.zero_point)),
        high(kLevels - static_cast<float>(affine.zero_point)) {}
  // Of integers of 16 bits.
  explicit Rounding(float scale)
      : factor(1 / scale), zero_point(0), low(-kMostInt16), high(kMostInt16) {}

  const float factor;
  const int zero_point;
  const float low;
  const float high;
};

template <class T>
T Quantized(const Rounding& rounding, float value) {
  float scaled = value * rounding.factor;
  // In this order NaN is `low`, as below.
  scaled = scaled > rounding.low ? scaled : rounding.low;
  scaled = scaled < rounding.high ? scaled : rounding.high;
  return static_cast<T>(std::lrintf(scaled) + rounding.zero_point);
}

#if defined(__x86_64__)
bool HasAvx2() { return __builtin_cpu_supports("avx2"); }

// A loop of single values took longer than the product that it is for.
__attribute__((target("avx2"))) size_t QuantizeMany(
    const Rounding& rounding, absl::Span<const float> values, uint8_t* out) {
  const __m256 factor = _mm256_set1_ps(rounding.factor);
  const __m256 low = _mm256_set1_ps(rounding.low);
  const __m256 high = _mm256_set1_ps(rounding.high);
  const __m256i zero_point = _mm256_set1_epi32(rounding.zero_point);
  const auto load = [&](const float* from) __attribute__((target("avx2"))) {
    __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(from), factor);
    scaled = _mm256_min_ps(_mm256_max_ps(scaled, low), high);
    return _mm256_add_epi32(_mm256_cvtps_epi32(scaled), zero_point);
  };
  // Packing works in halves of a register: the order is mended behind it.
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  size_t i = 0;
  for (; i + 32 <= values.size(); i += 32) {
    const float* const from = values.data() + i;
    const __m256i first = _mm256_packs_epi32(load(from), load(from + 8));
    const __m256i second = _mm256_packs_epi32(load(from + 16), load(from + 24));
    const __m256i bytes =
        _mm256_permutevar8x32_epi32(_mm256_packus_epi16(first, second), order);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), bytes);
  }
  return i;
}

__attribute__((target("avx2"))) size_t QuantizeMany(
    const Rounding& rounding, absl::Span<const float> values, int16_t* out) {
  const __m256 factor = _mm256_set1_ps(rounding.factor);
  const __m256 low = _mm256_set1_ps(rounding.low);
  const __m256 high = _mm256_set1_ps(rounding.high);
  const auto load = [&](const float* from) __attribute__((target("avx2"))) {
    const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(from), factor);
    return _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(scaled, low), high));
  };
  size_t i = 0;
  for (; i + 16 <= values.size(); i += 16) {
    const float* const from = values.data() + i;
    // Packing works in halves of a register, as above.
    const __m256i packed = _mm256_permute4x64_epi64(
        _mm256_packs_epi32(load(from), load(from + 8)), 0xd8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), packed);
  }
  return i;
}

__attribute__((target("avx2"))) size_t FakeQuantizeMany(
    const Rounding& rounding, float scale, absl::Span<const float> values,
    float* out) {
  const __m256 factor = _mm256_set1_ps(rounding.factor);
  const __m256 low = _mm256_set1_ps(rounding.low);
  const __m256 high = _mm256_set1_ps(rounding.high);
  const __m256 zero = _mm256_setzero_ps();
  const __m256 scales = _mm256_set1_ps(scale);
  size_t i = 0;
  for (; i + 8 <= values.size(); i += 8) {
    const __m256 value = _mm256_loadu_ps(values.data() + i);
    __m256 scaled = _mm256_mul_ps(value, factor);
    scaled = _mm256_min_ps(_mm256_max_ps(scaled, low), high);
    scaled = _mm256_round_ps(scaled, _MM_FROUND_CUR_DIRECTION);
    scaled = _mm256_add_ps(scaled, _mm256_mul_ps(value, zero));
    _mm256_storeu_ps(out + i, _mm256_mul_ps(scaled, scales));
  }
  return i;
}

__attribute__((target("avx2"))) size_t PassMany(const Rounding& rounding,
                                                absl::Span<const float> values,
                                                float* gradients) {
  const __m256 factor = _mm256_set1_ps(rounding.factor);
  const __m256 low = _mm256_set1_ps(rounding.low);
  const __m256 high = _mm256_set1_ps(rounding.high);
  size_t i = 0;
  for (; i + 8 <= values.size(); i += 8) {
    const __m256 scaled =
        _mm256_mul_ps(_mm256_loadu_ps(values.data() + i), factor);
    const __m256 inside =
        _mm256_and_ps(_mm256_cmp_ps(scaled, low, _CMP_GE_OQ),
                      _mm256_cmp_ps(scaled, high, _CMP_LE_OQ));
    _mm256_storeu_ps(gradients + i,
                     _mm256_and_ps(inside, _mm256_loadu_ps(gradients + i)));
  }
  return i;
}

__attribute__((target("avx2"))) size_t RangeOfMany(
    absl::Span<const float> values, FloatRange* range) {
  if (values.size() < 8) return 0;
  __m256 min = _mm256_set1_ps(range->min);
  __m256 max = _mm256_set1_ps(range->max);
  size_t i = 0;
  for (; i + 8 <= values.size(); i += 8) {
    const __m256 value = _mm256_loadu_ps(values.data() + i);
    // In this order NaN changes nothing.
    min = _mm256_min_ps(value, min);
    max = _mm256_max_ps(value, max);
  }
  float lanes[8];
  _mm256_storeu_ps(lanes, min);
  range->min = *std::min_element(lanes, lanes + 8);
  _mm256_storeu_ps(lanes, max);
  range->max = *std::max_element(lanes, lanes + 8);
  return i;
}

// Of one row, the first channels.
__attribute__((target("avx2"))) size_t RoundRow(const float* weights,
                                                absl::Span<const float> scales,
                                                double most, float* out) {
  const __m256d high = _mm256_set1_pd(most);
  const __m256d low = _mm256_set1_pd(-most);
  size_t c = 0;
  for (; c + 4 <= scales.size(); c += 4) {
    const __m128 scale = _mm_loadu_ps(scales.data() + c);
    __m256d levels = _mm256_div_pd(_mm256_cvtps_pd(_mm_loadu_ps(weights + c)),
                                   _mm256_cvtps_pd(scale));
    levels = _mm256_round_pd(levels, _MM_FROUND_CUR_DIRECTION);
    levels = _mm256_min_pd(high, _mm256_max_pd(low, levels));
    _mm_storeu_ps(out + c, _mm_mul_ps(_mm256_cvtpd_ps(levels), scale));
  }
  return c;
}
#endif

// Of each output channel, or one of all.
void FindWeightScales(absl::Span<const float> weights, int most,
                      absl::Span<float> scales) {
  std::fill(scales.begin(), scales.end(), 0.0f);
  for (size_t row = 0; row < weights.size(); row += scales.size()) {
    for (size_t c = 0; c < scales.size(); ++c) {
      scales[c] = std::max(scales[c], std::fabs(weights[row + c]));
    }
  }
  for (float& scale : scales) {
    scale /= static_cast<float>(most);
    // A channel of zeros.
    if (scale < std::numeric_limits<float>::min()) scale = 1;
  }
}

}  // namespace

FloatRange RangeOf(absl::Span<const float> values) {
  if (values.empty()) return {};
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  FloatRange range = {kInfinity, -kInfinity};
#if defined(__x86_64__)
  if (HasAvx2()) values.remove_prefix(RangeOfMany(values, &range));
#endif
  for (const float value : values) {
    range.min = value < range.min ? value : range.min;
    range.max = value > range.max ? value : range.max;
  }
  return range.min > range.max ? FloatRange() : range;
}

Affine AffineOf(FloatRange range) {
  const float min = std::min(range.min, 0.0f);
  const float max = std::max(range.max, 0.0f);
  // In double: the difference of two floats may be above the largest.
  const double scale = (static_cast<double>(max) - min) / kLevels;
  Affine affine;
  // Also of NaN.
  if (!(scale >= kLeastScale)) return affine;
  affine.scale = static_cast<float>(std::min(scale, kMostScale));
  affine.zero_point = static_cast<uint8_t>(
      std::clamp<double>(std::nearbyint(-min / scale), 0, kLevels));
  return affine;
}

void QuantizeValues(const Affine& affine, absl::Span<const float> values,
                    uint8_t* out) {
#if defined(__x86_64__)
  if (HasAvx2()) {
    const size_t done = QuantizeMany(Rounding(affine), values, out);
    values.remove_prefix(done);
    out += done;
  }
#endif
  QuantizeValuesPlainly(affine, values, out);
}

void QuantizeValuesPlainly(const Affine& affine, absl::Span<const float> values,
                           uint8_t* out) {
  const Rounding rounding(affine);
  for (const float value : values) *out++ = Quantized<uint8_t>(rounding, value);
}

float Int16ScaleOf(FloatRange range) {
  const double most = std::max(std::fabs(static_cast<double>(range.min)),
                               std::fabs(static_cast<double>(range.max)));
  const double scale = most / kMostInt16;
  if (!(scale >= kLeastScale)) return 1;
  return static_cast<float>(std::min(scale, kMostScale));
}

void QuantizeValues(float scale, absl::Span<const float> values, int16_t* out) {
#if defined(__x86_64__)
  if (HasAvx2()) {
    const size_t done = QuantizeMany(Rounding(scale), values, out);
    values.remove_prefix(done);
    out += done;
  }
#endif
  QuantizeValuesPlainly(scale, values, out);
}

void QuantizeValuesPlainly(float scale, absl::Span<const float> values,
                           int16_t* out) {
  const Rounding rounding(scale);
  for (const float value : values) *out++ = Quantized<int16_t>(rounding, value);
}

QuantizedWeights QuantizeWeights(absl::Span<const float> weights,
                                 uint64_t channels, bool per_channel,
                                 int most) {
  QuantizedWeights quantized;
  quantized.scales.resize(per_channel ? channels : 1);
  FindWeightScales(weights, most, absl::MakeSpan(quantized.scales));
  quantized.values.reserve(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    const float scale = quantized.scales[i % quantized.scales.size()];
    const long rounded = std::lrint(static_cast<double>(weights[i]) /
                                    static_cast<double>(scale));
    quantized.values.push_back(
        static_cast<int8_t>(std::clamp<long>(rounded, -most, most)));
  }
  return quantized;
}

void FakeQuantizeValues(const Affine& affine, absl::Span<const float> values,
                        float* out) {
  const Rounding rounding(affine);
#if defined(__x86_64__)
  if (HasAvx2()) {
    const size_t done = FakeQuantizeMany(rounding, affine.scale, values, out);
    values.remove_prefix(done);
    out += done;
  }
#endif
  for (const float value : values) {
    float scaled = value * rounding.factor;
    scaled = scaled > rounding.low ? scaled : rounding.low;
    scaled = scaled < rounding.high ? scaled : rounding.high;
    // NaN of what is not finite.
    *out++ = (std::nearbyint(scaled) + value * 0) * affine.scale;
  }
}

void PassStraightThrough(const Affine& affine, absl::Span<const float> values,
                         absl::Span<float> gradients) {
  const Rounding rounding(affine);
  size_t i = 0;
#if defined(__x86_64__)
  if (HasAvx2()) i = PassMany(rounding, values, gradients.data());
#endif
  for (; i < values.size(); ++i) {
    const float scaled = values[i] * rounding.factor;
    const bool inside = scaled >= rounding.low && scaled <= rounding.high;
    if (!inside) gradients[i] = 0;
  }
}

void FakeQuantizeWeights(absl::Span<const float> weights, int most,
                         absl::Span<float> scales, float* out) {
  FindWeightScales(weights, most, scales);
  for (size_t row = 0; row < weights.size(); row += scales.size()) {
    size_t c = 0;
#if defined(__x86_64__)
    if (HasAvx2()) c = RoundRow(&weights[row], scales, most, out + row);
#endif
    for (; c < scales.size(); ++c) {
      const double level =
          std::nearbyint(static_cast<double>(weights[row + c]) /
                         static_cast<double>(scales[c]));
      out[row + c] =
          static_cast<float>(std::clamp<double>(level, -most, most)) *
          scales[c];
    }
  }
}

}  // namespace paramd
