#include "base/status_macros.h"
#include "server/core/optimizers/loops.h"
#include "server/core/optimizers/rule.h"

namespace paramd {
namespace {

class AdadeltaRule : public Rule {
 public:
  AdadeltaRule(double rho, double epsilon) : rho_(rho), epsilon_(epsilon) {}

  bool RestsOnZeros(bool slots_are_zeros) const override {
    return slots_are_zeros;
  }
  void Apply(const NumberReader& gradient, const Step& step,
             const Arrays& arrays) const override {
    RunKernel<AdadeltaLoop>(
        {static_cast<float>(step.rate), static_cast<float>(rho_),
         static_cast<float>(1.0 - rho_), static_cast<float>(epsilon_)},
        gradient, step, arrays);
  }

 private:
  const double rho_;
  const double epsilon_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Rule>> MakeAdadelta(
    const v1::OptimizerConfig::Adadelta& config) {
  RETURN_IF_ERROR(CheckShare("adadelta.rho", config.rho()));
  RETURN_IF_ERROR(CheckPositive("adadelta.epsilon", config.epsilon()));
  return std::make_unique<AdadeltaRule>(config.rho(), config.epsilon());
}

}  // namespace paramd
