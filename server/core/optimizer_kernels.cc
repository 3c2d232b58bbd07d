#include "server/core/optimizer_kernels.h"

#include <cstdint>
#include <cstring>

#include "server/core/optimizers/kernel.h"

namespace paramd {
namespace {

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

// One set: the loops above, compiled for a kind of machine.
#define PARAMD_KERNELS(Set, ATTRIBUTES)                              \
  struct Set {                                                       \
    ATTRIBUTES static void RunAddSquares(const std::byte* gradient,  \
                                         size_t count, size_t first, \
                                         double* sums) {             \
      AddSquares(gradient, count, first, sums);                      \
    }                                                                \
    ATTRIBUTES static bool RunAllFinite(const std::byte* gradient,   \
                                        size_t count) {              \
      return AllFinite(gradient, count);                             \
    }                                                                \
    static constexpr OptimizerKernels kKernels = {                   \
        InstructionSet::k##Set, &RunAddSquares, &RunAllFinite};      \
  }

PARAMD_KERNELS(Portable, );
#if defined(__x86_64__)
PARAMD_KERNELS(Avx2, PARAMD_AVX2);
PARAMD_KERNELS(Avx512, PARAMD_AVX512);
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
