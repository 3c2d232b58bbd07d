#include "base/status_macros.h"
#include "server/core/optimizers/loops.h"
#include "server/core/optimizers/rule.h"

namespace paramd {
namespace {

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
    if (centered_ && moving) {
      RunKernel<CenteredMovingRmspropLoop>(c, gradient, step, arrays);
    } else if (centered_) {
      RunKernel<CenteredRmspropLoop>(c, gradient, step, arrays);
    } else if (moving) {
      RunKernel<MovingRmspropLoop>(c, gradient, step, arrays);
    } else {
      RunKernel<PlainRmspropLoop>(c, gradient, step, arrays);
    }
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
  RETURN_IF_ERROR(CheckShare("rmsprop.decay", config.decay()));
  RETURN_IF_ERROR(CheckPositive("rmsprop.epsilon", config.epsilon()));
  RETURN_IF_ERROR(CheckShare("rmsprop.momentum", config.momentum()));
  return std::make_unique<RmspropRule>(config.decay(), config.epsilon(),
                                       config.momentum(), config.centered());
}

}  // namespace paramd
