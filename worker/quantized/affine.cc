#include "worker/quantized/affine.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <limits>

namespace paramd {
namespace {

constexpr float kLevels = 255;

// What is added and cut off before rounding, the same for all of a call.
struct Rounding {
  explicit Rounding(const Affine& affine)
      : factor(1 / affine.scale),
        zero_point(affine.zero_point),
        low(-static_cast<float>(affine.zero_point)),
        high(kLevels - static_cast<float>(affine.zero_point)) {}

  const float factor;
  const int zero_point;
  const float low;
  const float high;
};

uint8_t Quantized(const Rounding& rounding, float value) {
  float scaled = value * rounding.factor;
  // In this order NaN is `low`, as below.
  scaled = scaled > rounding.low ? scaled : rounding.low;
  scaled = scaled < rounding.high ? scaled : rounding.high;
  return static_cast<uint8_t>(std::lrintf(scaled) + rounding.zero_point);
}

#if defined(__x86_64__)
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
#endif

}  // namespace

Affine AffineOf(FloatRange range) {
  const float min = std::min(range.min, 0.0f);
  const float max = std::max(range.max, 0.0f);
  // In double: the difference of two floats may be above the largest.
  const double scale = (static_cast<double>(max) - min) / kLevels;
  Affine affine;
  // As its inverse must be a float too.
  // Also of NaN.
  if (!(scale >= 2 * std::numeric_limits<float>::min())) return affine;
  affine.scale = static_cast<float>(
      std::min<double>(scale, std::numeric_limits<float>::max() / 2));
  affine.zero_point = static_cast<uint8_t>(
      std::clamp<double>(std::nearbyint(-min / scale), 0, kLevels));
  return affine;
}

void QuantizeValues(const Affine& affine, absl::Span<const float> values,
                    uint8_t* out) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
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
  for (const float value : values) *out++ = Quantized(rounding, value);
}

QuantizedWeights QuantizeWeights(absl::Span<const float> weights,
                                 uint64_t channels, bool per_channel,
                                 int most) {
  QuantizedWeights quantized;
  quantized.scales.assign(per_channel ? channels : 1, 0);
  const auto scale_of = [&](size_t i) -> float& {
    return quantized.scales[per_channel ? i % channels : 0];
  };
  for (size_t i = 0; i < weights.size(); ++i) {
    scale_of(i) = std::max(scale_of(i), std::fabs(weights[i]));
  }
  for (float& scale : quantized.scales) {
    scale /= static_cast<float>(most);
    // A channel of zeros.
    if (scale < std::numeric_limits<float>::min()) scale = 1;
  }
  quantized.values.reserve(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    const long rounded = std::lrint(static_cast<double>(weights[i]) /
                                    static_cast<double>(scale_of(i)));
    quantized.values.push_back(
        static_cast<int8_t>(std::clamp<long>(rounded, -most, most)));
  }
  return quantized;
}

}  // namespace paramd
