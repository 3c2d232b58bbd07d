#include "server/core/optimizers/loops.h"
#include "server/core/optimizers/rule.h"

namespace paramd {
namespace {

class SgdRule : public Rule {
 public:
  bool RestsOnZeros(bool) const override { return true; }
  void Apply(const NumberReader& gradient, const Step& step,
             const Arrays& arrays) const override {
    RunKernel<SgdLoop>({static_cast<float>(step.rate)}, gradient, step, arrays);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Rule>> MakeSgd() {
  return std::make_unique<SgdRule>();
}

}  // namespace paramd
