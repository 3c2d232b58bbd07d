#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "server/core/optimizers/loops.h"
#include "server/core/optimizers/rule.h"
#include "server/core/optimizers/schedule.h"

namespace paramd {
namespace {

class AdamRule : public Rule {
 public:
  AdamRule(double beta1, double beta2, double epsilon)
      : beta1_(beta1), beta2_(beta2), epsilon_(epsilon) {}

  bool RestsOnZeros(bool slots_are_zeros) const override {
    return slots_are_zeros;
  }
  void Apply(const NumberReader& gradient, const Step& step,
             const Arrays& arrays) const override {
    AdamLoop::Constants c;
    c.beta1 = static_cast<float>(beta1_);
    c.one_minus_beta1 = static_cast<float>(1.0 - beta1_);
    c.beta2 = static_cast<float>(beta2_);
    c.one_minus_beta2 = static_cast<float>(1.0 - beta2_);
    c.rate =
        static_cast<float>(step.rate / (1.0 - PowerOf(beta1_, step.number)));
    c.correction2 =
        static_cast<float>(1.0 / (1.0 - PowerOf(beta2_, step.number)));
    c.epsilon = static_cast<float>(epsilon_);
    RunKernel<AdamLoop>(c, gradient, step, arrays);
  }

 private:
  const double beta1_;
  const double beta2_;
  const double epsilon_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Rule>> MakeAdam(
    absl::string_view name, const v1::OptimizerConfig::Adam& config) {
  RETURN_IF_ERROR(CheckShare(absl::StrCat(name, ".beta1"), config.beta1()));
  RETURN_IF_ERROR(CheckShare(absl::StrCat(name, ".beta2"), config.beta2()));
  RETURN_IF_ERROR(
      CheckPositive(absl::StrCat(name, ".epsilon"), config.epsilon()));
  return std::make_unique<AdamRule>(config.beta1(), config.beta2(),
                                    config.epsilon());
}

}  // namespace paramd
