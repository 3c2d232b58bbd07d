#ifndef PARAMD_SERVER_CORE_OPTIMIZERS_KERNEL_H_
#define PARAMD_SERVER_CORE_OPTIMIZERS_KERNEL_H_

#include <cstddef>
#include <cstring>

#include "server/core/optimizers/instruction_set.h"

// An output equals its input or is apart from it, so no iteration depends on
// another. Said aloud, because the compilers' own check takes "equal" for an
// overlap and would run the scalar loop in just the common case.
#if defined(__clang__)
#define PARAMD_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define PARAMD_INDEPENDENT _Pragma("GCC ivdep")
#endif

#define PARAMD_INLINE inline __attribute__((always_inline))

#if defined(__x86_64__)
#define PARAMD_AVX2 __attribute__((target("avx2")))
// clang takes the width for granted and knows no word for it.
#if defined(__clang__)
#define PARAMD_AVX512 \
  __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw")))
#else
#define PARAMD_AVX512    \
  __attribute__((target( \
      "avx512f,avx512dq,avx512vl,avx512bw,prefer-vector-width=512")))
#endif
#else
#define PARAMD_AVX2
#define PARAMD_AVX512
#endif

namespace paramd {

// Element `i` of received bytes, which lie at any address: one load.
template <typename T>
PARAMD_INLINE T ElementAt(const std::byte* bytes, size_t i) {
  static_assert(sizeof(T) == 4);
  T element;
  std::memcpy(&element, bytes + 4 * i, 4);
  return element;
}

// What becomes of a gradient and a weight before a rule sees them:
//   g' = scale * min(max(g, -limit), limit) + l2 * w
//   w' = keep * w
struct Adjustment {
  float limit;
  float scale;
  float l2;
  float keep;
};

template <bool kAdjusted>
PARAMD_INLINE float GradientAt(const std::byte* gradient, size_t i, float w,
                               const Adjustment& adjustment) {
  float g = ElementAt<float>(gradient, i);
  if constexpr (kAdjusted) {
    g = g < -adjustment.limit ? -adjustment.limit : g;
    g = g > adjustment.limit ? adjustment.limit : g;
    g = adjustment.scale * g + adjustment.l2 * w;
  }
  return g;
}

template <bool kAdjusted>
PARAMD_INLINE float Kept(float w, const Adjustment& adjustment) {
  if constexpr (kAdjusted) return adjustment.keep * w;
  return w;
}

// Where a loop reads and writes. An output may be the input of the same name,
// and overlaps with nothing else.
struct RuleArrays {
  static constexpr size_t kMostSlots = 3;
  const float* values;
  float* new_values;
  const float* slots[kMostSlots];
  float* new_slots[kMostSlots];
};

// A loop over `count` elements, for each kind of machine, with an adjustment and
// without. `gradient` is 4 * count bytes of little-endian floats at any address.
//
// All agree bit for bit: they are compiled from the same plain IEEE float
// operations, in the same order for each element, none fused (the whole tree is
// compiled with -ffp-contract=off), with no function of libm but sqrt, which
// IEEE defines.
template <typename Constants>
struct Kernel {
  using Function = void (*)(const Constants& constants,
                            const Adjustment& adjustment,
                            const std::byte* gradient, size_t count,
                            const RuleArrays& arrays);
  Function functions[3][2];  // By machine, then: adjusted.

  Function For(InstructionSet set, bool adjusted) const {
    return functions[static_cast<int>(set)][adjusted ? 1 : 0];
  }
};

// PARAMD_KERNEL(Sgd, SgdConstants) defines kSgd, a Kernel<SgdConstants>, of
//   template <bool kAdjusted>
//   PARAMD_INLINE void Sgd(const SgdConstants&, const Adjustment&,
//                          const std::byte*, size_t, const RuleArrays&);
#define PARAMD_KERNEL_FOR(Loop, Constants, Set, ATTRIBUTES)                  \
  template <bool kAdjusted>                                                  \
  ATTRIBUTES void Loop##Set(                                                 \
      const Constants& constants, const Adjustment& adjustment,              \
      const std::byte* gradient, size_t count, const RuleArrays& arrays) {   \
    Loop<kAdjusted>(constants, adjustment, gradient, count, arrays);         \
  }
#define PARAMD_KERNEL(Loop, Constants)                                       \
  PARAMD_KERNEL_FOR(Loop, Constants, Portable, )                             \
  PARAMD_KERNEL_FOR(Loop, Constants, Avx2, PARAMD_AVX2)                      \
  PARAMD_KERNEL_FOR(Loop, Constants, Avx512, PARAMD_AVX512)                  \
  constexpr Kernel<Constants> k##Loop = {                                    \
      {{&Loop##Portable<false>, &Loop##Portable<true>},                      \
       {&Loop##Avx2<false>, &Loop##Avx2<true>},                              \
       {&Loop##Avx512<false>, &Loop##Avx512<true>}}}

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_OPTIMIZERS_KERNEL_H_
