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

PARAMD_INLINE void Momentum(const MomentumStep& step, const std::byte* gradient,
                            size_t count, const OneSlotArrays& arrays) {
  const MomentumStep s = step;
  const OneSlotArrays a = arrays;
  if (s.nesterov) {
    PARAMD_INDEPENDENT
    for (size_t i = 0; i < count; ++i) {
      const float g = ElementAt<float>(gradient, i);
      const float v = s.momentum * a.slot[i] + g;
      a.new_slot[i] = v;
      a.new_values[i] = a.values[i] - s.rate * (g + s.momentum * v);
    }
  } else {
    PARAMD_INDEPENDENT
    for (size_t i = 0; i < count; ++i) {
      const float v = s.momentum * a.slot[i] + ElementAt<float>(gradient, i);
      a.new_slot[i] = v;
      a.new_values[i] = a.values[i] - s.rate * v;
    }
  }
}

PARAMD_INLINE void Adagrad(const AdagradStep& step, const std::byte* gradient,
                           size_t count, const OneSlotArrays& arrays) {
  const AdagradStep s = step;
  const OneSlotArrays a = arrays;
  PARAMD_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    const float g = ElementAt<float>(gradient, i);
    const float sum = a.slot[i] + g * g;
    a.new_slot[i] = sum;
    a.new_values[i] = a.values[i] - (s.rate * g) / (std::sqrt(sum) + s.epsilon);
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

// One set of kernels: the loops above, compiled for a kind of machine.
#define PARAMD_KERNELS(Set, ATTRIBUTES)                                        \
  struct Set {                                                                 \
    ATTRIBUTES static void RunSgd(float rate, const std::byte* gradient,       \
                                  size_t count, const float* values,           \
                                  float* new_values) {                         \
      Sgd(rate, gradient, count, values, new_values);                          \
    }                                                                          \
    ATTRIBUTES static void RunMomentum(const MomentumStep& step,               \
                                       const std::byte* gradient,              \
                                       size_t count,                           \
                                       const OneSlotArrays& arrays) {          \
      Momentum(step, gradient, count, arrays);                                 \
    }                                                                          \
    ATTRIBUTES static void RunAdagrad(const AdagradStep& step,                 \
                                      const std::byte* gradient, size_t count, \
                                      const OneSlotArrays& arrays) {           \
      Adagrad(step, gradient, count, arrays);                                  \
    }                                                                          \
    ATTRIBUTES static void RunAdam(const AdamStep& step,                       \
                                   const std::byte* gradient, size_t count,    \
                                   const AdamArrays& arrays) {                 \
      Adam(step, gradient, count, arrays);                                     \
    }                                                                          \
    ATTRIBUTES static void RunSgdCompensated(                                  \
        float rate, float lambda, const std::byte* gradient, size_t count,     \
        const float* values, const float* old_values, float* new_values) {     \
      SgdCompensated(rate, lambda, gradient, count, values, old_values,        \
                     new_values);                                              \
    }                                                                          \
    ATTRIBUTES static void RunAddSquares(const std::byte* gradient,            \
                                         size_t count, size_t first,           \
                                         double* sums) {                       \
      AddSquares(gradient, count, first, sums);                                \
    }                                                                          \
    ATTRIBUTES static bool RunAllFinite(const std::byte* gradient,             \
                                        size_t count) {                        \
      return AllFinite(gradient, count);                                       \
    }                                                                          \
    static constexpr OptimizerKernels kKernels = {&RunSgd,                     \
                                                  &RunMomentum,                \
                                                  &RunAdagrad,                 \
                                                  &RunAdam,                    \
                                                  &RunSgdCompensated,          \
                                                  &RunAddSquares,              \
                                                  &RunAllFinite};              \
  }

PARAMD_KERNELS(Portable, );
#if defined(__x86_64__)
PARAMD_KERNELS(Avx2, __attribute__((target("avx2"))));
// clang takes the width for granted and knows no word for it.
#if defined(__clang__)
#define PARAMD_AVX512 target("avx512f,avx512dq,avx512vl,avx512bw")
#else
#define PARAMD_AVX512 \
  target("avx512f,avx512dq,avx512vl,avx512bw,prefer-vector-width=512")
#endif
PARAMD_KERNELS(Avx512, __attribute__((PARAMD_AVX512)));
#endif

}  // namespace

const OptimizerKernels& PortableKernels() { return Portable::kKernels; }

const OptimizerKernels* Avx2Kernels() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return &Avx2::kKernels;
#endif
  return nullptr;
}

const OptimizerKernels* Avx512Kernels() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw")) {
    return &Avx512::kKernels;
  }
#endif
  return nullptr;
}

const OptimizerKernels& MachineKernels() {
  if (Avx512Kernels() != nullptr) return *Avx512Kernels();
  if (Avx2Kernels() != nullptr) return *Avx2Kernels();
  return PortableKernels();
}

}  // namespace paramd
