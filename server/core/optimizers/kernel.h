#ifndef PARAMD_SERVER_CORE_OPTIMIZERS_KERNEL_H_
#define PARAMD_SERVER_CORE_OPTIMIZERS_KERNEL_H_

#include <cstddef>

#include "server/core/optimizers/instruction_set.h"
#include "server/core/optimizers/loop.h"

#if defined(__x86_64__)
#define PARAMD_AVX2 __attribute__((target("avx2")))
// clang takes the width for granted and knows no word for it.
#if defined(__clang__)
#define PARAMD_AVX512 \
  __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw")))
#else
#define PARAMD_AVX512 \
  __attribute__((     \
      target("avx512f,avx512dq,avx512vl,avx512bw,prefer-vector-width=512")))
#endif
#else
#define PARAMD_AVX2
#define PARAMD_AVX512
#endif

namespace paramd {

// A loop of loops.h over `count` elements, for each kind of processor, with an
// adjustment and without. `gradient` is 4 * count bytes of little-endian floats
// at any address.
//
// All agree bit for bit: they are compiled from the same plain IEEE float
// operations, in the same order for each element, none fused (the whole tree is
// compiled with -ffp-contract=off), with no function of libm but sqrt, which
// IEEE defines.
template <typename Loop>
struct Kernel {
  using Function = void (*)(const typename Loop::Constants& constants,
                            const Adjustment& adjustment,
                            const std::byte* gradient, size_t count,
                            const RuleArrays& arrays);
  Function functions[3][2];  // By machine, then: adjusted.

  Function For(InstructionSet set, bool adjusted) const {
    return functions[static_cast<int>(set)][adjusted ? 1 : 0];
  }
};

#define PARAMD_LOOP_FOR(Set, ATTRIBUTES)                                       \
  template <typename Loop, bool kAdjusted>                                     \
  ATTRIBUTES void RunLoop##Set(                                                \
      const typename Loop::Constants& constants, const Adjustment& adjustment, \
      const std::byte* gradient, size_t count, const RuleArrays& arrays) {     \
    Loop::template Run<kAdjusted>(constants, adjustment, gradient, count,      \
                                  arrays);                                     \
  }
PARAMD_LOOP_FOR(Portable, )
PARAMD_LOOP_FOR(Avx2, PARAMD_AVX2)
PARAMD_LOOP_FOR(Avx512, PARAMD_AVX512)
#undef PARAMD_LOOP_FOR

template <typename Loop>
constexpr Kernel<Loop> kKernelOf = {
    {{&RunLoopPortable<Loop, false>, &RunLoopPortable<Loop, true>},
     {&RunLoopAvx2<Loop, false>, &RunLoopAvx2<Loop, true>},
     {&RunLoopAvx512<Loop, false>, &RunLoopAvx512<Loop, true>}}};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_OPTIMIZERS_KERNEL_H_
