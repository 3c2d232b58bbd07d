#include <cmath>

#include "base/status_macros.h"
#include "server/core/optimizers/rule.h"

namespace paramd {
namespace {

struct RmspropConstants {
  float rate;
  float decay;
  float one_minus_decay;
  float epsilon;
  float momentum;
};

// Tieleman and Hinton, 2012; centered as Graves, 2013, section 4.2:
// s' = decay * s + (1 - decay) * (g * g)
// m' = decay * m + (1 - decay) * g             only centered; else m' is 0
// d  = g / (sqrt(s' - m' * m') + epsilon)
// b' = momentum * b + d                        only with momentum; else b' is d
// w' = w - rate * b'
// Slots, in order, as far as there are: s, m, b.
template <bool kAdjusted, bool kCentered, bool kMomentum>
PARAMD_INLINE void Loop(const RmspropConstants& constants,
                        const Adjustment& adjustment, const std::byte* gradient,
                        size_t count, const RuleArrays& arrays) {
  constexpr size_t kB = kCentered ? 2 : 1;
  const RmspropConstants c = constants;
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

#define PARAMD_RMSPROP(Name, kCentered, kMomentum)                            \
  template <bool kAdjusted>                                                   \
  PARAMD_INLINE void Name(const RmspropConstants& constants,                  \
                          const Adjustment& adjustment,                       \
                          const std::byte* gradient, size_t count,            \
                          const RuleArrays& arrays) {                         \
    Loop<kAdjusted, kCentered, kMomentum>(constants, adjustment, gradient,    \
                                          count, arrays);                     \
  }                                                                           \
  PARAMD_KERNEL(Name, RmspropConstants)

PARAMD_RMSPROP(Plain, false, false);
PARAMD_RMSPROP(Moving, false, true);
PARAMD_RMSPROP(Centered, true, false);
PARAMD_RMSPROP(CenteredMoving, true, true);

class RmspropRule : public Rule {
 public:
  RmspropRule(double decay, double epsilon, double momentum, bool centered)
      : decay_(decay),
        epsilon_(epsilon),
        momentum_(momentum),
        centered_(centered) {}

  bool RestsOnZeros(bool slots_are_zeros) const override {
    return slots_are_zeros;
  }
  void Apply(const NumberReader& gradient, const Step& step,
             const Arrays& arrays) const override {
    const RmspropConstants c = {
        static_cast<float>(step.rate), static_cast<float>(decay_),
        static_cast<float>(1.0 - decay_), static_cast<float>(epsilon_),
        static_cast<float>(momentum_)};
    const bool moving = momentum_ > 0;
    RunKernel(centered_ ? (moving ? kCenteredMoving : kCentered)
                        : (moving ? kMoving : kPlain),
              c, size_t{1} + centered_ + moving, gradient, step, arrays);
  }

 private:
  const double decay_;
  const double epsilon_;
  const double momentum_;
  const bool centered_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Rule>> MakeRmsprop(
    const v1::OptimizerConfig::Rmsprop& config) {
  const double decay = config.has_decay() ? config.decay() : 0.99;
  const double epsilon = config.has_epsilon() ? config.epsilon() : 1e-8;
  RETURN_IF_ERROR(CheckShare("rmsprop.decay", decay));
  RETURN_IF_ERROR(CheckPositive("rmsprop.epsilon", epsilon));
  RETURN_IF_ERROR(CheckShare("rmsprop.momentum", config.momentum()));
  return std::make_unique<RmspropRule>(decay, epsilon, config.momentum(),
                                       config.centered());
}

}  // namespace paramd
