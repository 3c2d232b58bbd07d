#include "compute/quantized/int16_program.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "compute/quantized/affine.h"

namespace paramd {
namespace {

constexpr uint64_t kTile = 16;         // Outputs that are computed together.
constexpr uint64_t kRows = 8;          // Rows that are.
constexpr uint64_t kBlockPairs = 256;  // Whose sum fits 32 bits.

#if defined(__x86_64__)

#define PARAMD_INT16_AVX2 __attribute__((target("avx2")))
#define PARAMD_INT16_AVX512 \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))

// Two neighbours of a row.
inline int32_t PairAt(const int16_t* row, uint64_t pair) {
  int32_t both;
  std::memcpy(&both, row + 2 * pair, sizeof(both));
  return both;
}

PARAMD_INT16_AVX2 inline void AddTo(double* sums, __m256i block) {
  const __m256d low = _mm256_cvtepi32_pd(_mm256_castsi256_si128(block));
  const __m256d high = _mm256_cvtepi32_pd(_mm256_extracti128_si256(block, 1));
  _mm256_storeu_pd(sums, _mm256_add_pd(_mm256_loadu_pd(sums), low));
  _mm256_storeu_pd(sums + 4, _mm256_add_pd(_mm256_loadu_pd(sums + 4), high));
}

// Adds the products of some rows with a tile's weights to `sums`, [rows,
// kTile].
template <size_t... kRow>
PARAMD_INT16_AVX2 void SumAvx2(std::index_sequence<kRow...>,
                               const int16_t* const* rows,
                               const int8_t* weights, uint64_t pairs,
                               double* sums) {
  for (uint64_t begin = 0; begin < pairs; begin += kBlockPairs) {
    const uint64_t end = std::min(pairs, begin + kBlockPairs);
    __m256i low[] = {(static_cast<void>(kRow), _mm256_setzero_si256())...};
    __m256i high[] = {(static_cast<void>(kRow), _mm256_setzero_si256())...};
    for (uint64_t pair = begin; pair < end; ++pair) {
      const auto* const at =
          reinterpret_cast<const __m128i*>(weights + 2 * kTile * pair);
      const __m256i first = _mm256_cvtepi8_epi16(_mm_loadu_si128(at));
      const __m256i second = _mm256_cvtepi8_epi16(_mm_loadu_si128(at + 1));
      __m256i row;
      ((row = _mm256_set1_epi32(PairAt(rows[kRow], pair)),
        low[kRow] = _mm256_add_epi32(low[kRow], _mm256_madd_epi16(first, row)),
        high[kRow] =
            _mm256_add_epi32(high[kRow], _mm256_madd_epi16(second, row))),
       ...);
    }
    ((AddTo(sums + kRow * kTile, low[kRow]),
      AddTo(sums + kRow * kTile + 8, high[kRow])),
     ...);
  }
}

template <size_t... kRow>
PARAMD_INT16_AVX512 void SumAvx512(std::index_sequence<kRow...>,
                                   const int16_t* const* rows,
                                   const int8_t* weights, uint64_t pairs,
                                   double* sums) {
  for (uint64_t begin = 0; begin < pairs; begin += kBlockPairs) {
    const uint64_t end = std::min(pairs, begin + kBlockPairs);
    __m512i blocks[] = {(static_cast<void>(kRow), _mm512_setzero_si512())...};
    for (uint64_t pair = begin; pair < end; ++pair) {
      const __m512i tile = _mm512_cvtepi8_epi16(_mm256_loadu_si256(
          reinterpret_cast<const __m256i*>(weights + 2 * kTile * pair)));
      ((blocks[kRow] = _mm512_dpwssd_epi32(
            blocks[kRow], tile, _mm512_set1_epi32(PairAt(rows[kRow], pair)))),
       ...);
    }
    ((AddTo(sums + kRow * kTile, _mm512_castsi512_si256(blocks[kRow])),
      AddTo(sums + kRow * kTile + 8,
            _mm512_extracti64x4_epi64(blocks[kRow], 1))),
     ...);
  }
}

// Of up to kRows rows. Registers hold the sums of eight, or without AVX-512 of
// four; what is computed of a row that is there twice is not looked at. Of one
// row AVX-512 would wait for one sum, where AVX2 has two under way.
void Sum(Int16Program::Instructions instructions, uint64_t count,
         const int16_t* const* rows, const int8_t* weights, uint64_t pairs,
         double* sums) {
  using One = std::make_index_sequence<1>;
  using Four = std::make_index_sequence<4>;
  using All = std::make_index_sequence<kRows>;
  if (count == 1) return SumAvx2(One(), rows, weights, pairs, sums);
  if (instructions == Int16Program::Instructions::kAvx512Vnni) {
    if (count > 4) return SumAvx512(All(), rows, weights, pairs, sums);
    return SumAvx512(Four(), rows, weights, pairs, sums);
  }
  SumAvx2(Four(), rows, weights, pairs, sums);
  if (count <= 4) return;
  SumAvx2(Four(), rows + 4, weights, pairs, sums + 4 * kTile);
}

// Of eight outputs, ScaledSum.
PARAMD_INT16_AVX2 inline __m256 Scaled(const double* sums, const float* bias,
                                       const float* scale, bool relu) {
  const __m256 sum = _mm256_set_m128(_mm256_cvtpd_ps(_mm256_loadu_pd(sums + 4)),
                                     _mm256_cvtpd_ps(_mm256_loadu_pd(sums)));
  const __m256 scaled = _mm256_mul_ps(_mm256_add_ps(sum, _mm256_loadu_ps(bias)),
                                      _mm256_loadu_ps(scale));
  // In this order NaN is 0.
  return relu ? _mm256_max_ps(scaled, _mm256_setzero_ps()) : scaled;
}

// Of a tile.
PARAMD_INT16_AVX2 void WriteFloats(const double* sums, const float* bias,
                                   const float* scale, bool relu, float* out) {
  _mm256_storeu_ps(out, Scaled(sums, bias, scale, relu));
  _mm256_storeu_ps(out + 8, Scaled(sums + 8, bias + 8, scale + 8, relu));
}

PARAMD_INT16_AVX2 void WriteIntegers(const double* sums, const float* bias,
                                     const float* scale, bool relu,
                                     int16_t* out) {
  const __m256 least = _mm256_set1_ps(-kMostInt16);
  const __m256 most = _mm256_set1_ps(kMostInt16);
  __m256 first = Scaled(sums, bias, scale, relu);
  __m256 second = Scaled(sums + 8, bias + 8, scale + 8, relu);
  first = _mm256_min_ps(_mm256_max_ps(first, least), most);
  second = _mm256_min_ps(_mm256_max_ps(second, least), most);
  // Packing works in halves of a register: the order is mended behind it.
  const __m256i packed = _mm256_permute4x64_epi64(
      _mm256_packs_epi32(_mm256_cvtps_epi32(first), _mm256_cvtps_epi32(second)),
      0xd8);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), packed);
}

#else

void Sum(Int16Program::Instructions, uint64_t, const int16_t* const*,
         const int8_t*, uint64_t, double*) {}
void WriteFloats(const double*, const float*, const float*, bool, float*) {}
void WriteIntegers(const double*, const float*, const float*, bool, int16_t*) {}

#endif

}  // namespace

std::vector<Int16Program::Instructions> Int16Program::Available() {
  std::vector<Instructions> available;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) available.push_back(Instructions::kAvx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vnni")) {
    available.push_back(Instructions::kAvx512Vnni);
  }
#endif
  return available;
}

Int16Program::Int16Program(const IntegerProduct& product,
                           Instructions instructions)
    : product_(product),
      instructions_(instructions),
      pairs_((product.inputs + 1) / 2),
      tiles_((group_outputs() + kTile - 1) / kTile) {
  CHECK(product.result != IntegerProduct::Result::kSums,
        "sums of products of 16 bits are computed plainly");
  Pack();
}

uint64_t Int16Program::groups() const {
  return product_.convolution.has_value() ? product_.convolution->groups : 1;
}

void Int16Program::Pack() {
  const uint64_t tiles = groups() * tiles_;
  weights_.assign(tiles * pairs_ * kTile * 2, 0);
  bias_.assign(tiles * kTile, 0);
  scale_.assign(tiles * kTile, 0);
  for (uint64_t c = 0; c < product_.outputs; ++c) {
    const uint64_t in_group = c % group_outputs();
    const uint64_t tile = c / group_outputs() * tiles_ + in_group / kTile;
    const uint64_t place = in_group % kTile;
    bias_[tile * kTile + place] = product_.bias[c];
    scale_[tile * kTile + place] = product_.scale[c];
    for (uint64_t k = 0; k < product_.inputs; ++k) {
      weights_[((tile * pairs_ + k / 2) * kTile + place) * 2 + k % 2] =
          product_.weights[k * product_.outputs + c];
    }
  }
  copied_.assign(kRows * pairs_ * 2, 0);
}

void Int16Program::CopyWindow(uint64_t row, uint64_t group,
                              const int16_t* input, int16_t* to) const {
  const Convolution& shape = *product_.convolution;
  const Window& w = shape.window;
  const uint64_t in = shape.group_inputs();
  const uint64_t out_x = row % w.out_width;
  const uint64_t out_y = row / w.out_width % w.out_height;
  const uint64_t image = row / w.out_width / w.out_height;
  for (uint64_t ky = 0; ky < w.kernel_height; ++ky) {
    const uint64_t y = out_y * w.stride_height + ky - w.top;
    for (uint64_t kx = 0; kx < w.kernel_width; ++kx, to += in) {
      const uint64_t x = out_x * w.stride_width + kx - w.left;
      // Above the image y is beyond it, too: it is unsigned.
      if (y < w.height && x < w.width) {
        const uint64_t pixel = (image * w.height + y) * w.width + x;
        std::copy_n(input + pixel * w.channels + group * in, in, to);
      } else {
        std::fill_n(to, in, 0);
      }
    }
  }
}

void Int16Program::FindRows(uint64_t row, uint64_t count, uint64_t group,
                            const int16_t* input, const int16_t** rows) {
  for (uint64_t i = 0; i < kRows; ++i) {
    if (i >= count) {
      rows[i] = rows[0];
      continue;
    }
    int16_t* const copied = copied_.data() + i * pairs_ * 2;
    const int16_t* const given = input + (row + i) * product_.inputs;
    if (product_.convolution.has_value()) {
      CopyWindow(row + i, group, input, copied);
    } else if (product_.inputs % 2 == 0) {
      rows[i] = given;
      continue;
    } else {
      std::copy_n(given, product_.inputs, copied);
    }
    rows[i] = copied;
  }
}

void Int16Program::Write(const double* sums, uint64_t row, uint64_t group,
                         uint64_t tile, void* output) const {
  const uint64_t first = group * group_outputs() + tile * kTile;
  const uint64_t count = std::min(kTile, group_outputs() - tile * kTile);
  const uint64_t at = row * product_.outputs + first;
  const uint64_t packed = (group * tiles_ + tile) * kTile;
  const float* const bias = bias_.data() + packed;
  const float* const scale = scale_.data() + packed;
  if (product_.result == IntegerProduct::Result::kFloat) {
    float values[kTile];
    WriteFloats(sums, bias, scale, product_.relu, values);
    std::copy_n(values, count, static_cast<float*>(output) + at);
  } else {
    int16_t values[kTile];
    WriteIntegers(sums, bias, scale, product_.relu, values);
    std::copy_n(values, count, static_cast<int16_t*>(output) + at);
  }
}

void Int16Program::Run(uint64_t examples, const int16_t* input, void* output) {
  uint64_t all = examples;
  if (product_.convolution.has_value()) {
    const Window& w = product_.convolution->window;
    all *= w.out_height * w.out_width;
  }
  for (uint64_t row = 0; row < all; row += kRows) {
    const uint64_t count = std::min(kRows, all - row);
    for (uint64_t group = 0; group < groups(); ++group) {
      const int16_t* rows[kRows];
      FindRows(row, count, group, input, rows);
      for (uint64_t tile = 0; tile < tiles_; ++tile) {
        double sums[kRows * kTile] = {};
        Sum(instructions_, count, rows,
            weights_.data() + (group * tiles_ + tile) * pairs_ * kTile * 2,
            pairs_, sums);
        for (uint64_t i = 0; i < count; ++i) {
          Write(sums + i * kTile, row + i, group, tile, output);
        }
      }
    }
  }
}

}  // namespace paramd
