#include <cmath>

#include "base/status_macros.h"
#include "server/core/optimizers/loops.h"
#include "server/core/optimizers/rule.h"
#include "server/core/optimizers/schedule.h"

namespace paramd {
namespace {

// Of what is applied as one, a block or a row of a sparse variable:
// u  = (m' * correction1) / (sqrt(v' * correction2) + epsilon) + decay * w
// w' = w - rate * |w| / |u| * u
// where m' and v' are as LambLoop leaves them.
class LambRule : public Rule {
 public:
  LambRule(double beta1, double beta2, double epsilon)
      : beta1_(beta1), beta2_(beta2), epsilon_(epsilon) {}

  bool RestsOnZeros(bool slots_are_zeros) const override {
    return slots_are_zeros;
  }
  void Apply(const NumberReader& gradient, const Step& step,
             const Arrays& arrays) const override {
    RunKernel<LambLoop>(
        {static_cast<float>(beta1_), static_cast<float>(1.0 - beta1_),
         static_cast<float>(beta2_), static_cast<float>(1.0 - beta2_)},
        gradient, step, arrays);
    Update update;
    update.correction1 =
        static_cast<float>(1.0 / (1.0 - PowerOf(beta1_, step.number)));
    update.correction2 =
        static_cast<float>(1.0 / (1.0 - PowerOf(beta2_, step.number)));
    update.epsilon = static_cast<float>(epsilon_);
    update.decay = static_cast<float>(step.decay);
    update.w = arrays.values;
    update.m = arrays.new_slots;
    update.v = arrays.new_slots + arrays.stride();
    const auto rate =
        static_cast<float>(step.rate * TrustRatio(update, arrays.elements));
    for (size_t i = 0; i < arrays.elements; ++i) {
      arrays.new_values[i] = update.w[i] - rate * update.At(i);
    }
  }

 private:
  struct Update {
    float At(size_t i) const {
      return m[i] * correction1 / (std::sqrt(v[i] * correction2) + epsilon) +
             decay * w[i];
    }

    float correction1;  // 1 / (1 - beta1^t).
    float correction2;  // 1 / (1 - beta2^t).
    float epsilon;
    float decay;
    const float* w;
    const float* m;
    const float* v;
  };

  // |w| / |u|; 1 if there is no w or no u. Added up in lanes, of which none
  // waits for another, in one order on every processor.
  static double TrustRatio(const Update& update, size_t elements) {
    constexpr size_t kLanes = 8;
    double of_w[kLanes] = {};
    double of_u[kLanes] = {};
    const auto add = [&](size_t i, size_t lane) {
      const double w = update.w[i];
      const double u = update.At(i);
      of_w[lane] += w * w;
      of_u[lane] += u * u;
    };
    const size_t whole = elements / kLanes * kLanes;
    for (size_t i = 0; i < whole; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) add(i + lane, lane);
    }
    for (size_t i = whole; i < elements; ++i) add(i, i - whole);
    double w = 0;
    double u = 0;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      w += of_w[lane];
      u += of_u[lane];
    }
    return w > 0 && u > 0 ? std::sqrt(w) / std::sqrt(u) : 1;
  }

  const double beta1_;
  const double beta2_;
  const double epsilon_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Rule>> MakeLamb(
    const v1::OptimizerConfig::Lamb& config) {
  RETURN_IF_ERROR(CheckShare("lamb.beta1", config.beta1()));
  RETURN_IF_ERROR(CheckShare("lamb.beta2", config.beta2()));
  RETURN_IF_ERROR(CheckPositive("lamb.epsilon", config.epsilon()));
  return std::make_unique<LambRule>(config.beta1(), config.beta2(),
                                    config.epsilon());
}

}  // namespace paramd
