#include <cmath>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "server/core/optimizers/rule.h"
#include "server/core/optimizers/schedule.h"

namespace paramd {
namespace {

struct AdamConstants {
  float beta1;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float rate;         // Learning rate / (1 - beta1^t).
  float correction2;  // 1 / (1 - beta2^t).
  float epsilon;
};

// Kingma and Ba, 2015, algorithm 1:
// m' = beta1 * m + (1 - beta1) * g
// v' = beta2 * v + (1 - beta2) * (g * g)
// w' = w - (rate * m') / (sqrt(v' * correction2) + epsilon)
template <bool kAdjusted>
PARAMD_INLINE void Adam(const AdamConstants& constants,
                        const Adjustment& adjustment, const std::byte* gradient,
                        size_t count, const RuleArrays& arrays) {
  const AdamConstants c = constants;
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
PARAMD_KERNEL(Adam, AdamConstants);

class AdamRule : public Rule {
 public:
  AdamRule(double beta1, double beta2, double epsilon)
      : beta1_(beta1), beta2_(beta2), epsilon_(epsilon) {}

  bool RestsOnZeros(bool slots_are_zeros) const override {
    return slots_are_zeros;
  }
  void Apply(const NumberReader& gradient, const Step& step,
             const Arrays& arrays) const override {
    AdamConstants c;
    c.beta1 = static_cast<float>(beta1_);
    c.one_minus_beta1 = static_cast<float>(1.0 - beta1_);
    c.beta2 = static_cast<float>(beta2_);
    c.one_minus_beta2 = static_cast<float>(1.0 - beta2_);
    c.rate =
        static_cast<float>(step.rate / (1.0 - PowerOf(beta1_, step.number)));
    c.correction2 =
        static_cast<float>(1.0 / (1.0 - PowerOf(beta2_, step.number)));
    c.epsilon = static_cast<float>(epsilon_);
    RunKernel(kAdam, c, 2, gradient, step, arrays);
  }

 private:
  const double beta1_;
  const double beta2_;
  const double epsilon_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Rule>> MakeAdam(
    absl::string_view name, const v1::OptimizerConfig::Adam& config) {
  const double beta1 = config.has_beta1() ? config.beta1() : 0.9;
  const double beta2 = config.has_beta2() ? config.beta2() : 0.999;
  const double epsilon = config.has_epsilon() ? config.epsilon() : 1e-7;
  RETURN_IF_ERROR(CheckShare(absl::StrCat(name, ".beta1"), beta1));
  RETURN_IF_ERROR(CheckShare(absl::StrCat(name, ".beta2"), beta2));
  RETURN_IF_ERROR(CheckPositive(absl::StrCat(name, ".epsilon"), epsilon));
  return std::make_unique<AdamRule>(beta1, beta2, epsilon);
}

}  // namespace paramd
