#include <cmath>
#include <cstring>

#include "base/status_macros.h"
#include "server/core/optimizers/loops.h"
#include "server/core/optimizers/rule.h"

namespace paramd {
namespace {

class FtrlRule : public Rule {
 public:
  explicit FtrlRule(const v1::OptimizerConfig::Ftrl& config)
      : initial_(static_cast<float>(config.initial_accumulator())),
        l1_(static_cast<float>(config.l1())),
        l2_(static_cast<float>(config.l2())),
        beta_(static_cast<float>(config.beta())) {}

  float initial_slot(size_t slot) const override {
    return slot == 0 ? initial_ : 0.0f;
  }
  // What a weight will be follows from z alone.
  void Hold(double rate, const Arrays& arrays) const override {
    if (rate <= 0) return;
    const float one_over_rate = static_cast<float>(1.0 / rate);
    const float* const n = arrays.new_slots;
    float* const z = arrays.new_slots + arrays.stride();
    for (size_t i = 0; i < arrays.elements; ++i) {
      const float w = arrays.values[i];
      const float times = (beta_ + std::sqrt(n[i])) * one_over_rate + l2_;
      z[i] = w == 0.0f ? 0.0f : -(w * times + std::copysign(l1_, w));
    }
  }
  // Another rate makes another weight of the same slots.
  bool RestsOnZeros(bool) const override { return false; }
  void Apply(const NumberReader& gradient, const Step& step,
             const Arrays& arrays) const override {
    // A schedule may end at zero, where a weight stays as it is.
    if (step.rate <= 0) return Stay(gradient, arrays);
    RunKernel<FtrlLoop>({static_cast<float>(1.0 / step.rate), l1_, l2_, beta_},
                        gradient, step, arrays);
  }

 private:
  static void Stay(const NumberReader& gradient, const Arrays& arrays) {
    gradient.Skip(arrays.elements);
    if (arrays.new_values == arrays.values &&
        arrays.new_slots == arrays.slots) {
      return;
    }
    std::memmove(arrays.new_values, arrays.values,
                 arrays.elements * sizeof(float));
    std::memmove(arrays.new_slots, arrays.slots,
                 2 * arrays.elements * sizeof(float));  // Of whole blocks.
  }

  const float initial_;
  const float l1_;
  const float l2_;
  const float beta_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Rule>> MakeFtrl(
    const v1::OptimizerConfig::Ftrl& config) {
  RETURN_IF_ERROR(
      CheckPositive("ftrl.initial_accumulator", config.initial_accumulator()));
  RETURN_IF_ERROR(CheckNotNegative("ftrl.l1", config.l1()));
  RETURN_IF_ERROR(CheckNotNegative("ftrl.l2", config.l2()));
  RETURN_IF_ERROR(CheckNotNegative("ftrl.beta", config.beta()));
  return std::make_unique<FtrlRule>(config);
}

}  // namespace paramd
