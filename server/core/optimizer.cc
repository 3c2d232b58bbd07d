#include "server/core/optimizer.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "config/optimizer_slots.h"

namespace paramd {
namespace {

constexpr double kDefaultLambda = 0.04;
constexpr double kDefaultEpsilon = 1e-7;
constexpr double kDefaultAccumulator = 0.1;

absl::Status CheckDecay(absl::string_view name, double value) {
  if (value >= 0 && value < 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer.", name, " is ", value,
                   "; it must be at least 0 and below 1"));
}

absl::Status CheckPositive(absl::string_view name, double value) {
  if (value > 0 && std::isfinite(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer.", name, " is ", value, "; it must be above 0"));
}

absl::Status CheckTreatment(const v1::OptimizerConfig& config) {
  const auto treatment = config.staleness_treatment();
  if (treatment < v1::OptimizerConfig::STALENESS_TREATMENT_UNSPECIFIED ||
      treatment > v1::OptimizerConfig::COMPENSATE) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.staleness_treatment ",
                     static_cast<int>(treatment), " is unknown here"));
  }
  if (treatment == v1::OptimizerConfig::COMPENSATE &&
      (!config.has_sgd() || config.sgd().momentum() > 0)) {
    return absl::InvalidArgumentError(
        "optimizer.staleness_treatment compensate is for plain sgd alone");
  }
  const double lambda = config.delay_compensation();
  if (!(lambda >= 0 && std::isfinite(static_cast<float>(lambda)))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "optimizer.delay_compensation is ", lambda, "; it must be at least 0"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Optimizer> Optimizer::Create(const v1::OptimizerConfig& config,
                                            uint64_t decay_steps) {
  const Optimizer optimizer(config, decay_steps);
  if (config.kind_case() == v1::OptimizerConfig::KIND_NOT_SET) {
    return absl::InvalidArgumentError(
        "optimizer names none of sgd, adagrad and adam");
  }
  RETURN_IF_ERROR(CheckPositive("learning_rate", optimizer.learning_rate_));
  RETURN_IF_ERROR(CheckDecay("sgd.momentum", optimizer.momentum_));
  RETURN_IF_ERROR(CheckDecay("adam.beta1", optimizer.beta1_));
  RETURN_IF_ERROR(CheckDecay("adam.beta2", optimizer.beta2_));
  RETURN_IF_ERROR(CheckPositive("adagrad.epsilon", optimizer.adagrad_epsilon_));
  if (!(optimizer.initial_slot_ >= 0 &&
        std::isfinite(optimizer.initial_slot_))) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.adagrad.initial_accumulator is ",
                     optimizer.initial_slot_, "; it must be at least 0"));
  }
  RETURN_IF_ERROR(CheckPositive("adam.epsilon", optimizer.epsilon_));
  if (config.schedule() < v1::OptimizerConfig::SCHEDULE_UNSPECIFIED ||
      config.schedule() > v1::OptimizerConfig::COSINE) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.schedule ", static_cast<int>(config.schedule()),
                     " is unknown here"));
  }
  if (optimizer.cosine_ && optimizer.decay_steps_ == 0) {
    return absl::InvalidArgumentError(
        "optimizer.schedule is cosine over 0 decay_steps");
  }
  RETURN_IF_ERROR(CheckTreatment(config));
  return optimizer;
}

Optimizer::Optimizer(const v1::OptimizerConfig& config, uint64_t decay_steps)
    : kind_(KindOf(config)),
      slots_(SlotsOf(config)),
      momentum_(config.sgd().momentum()),
      nesterov_(config.sgd().nesterov()),
      initial_slot_(
          static_cast<float>(!config.has_adagrad() ? 0
                             : config.adagrad().has_initial_accumulator()
                                 ? config.adagrad().initial_accumulator()
                                 : kDefaultAccumulator)),
      adagrad_epsilon_(config.adagrad().has_epsilon()
                           ? config.adagrad().epsilon()
                           : kDefaultEpsilon),
      beta1_(config.adam().has_beta1() ? config.adam().beta1() : 0.9),
      beta2_(config.adam().has_beta2() ? config.adam().beta2() : 0.999),
      epsilon_(config.adam().has_epsilon() ? config.adam().epsilon()
                                           : kDefaultEpsilon),
      learning_rate_(config.learning_rate()),
      cosine_(config.schedule() == v1::OptimizerConfig::COSINE),
      decay_steps_(decay_steps != 0 ? decay_steps : config.decay_steps()),
      scale_rate_(config.staleness_treatment() ==
                  v1::OptimizerConfig::SCALE_RATE),
      lambda_(config.staleness_treatment() == v1::OptimizerConfig::COMPENSATE
                  ? static_cast<float>(config.has_delay_compensation()
                                           ? config.delay_compensation()
                                           : kDefaultLambda)
                  : 0),
      kernels_(&MachineKernels()) {}

Optimizer::Kind Optimizer::KindOf(const v1::OptimizerConfig& config) {
  if (config.has_adam()) return Kind::kAdam;
  if (config.has_adagrad()) return Kind::kAdagrad;
  return config.sgd().momentum() > 0 ? Kind::kMomentum : Kind::kSgd;
}

double Optimizer::Rate(uint64_t applied) const {
  if (!cosine_) return learning_rate_;
  const double done = static_cast<double>(std::min(applied, decay_steps_)) /
                      static_cast<double>(decay_steps_);
  return learning_rate_ * (0.5 * (1.0 + CosinePi(done)));
}

double Optimizer::Rate(uint64_t applied, const GradientAge& age) const {
  const double rate = Rate(applied);
  return scale_rate_ && age.pushes > 1 ? rate / static_cast<double>(age.pushes)
                                       : rate;
}

AdamStep Optimizer::StepOfAdam(uint64_t applied, const GradientAge& age) const {
  const uint64_t t = applied + 1;
  AdamStep step;
  step.beta1 = static_cast<float>(beta1_);
  step.one_minus_beta1 = static_cast<float>(1.0 - beta1_);
  step.beta2 = static_cast<float>(beta2_);
  step.one_minus_beta2 = static_cast<float>(1.0 - beta2_);
  step.rate =
      static_cast<float>(Rate(applied, age) / (1.0 - PowerOf(beta1_, t)));
  step.correction2 = static_cast<float>(1.0 / (1.0 - PowerOf(beta2_, t)));
  step.epsilon = static_cast<float>(epsilon_);
  return step;
}

void Optimizer::ApplySgd(const NumberReader& gradient, float rate,
                         const Arrays& arrays, const float* old_values) const {
  gradient.ForEachRun(
      arrays.elements, [&](const std::byte* g, size_t offset, size_t count) {
        const float* const values = arrays.values + offset;
        float* const new_values = arrays.new_values + offset;
        if (old_values == nullptr) {
          kernels_->sgd(rate, g, count, values, new_values);
        } else {
          kernels_->sgd_compensated(rate, lambda_, g, count, values,
                                    old_values + offset, new_values);
        }
      });
}

void Optimizer::ApplyAdam(const NumberReader& gradient, const AdamStep& step,
                          const Arrays& arrays) const {
  const size_t n = arrays.elements;
  gradient.ForEachRun(n, [&](const std::byte* g, size_t offset, size_t count) {
    kernels_->adam(step, g, count,
                   {.values = arrays.values + offset,
                    .momentum = arrays.slots + offset,
                    .variance = arrays.slots + n + offset,
                    .new_values = arrays.new_values + offset,
                    .new_momentum = arrays.new_slots + offset,
                    .new_variance = arrays.new_slots + n + offset});
  });
}

void Optimizer::Apply(const NumberReader& gradient, uint64_t applied,
                      const Arrays& arrays, const GradientAge& age) const {
  const float rate = static_cast<float>(Rate(applied, age));
  const auto one_slot = [&arrays](size_t offset) {
    return OneSlotArrays{.values = arrays.values + offset,
                         .slot = arrays.slots + offset,
                         .new_values = arrays.new_values + offset,
                         .new_slot = arrays.new_slots + offset};
  };
  switch (kind_) {
    case Kind::kSgd: {
      const bool moved = compensates() && age.pushes > 0;
      return ApplySgd(gradient, rate, arrays, moved ? age.values : nullptr);
    }
    case Kind::kMomentum: {
      const MomentumStep step = {rate, static_cast<float>(momentum_),
                                 nesterov_};
      return gradient.ForEachRun(
          arrays.elements,
          [&](const std::byte* g, size_t offset, size_t count) {
            kernels_->momentum(step, g, count, one_slot(offset));
          });
    }
    case Kind::kAdagrad: {
      const AdagradStep step = {rate, static_cast<float>(adagrad_epsilon_)};
      return gradient.ForEachRun(
          arrays.elements,
          [&](const std::byte* g, size_t offset, size_t count) {
            kernels_->adagrad(step, g, count, one_slot(offset));
          });
    }
    case Kind::kAdam:
      return ApplyAdam(gradient, StepOfAdam(applied, age), arrays);
  }
}

bool Optimizer::ReadFinite(const NumberReader& gradient,
                           size_t elements) const {
  if (gradient.format() != NumberFormat::kFp32) {
    return gradient.ReadFinite(elements);
  }
  bool finite = true;
  gradient.ForEachRun(elements, [&](const std::byte* g, size_t, size_t count) {
    finite = kernels_->all_finite(g, count) && finite;
  });
  return finite;
}

double Optimizer::ReadMeanSquare(const NumberReader& gradient,
                                 size_t elements) const {
  double sums[OptimizerKernels::kSumLanes] = {};
  gradient.ForEachRun(elements,
                      [&](const std::byte* g, size_t offset, size_t count) {
                        kernels_->add_squares(g, count, offset, sums);
                      });
  double sum = 0;
  for (const double lane : sums) sum += lane;
  return elements == 0 ? 0 : sum / static_cast<double>(elements);
}

double CosinePi(double x) {
  CHECK(x >= 0.0 && x <= 1.0, "the cosine is wanted over half a turn");
  if (x > 0.5) return -CosinePi(1.0 - x);
  // Taylor's series in y = (pi x)^2, y <= (pi / 2)^2: the first term left out
  // is y^12 / 24! < 1e-19.
  constexpr double kPi = 3.14159265358979323846;
  const double y = (kPi * x) * (kPi * x);
  double sum = 1.0;
  for (int n = 22; n >= 2; n -= 2) {
    sum = 1.0 - sum * (y / (static_cast<double>(n) * (n - 1)));
  }
  return sum;
}

double PowerOf(double base, uint64_t exponent) {
  double power = 1.0;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) power *= base;
    base *= base;
  }
  return power;
}

}  // namespace paramd
