#ifndef PARAMD_SERVER_CORE_OPTIMIZERS_LOOP_H_
#define PARAMD_SERVER_CORE_OPTIMIZERS_LOOP_H_

// What the loops of optimizers are made of. The same text is compiled for each
// kind of processor (kernel.h) and, by nvcc, for a GPU, where each thread calls
// a loop over one element.
#include <cstddef>
#include <cstring>

// An output equals its input or is apart from it, so no iteration depends on
// another. Said aloud, because the compilers' own check takes "equal" for an
// overlap and would run the scalar loop in just the common case.
#if defined(__CUDACC__)
#define PARAMD_INDEPENDENT
#elif defined(__clang__)
#define PARAMD_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define PARAMD_INDEPENDENT _Pragma("GCC ivdep")
#endif

#if defined(__CUDACC__)
#define PARAMD_INLINE __host__ __device__ __forceinline__
#else
#define PARAMD_INLINE inline __attribute__((always_inline))
#endif

namespace paramd {

// Element `i` of received bytes, which lie at any address, but on a GPU at that
// of a number: one load.
template <typename T>
PARAMD_INLINE T ElementAt(const std::byte* bytes, size_t i) {
  static_assert(sizeof(T) == 4);
#if defined(__CUDA_ARCH__)
  return reinterpret_cast<const T*>(bytes)[i];
#else
  T element;
  std::memcpy(&element, bytes + 4 * i, 4);
  return element;
#endif
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

// All loops of loops.h.
enum class LoopId {
  kSgd,
  kMomentum,
  kNesterov,
  kAdam,
  kAdagrad,
  kRmsprop,
  kRmspropMomentum,
  kRmspropCentered,
  kRmspropCenteredMomentum,
  kFtrl,
  kAdadelta,
  kLamb,
};
inline constexpr LoopId kLastLoop = LoopId::kLamb;

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_OPTIMIZERS_LOOP_H_
