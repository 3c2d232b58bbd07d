#include "server/core/optimizers/rule.h"

namespace paramd {
namespace {

struct SgdConstants {
  float rate;
};

// w' = w - rate * g.
template <bool kAdjusted>
PARAMD_INLINE void Sgd(const SgdConstants& constants,
                       const Adjustment& adjustment, const std::byte* gradient,
                       size_t count, const RuleArrays& arrays) {
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
PARAMD_KERNEL(Sgd, SgdConstants);

class SgdRule : public Rule {
 public:
  bool RestsOnZeros(bool) const override { return true; }
  void Apply(const NumberReader& gradient, const Step& step,
             const Arrays& arrays) const override {
    RunKernel(kSgd, {static_cast<float>(step.rate)}, 0, gradient, step, arrays);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Rule>> MakeSgd() {
  return std::make_unique<SgdRule>();
}

}  // namespace paramd
