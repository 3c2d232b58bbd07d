#include "base/status_macros.h"
#include "server/core/optimizers/loops.h"
#include "server/core/optimizers/rule.h"

namespace paramd {
namespace {

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
    const MomentumLoop::Constants c = {static_cast<float>(step.rate),
                                       momentum_};
    if (nesterov_) {
      RunKernel<NesterovLoop>(c, gradient, step, arrays);
    } else {
      RunKernel<MomentumLoop>(c, gradient, step, arrays);
    }
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
