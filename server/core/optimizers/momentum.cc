#include "base/status_macros.h"
#include "server/core/optimizers/rule.h"

namespace paramd {
namespace {

struct MomentumConstants {
  float rate;
  float momentum;
};

// v' = momentum * v + g
// w' = w - rate * v'
template <bool kAdjusted>
PARAMD_INLINE void Momentum(const MomentumConstants& constants,
                            const Adjustment& adjustment,
                            const std::byte* gradient, size_t count,
                            const RuleArrays& arrays) {
  const MomentumConstants c = constants;
  const Adjustment a = adjustment;
  const RuleArrays r = arrays;
  PARAMD_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    const float w = r.values[i];
    const float v = c.momentum * r.slots[0][i] +
                    GradientAt<kAdjusted>(gradient, i, w, a);
    r.new_slots[0][i] = v;
    r.new_values[i] = Kept<kAdjusted>(w, a) - c.rate * v;
  }
}
PARAMD_KERNEL(Momentum, MomentumConstants);

// v' = momentum * v + g
// w' = w - rate * (g + momentum * v'): Nesterov's, as Sutskever et al., 2013.
template <bool kAdjusted>
PARAMD_INLINE void Nesterov(const MomentumConstants& constants,
                            const Adjustment& adjustment,
                            const std::byte* gradient, size_t count,
                            const RuleArrays& arrays) {
  const MomentumConstants c = constants;
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
PARAMD_KERNEL(Nesterov, MomentumConstants);

class MomentumRule : public Rule {
 public:
  explicit MomentumRule(const v1::OptimizerConfig::Sgd& config)
      : momentum_(static_cast<float>(config.momentum())),
        nesterov_(config.nesterov()) {}

  bool RestsOnZeros(bool slots_are_zeros) const override {
    return slots_are_zeros;
  }
  void Apply(const NumberReader& gradient, const Step& step,
             const Arrays& arrays) const override {
    RunKernel(nesterov_ ? kNesterov : kMomentum,
              {static_cast<float>(step.rate), momentum_}, 1, gradient, step,
              arrays);
  }

 private:
  const float momentum_;
  const bool nesterov_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Rule>> MakeMomentum(
    const v1::OptimizerConfig::Sgd& config) {
  RETURN_IF_ERROR(CheckShare("sgd.momentum", config.momentum()));
  return std::make_unique<MomentumRule>(config);
}

}  // namespace paramd
