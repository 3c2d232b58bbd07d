#include "server/core/optimizer_kernels.h"

#include <cmath>
#include <cstdint>
#include <cstring>

// An output equals its input or is apart from it, so no iteration depends on
// another: said aloud, because the compilers' own check takes "equal" for an
// overlap and would run the scalar loop in just the common case.
#if defined(__clang__)
#define PARAMD_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define PARAMD_INDEPENDENT _Pragma("GCC ivdep")
#endif

#define PARAMD_INLINE inline __attribute__((always_inline))

namespace paramd {
namespace {

// Element `i` of received bytes, which lie at any address: one load.
template <typename T>
PARAMD_INLINE T ElementAt(const std::byte* bytes, size_t i) {
  static_assert(sizeof(T) == 4);
  T element;
  std::memcpy(&element, bytes + 4 * i, 4);
  return element;
}

PARAMD_INLINE void Sgd(float rate, const std::byte* gradient, size_t count,
                       const float* values, float* new_values) {
  PARAMD_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    new_values[i] = values[i] - rate * ElementAt<float>(gradient, i);
  }
}

PARAMD_INLINE void Adam(const AdamStep& step, const std::byte* gradient,
                        size_t count, const AdamArrays& arrays) {
  const AdamStep s = step;
  const AdamArrays a = arrays;
  PARAMD_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    const float g = ElementAt<float>(gradient, i);
    const float m = s.beta1 * a.momentum[i] + s.one_minus_beta1 * g;
    const float v = s.beta2 * a.variance[i] + s.one_minus_beta2 * (g * g);
    const float divisor = std::sqrt(v * s.correction2) + s.epsilon;
    a.new_momentum[i] = m;
    a.new_variance[i] = v;
    a.new_values[i] = a.values[i] - (s.rate * m) / divisor;
  }
}

PARAMD_INLINE void SgdCompensated(float rate, float lambda,
                                  const std::byte* gradient, size_t count,
                                  const float* values, const float* old_values,
                                  float* new_values) {
  PARAMD_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    const float g = ElementAt<float>(gradient, i);
    const float w = values[i];
    const float moved = g * (g * (w - old_values[i]));
    new_values[i] = w - rate * (g + lambda * moved);
  }
}

PARAMD_INLINE void AddSquares(const std::byte* gradient, size_t count,
                              size_t first, double* sums) {
  constexpr size_t kLanes = OptimizerKernels::kSumLanes;
  const auto square = [gradient](size_t i) {
    const double g = ElementAt<float>(gradient, i);
    return g * g;
  };
  size_t i = 0;
  for (; i < count && (first + i) % kLanes != 0; ++i) {
    sums[(first + i) % kLanes] += square(i);
  }
  double lanes[kLanes];
  std::memcpy(lanes, sums, sizeof(lanes));
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t l = 0; l < kLanes; ++l) lanes[l] += square(i + l);
  }
  std::memcpy(sums, lanes, sizeof(lanes));
  for (; i < count; ++i) sums[(first + i) % kLanes] += square(i);
}

PARAMD_INLINE bool AllFinite(const std::byte* gradient, size_t count) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t found = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = ElementAt<uint32_t>(gradient, i);
    found |= (bits & kExponent) == kExponent ? 1u : 0u;
  }
  return found == 0;
}

void PortableSgd(float rate, const std::byte* gradient, size_t count,
                 const float* values, float* new_values) {
  Sgd(rate, gradient, count, values, new_values);
}
void PortableAdam(const AdamStep& step, const std::byte* gradient, size_t count,
                  const AdamArrays& arrays) {
  Adam(step, gradient, count, arrays);
}
void PortableSgdCompensated(float rate, float lambda, const std::byte* gradient,
                            size_t count, const float* values,
                            const float* old_values, float* new_values) {
  SgdCompensated(rate, lambda, gradient, count, values, old_values, new_values);
}
void PortableAddSquares(const std::byte* gradient, size_t count, size_t first,
                        double* sums) {
  AddSquares(gradient, count, first, sums);
}
bool PortableAllFinite(const std::byte* gradient, size_t count) {
  return AllFinite(gradient, count);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void Avx2Sgd(float rate,
                                             const std::byte* gradient,
                                             size_t count, const float* values,
                                             float* new_values) {
  Sgd(rate, gradient, count, values, new_values);
}
__attribute__((target("avx2"))) void Avx2Adam(const AdamStep& step,
                                              const std::byte* gradient,
                                              size_t count,
                                              const AdamArrays& arrays) {
  Adam(step, gradient, count, arrays);
}
__attribute__((target("avx2"))) void Avx2SgdCompensated(
    float rate, float lambda, const std::byte* gradient, size_t count,
    const float* values, const float* old_values, float* new_values) {
  SgdCompensated(rate, lambda, gradient, count, values, old_values, new_values);
}
__attribute__((target("avx2"))) void Avx2AddSquares(const std::byte* gradient,
                                                    size_t count, size_t first,
                                                    double* sums) {
  AddSquares(gradient, count, first, sums);
}
__attribute__((target("avx2"))) bool Avx2AllFinite(const std::byte* gradient,
                                                   size_t count) {
  return AllFinite(gradient, count);
}
#endif

}  // namespace

const OptimizerKernels& PortableKernels() {
  static constexpr OptimizerKernels kKernels = {
      &PortableSgd, &PortableAdam, &PortableSgdCompensated, &PortableAddSquares,
      &PortableAllFinite};
  return kKernels;
}

const OptimizerKernels* Avx2Kernels() {
#if defined(__x86_64__)
  static constexpr OptimizerKernels kKernels = {
      &Avx2Sgd, &Avx2Adam, &Avx2SgdCompensated, &Avx2AddSquares,
      &Avx2AllFinite};
  if (__builtin_cpu_supports("avx2")) return &kKernels;
#endif
  return nullptr;
}

const OptimizerKernels& MachineKernels() {
  const OptimizerKernels* const avx2 = Avx2Kernels();
  return avx2 != nullptr ? *avx2 : PortableKernels();
}

}  // namespace paramd
