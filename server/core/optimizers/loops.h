#ifndef PARAMD_SERVER_CORE_OPTIMIZERS_LOOPS_H_
#define PARAMD_SERVER_CORE_OPTIMIZERS_LOOPS_H_

// What each rule does with an element: its loops. Each has
//   kId, kSlots       which one it is, and how many slots it has
//   Constants         floats that are the same for all elements
//   Run<kAdjusted>    (constants, adjustment, gradient, count, arrays)
#include <cmath>
#include <cstdint>

#include "server/core/optimizers/loop.h"

namespace paramd {

// w' = w - rate * g.
struct SgdLoop {
  static constexpr LoopId kId = LoopId::kSgd;
  static constexpr size_t kSlots = 0;
  struct Constants {
    float rate;
  };

  template <bool kAdjusted>
  PARAMD_INLINE static void Run(const Constants& constants,
                                const Adjustment& adjustment,
                                const std::byte* gradient, size_t count,
                                const RuleArrays& arrays) {
    const float rate = constants.rate;
    const Adjustment a = adjustment;
    const float* const values = arrays.values;
    float* const new_values = arrays.new_values;
    PARAMD_INDEPENDENT
    for (size_t i = 0; i < count; ++i) {
      const float w = values[i];
      const float g = GradientAt<kAdjusted>(gradient, i, w, a);
      new_values[i] = Kept<kAdjusted>(w, a) - rate * g;
    }
  }
};

// v' = momentum * v + g
// w' = w - rate * v'
struct MomentumLoop {
  static constexpr LoopId kId = LoopId::kMomentum;
  static constexpr size_t kSlots = 1;
  struct Constants {
    float rate;
    float momentum;
  };

  template <bool kAdjusted>
  PARAMD_INLINE static void Run(const Constants& constants,
                                const Adjustment& adjustment,
                                const std::byte* gradient, size_t count,
                                const RuleArrays& arrays) {
    const Constants c = constants;
    const Adjustment a = adjustment;
    const RuleArrays r = arrays;
    PARAMD_INDEPENDENT
    for (size_t i = 0; i < count; ++i) {
      const float w = r.values[i];
      const float v =
          c.momentum * r.slots[0][i] + GradientAt<kAdjusted>(gradient, i, w, a);
      r.new_slots[0][i] = v;
      r.new_values[i] = Kept<kAdjusted>(w, a) - c.rate * v;
    }
  }
};

// v' = momentum * v + g
// w' = w - rate * (g + momentum * v'): Nesterov's, as Sutskever et al., 2013.
struct NesterovLoop {
  static constexpr LoopId kId = LoopId::kNesterov;
  static constexpr size_t kSlots = 1;
  using Constants = MomentumLoop::Constants;

  template <bool kAdjusted>
  PARAMD_INLINE static void Run(const Constants& constants,
                                const Adjustment& adjustment,
                                const std::byte* gradient, size_t count,
                                const RuleArrays& arrays) {
    const Constants c = constants;
    const Adjustment a = adjustment;
    const RuleArrays r = arrays;
    PARAMD_INDEPENDENT
    for (size_t i = 0; i < count; ++i) {
      const float w = r.values[i];
      const float g = GradientAt<kAdjusted>(gradient, i, w, a);
      const float v = c.momentum * r.slots[0][i] + g;
      r.new_slots[0][i] = v;
      r.new_values[i] = Kept<kAdjusted>(w, a) - c.rate * (g + c.momentum * v);
    }
  }
};

// Kingma and Ba, 2015, algorithm 1:
// m' = beta1 * m + (1 - beta1) * g
// v' = beta2 * v + (1 - beta2) * (g * g)
// w' = w - (rate * m') / (sqrt(v' * correction2) + epsilon)
struct AdamLoop {
  static constexpr LoopId kId = LoopId::kAdam;
  static constexpr size_t kSlots = 2;
  struct Constants {
    float beta1;
    float one_minus_beta1;
    float beta2;
    float one_minus_beta2;
    float rate;         // Learning rate / (1 - beta1^t).
    float correction2;  // 1 / (1 - beta2^t).
    float epsilon;
  };

  template <bool kAdjusted>
  PARAMD_INLINE static void Run(const Constants& constants,
                                const Adjustment& adjustment,
                                const std::byte* gradient, size_t count,
                                const RuleArrays& arrays) {
    const Constants c = constants;
    const Adjustment a = adjustment;
    const RuleArrays r = arrays;
    PARAMD_INDEPENDENT
    for (size_t i = 0; i < count; ++i) {
      const float w = r.values[i];
      const float g = GradientAt<kAdjusted>(gradient, i, w, a);
      const float m = c.beta1 * r.slots[0][i] + c.one_minus_beta1 * g;
      const float v = c.beta2 * r.slots[1][i] + c.one_minus_beta2 * (g * g);
      const float divisor = std::sqrt(v * c.correction2) + c.epsilon;
      r.new_slots[0][i] = m;
      r.new_slots[1][i] = v;
      r.new_values[i] = Kept<kAdjusted>(w, a) - (c.rate * m) / divisor;
    }
  }
};

// Duchi et al., 2011:
// a' = a + g * g
// w' = w - (rate * g) / (sqrt(a') + epsilon)
struct AdagradLoop {
  static constexpr LoopId kId = LoopId::kAdagrad;
  static constexpr size_t kSlots = 1;
  struct Constants {
    float rate;
    float epsilon;
  };

  template <bool kAdjusted>
  PARAMD_INLINE static void Run(const Constants& constants,
                                const Adjustment& adjustment,
                                const std::byte* gradient, size_t count,
                                const RuleArrays& arrays) {
    const Constants c = constants;
    const Adjustment a = adjustment;
    const RuleArrays r = arrays;
    PARAMD_INDEPENDENT
    for (size_t i = 0; i < count; ++i) {
      const float w = r.values[i];
      const float g = GradientAt<kAdjusted>(gradient, i, w, a);
      const float sum = r.slots[0][i] + g * g;
      r.new_slots[0][i] = sum;
      r.new_values[i] =
          Kept<kAdjusted>(w, a) - (c.rate * g) / (std::sqrt(sum) + c.epsilon);
    }
  }
};

// Tieleman and Hinton, 2012; centered as Graves, 2013, section 4.2:
// s' = decay * s + (1 - decay) * (g * g)
// m' = decay * m + (1 - decay) * g             only centered; else m' is 0
// d  = g / (sqrt(s' - m' * m') + epsilon)
// b' = momentum * b + d                        only with momentum; else b' is d
// w' = w - rate * b'
// Slots, in order, as far as there are: s, m, b.
struct RmspropConstants {
  float rate;
  float decay;
  float one_minus_decay;
  float epsilon;
  float momentum;
};
template <LoopId kWhich, bool kCentered, bool kMomentum>
struct RmspropLoop {
  static constexpr LoopId kId = kWhich;
  static constexpr size_t kSlots =
      1 + (kCentered ? 1 : 0) + (kMomentum ? 1 : 0);
  using Constants = RmspropConstants;

  template <bool kAdjusted>
  PARAMD_INLINE static void Run(const Constants& constants,
                                const Adjustment& adjustment,
                                const std::byte* gradient, size_t count,
                                const RuleArrays& arrays) {
    constexpr size_t kB = kCentered ? 2 : 1;
    const Constants c = constants;
    const Adjustment a = adjustment;
    const RuleArrays r = arrays;
    PARAMD_INDEPENDENT
    for (size_t i = 0; i < count; ++i) {
      const float w = r.values[i];
      const float g = GradientAt<kAdjusted>(gradient, i, w, a);
      const float s = c.decay * r.slots[0][i] + c.one_minus_decay * (g * g);
      r.new_slots[0][i] = s;
      float spread = s;
      if constexpr (kCentered) {
        const float m = c.decay * r.slots[1][i] + c.one_minus_decay * g;
        r.new_slots[1][i] = m;
        spread = s - m * m;
        // Rounding may take it below what no spread has.
        spread = spread > 0.0f ? spread : 0.0f;
      }
      float b = g / (std::sqrt(spread) + c.epsilon);
      if constexpr (kMomentum) {
        b = c.momentum * r.slots[kB][i] + b;
        r.new_slots[kB][i] = b;
      }
      r.new_values[i] = Kept<kAdjusted>(w, a) - c.rate * b;
    }
  }
};
using PlainRmspropLoop = RmspropLoop<LoopId::kRmsprop, false, false>;
using MovingRmspropLoop = RmspropLoop<LoopId::kRmspropMomentum, false, true>;
using CenteredRmspropLoop = RmspropLoop<LoopId::kRmspropCentered, true, false>;
using CenteredMovingRmspropLoop =
    RmspropLoop<LoopId::kRmspropCenteredMomentum, true, true>;

// FTRL-proximal (McMahan et al., 2013, algorithm 1), with the sum of squares
// that is begun with:
// n' = n + g * g
// z' = z + g - (sqrt(n') - sqrt(n)) / rate * w
// w' = 0 where |z'| <= l1, else
//      -(z' - sign(z') * l1) / ((beta + sqrt(n')) / rate + l2)
struct FtrlLoop {
  static constexpr LoopId kId = LoopId::kFtrl;
  static constexpr size_t kSlots = 2;
  struct Constants {
    float one_over_rate;
    float l1;
    float l2;
    float beta;
  };

  template <bool kAdjusted>
  PARAMD_INLINE static void Run(const Constants& constants,
                                const Adjustment& adjustment,
                                const std::byte* gradient, size_t count,
                                const RuleArrays& arrays) {
    const Constants c = constants;
    const Adjustment a = adjustment;
    const RuleArrays r = arrays;
    PARAMD_INDEPENDENT
    for (size_t i = 0; i < count; ++i) {
      const float g = GradientAt<kAdjusted>(gradient, i, r.values[i], a);
      const float w = Kept<kAdjusted>(r.values[i], a);
      const float n = r.slots[0][i];
      const float sum = n + g * g;
      const float root = std::sqrt(sum);
      const float z =
          r.slots[1][i] + g - (root - std::sqrt(n)) * c.one_over_rate * w;
      r.new_slots[0][i] = sum;
      r.new_slots[1][i] = z;
      const float beyond = z > 0.0f ? z - c.l1 : z + c.l1;
      const float next = -beyond / ((c.beta + root) * c.one_over_rate + c.l2);
      const float size = z > 0.0f ? z : -z;
      r.new_values[i] = size > c.l1 ? next : 0.0f;
    }
  }
};

// Zeiler, 2012:
// s' = rho * s + (1 - rho) * (g * g)
// d  = sqrt(u + epsilon) / sqrt(s' + epsilon) * g
// u' = rho * u + (1 - rho) * (d * d)
// w' = w - rate * d
struct AdadeltaLoop {
  static constexpr LoopId kId = LoopId::kAdadelta;
  static constexpr size_t kSlots = 2;
  struct Constants {
    float rate;
    float rho;
    float one_minus_rho;
    float epsilon;
  };

  template <bool kAdjusted>
  PARAMD_INLINE static void Run(const Constants& constants,
                                const Adjustment& adjustment,
                                const std::byte* gradient, size_t count,
                                const RuleArrays& arrays) {
    const Constants c = constants;
    const Adjustment a = adjustment;
    const RuleArrays r = arrays;
    PARAMD_INDEPENDENT
    for (size_t i = 0; i < count; ++i) {
      const float w = r.values[i];
      const float g = GradientAt<kAdjusted>(gradient, i, w, a);
      const float s = c.rho * r.slots[0][i] + c.one_minus_rho * (g * g);
      const float u = r.slots[1][i];
      const float d = std::sqrt(u + c.epsilon) / std::sqrt(s + c.epsilon) * g;
      r.new_slots[0][i] = s;
      r.new_slots[1][i] = c.rho * u + c.one_minus_rho * (d * d);
      r.new_values[i] = Kept<kAdjusted>(w, a) - c.rate * d;
    }
  }
};

// What LAMB does for each element before it knows the norms, as Adam:
// m' = beta1 * m + (1 - beta1) * g
// v' = beta2 * v + (1 - beta2) * (g * g)
// It writes no values.
struct LambLoop {
  static constexpr LoopId kId = LoopId::kLamb;
  static constexpr size_t kSlots = 2;
  struct Constants {
    float beta1;
    float one_minus_beta1;
    float beta2;
    float one_minus_beta2;
  };

  template <bool kAdjusted>
  PARAMD_INLINE static void Run(const Constants& constants,
                                const Adjustment& adjustment,
                                const std::byte* gradient, size_t count,
                                const RuleArrays& arrays) {
    const Constants c = constants;
    const Adjustment a = adjustment;
    const RuleArrays r = arrays;
    PARAMD_INDEPENDENT
    for (size_t i = 0; i < count; ++i) {
      const float g = GradientAt<kAdjusted>(gradient, i, r.values[i], a);
      r.new_slots[0][i] = c.beta1 * r.slots[0][i] + c.one_minus_beta1 * g;
      r.new_slots[1][i] = c.beta2 * r.slots[1][i] + c.one_minus_beta2 * (g * g);
    }
  }
};

// ---- what a thread of a device does

// The loop over element `i` alone.
template <typename Loop, bool kAdjusted>
PARAMD_INLINE void RunElement(const typename Loop::Constants& constants,
                              const Adjustment& adjustment,
                              const std::byte* gradient, size_t i,
                              const RuleArrays& arrays) {
  RuleArrays at = arrays;
  at.values += i;
  at.new_values += i;
  for (size_t s = 0; s < RuleArrays::kMostSlots; ++s) {
    if (s + 1 > Loop::kSlots) continue;
    at.slots[s] += i;
    at.new_slots[s] += i;
  }
  Loop::template Run<kAdjusted>(constants, adjustment,
                                gradient + i * sizeof(float), 1, at);
}

PARAMD_INLINE bool IsFiniteAt(const std::byte* gradient, size_t i) {
  constexpr uint32_t kExponent = 0x7f800000;
  return (ElementAt<uint32_t>(gradient, i) & kExponent) != kExponent;
}

// What place `lane` of `lanes` has of the sum of squares, `sum` so far, behind
// these elements, of which the first is element `first` of a block: see
// OptimizerKernels.
PARAMD_INLINE double AddSquaresOf(size_t lane, size_t lanes,
                                  const std::byte* gradient, size_t count,
                                  size_t first, double sum) {
  const auto add = [&sum](double g) { sum += g * g; };
  size_t i = (lane + lanes - first % lanes) % lanes;
  // Many are read before the first is added: a GPU waits for memory.
  constexpr size_t kAhead = 32;
  for (; i + (kAhead - 1) * lanes < count; i += kAhead * lanes) {
    float ahead[kAhead];
    for (size_t a = 0; a < kAhead; ++a) {
      ahead[a] = ElementAt<float>(gradient, i + a * lanes);
    }
    for (const float g : ahead) add(g);
  }
  for (; i < count; i += lanes) add(ElementAt<float>(gradient, i));
  return sum;
}

// ---- by their ids

// Calls `use` with the loop that has this id: use(AdamLoop()).
template <typename Use>
void WithLoop(LoopId id, const Use& use) {
  switch (id) {
    case LoopId::kSgd:
      return use(SgdLoop());
    case LoopId::kMomentum:
      return use(MomentumLoop());
    case LoopId::kNesterov:
      return use(NesterovLoop());
    case LoopId::kAdam:
      return use(AdamLoop());
    case LoopId::kAdagrad:
      return use(AdagradLoop());
    case LoopId::kRmsprop:
      return use(PlainRmspropLoop());
    case LoopId::kRmspropMomentum:
      return use(MovingRmspropLoop());
    case LoopId::kRmspropCentered:
      return use(CenteredRmspropLoop());
    case LoopId::kRmspropCenteredMomentum:
      return use(CenteredMovingRmspropLoop());
    case LoopId::kFtrl:
      return use(FtrlLoop());
    case LoopId::kAdadelta:
      return use(AdadeltaLoop());
    case LoopId::kLamb:
      return use(LambLoop());
  }
}

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_OPTIMIZERS_LOOPS_H_
