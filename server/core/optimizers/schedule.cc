#include "server/core/optimizers/schedule.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "config/setting.h"
#include "server/core/optimizers/rule.h"

namespace paramd {
namespace {

using Config = v1::OptimizerConfig;

// Those that fall to their end over decay_steps, warm-up included.
bool Ends(Config::Schedule kind) {
  return kind == Config::POLYNOMIAL || kind == Config::COSINE ||
         kind == Config::ONE_CYCLE;
}

double Natural(double x) {
  // exp(x) = 2^k exp(r) with |r| <= ln(2) / 2: the first term of Taylor's
  // series that is left out is r^20 / 20! < 1e-27.
  constexpr double kLn2 = 0.693147180559945309417;
  const double k = std::floor(x / kLn2 + 0.5);
  const double r = x - k * kLn2;
  double sum = 1.0;
  for (int n = 19; n >= 1; --n) sum = 1.0 + sum * (r / n);
  return std::ldexp(sum, static_cast<int>(std::max(k, -2000.0)));
}

double Logarithm(double x) {
  // ln(x) = e ln(2) + 2 atanh(z) with z = (m - 1) / (m + 1), |z| < 0.172: the
  // first term of the series that is left out is z^31 / 31 < 1e-25.
  constexpr double kLn2 = 0.693147180559945309417;
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752440) {
    m *= 2;
    --exponent;
  }
  const double z = (m - 1.0) / (m + 1.0);
  double sum = 0;
  for (int n = 29; n >= 1; n -= 2) sum = sum * (z * z) + 1.0 / n;
  return exponent * kLn2 + 2.0 * z * sum;
}

}  // namespace

absl::StatusOr<Schedule> Schedule::Create(const v1::OptimizerConfig& config,
                                          uint64_t decay_steps) {
  const Schedule schedule(WithDefaultNumbers(config), decay_steps);
  if (config.schedule() < Config::SCHEDULE_UNSPECIFIED ||
      config.schedule() > Config::ONE_CYCLE) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.schedule ", static_cast<int>(config.schedule()),
                     " is unknown here"));
  }
  RETURN_IF_ERROR(CheckPositive("learning_rate", schedule.learning_rate_));
  RETURN_IF_ERROR(CheckPositive("decay_factor", schedule.decay_factor_));
  RETURN_IF_ERROR(CheckNotNegative("final_factor", schedule.final_factor_));
  RETURN_IF_ERROR(CheckPositive("power", schedule.power_));
  if (schedule.kind_ != Config::CONSTANT && schedule.decay_steps_ == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "optimizer.schedule is ",
        absl::AsciiStrToLower(Config::Schedule_Name(schedule.kind_)),
        " over 0 decay_steps"));
  }
  if (Ends(schedule.kind_) && schedule.warmup_steps_ >= schedule.decay_steps_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "optimizer.warmup_steps is ", schedule.warmup_steps_,
        "; it must be below the ", schedule.decay_steps_, " decay_steps"));
  }
  return schedule;
}

Schedule::Schedule(const v1::OptimizerConfig& config, uint64_t decay_steps)
    : kind_(config.schedule() == Config::SCHEDULE_UNSPECIFIED
                ? Config::CONSTANT
                : config.schedule()),
      learning_rate_(config.learning_rate()),
      decay_steps_(decay_steps != 0 ? decay_steps : config.decay_steps()),
      warmup_steps_(config.warmup_steps()),
      decay_factor_(config.decay_factor()),
      final_factor_(config.final_factor()),
      power_(config.power()) {}

double Schedule::Done(uint64_t applied) const {
  if (applied >= decay_steps_) return 1;
  if (applied <= warmup_steps_) return 0;
  return static_cast<double>(applied - warmup_steps_) /
         static_cast<double>(decay_steps_ - warmup_steps_);
}

double Schedule::Rate(uint64_t applied) const {
  if (kind_ == Config::ONE_CYCLE) return OneCycle(applied);
  if (applied < warmup_steps_) {
    return learning_rate_ * (static_cast<double>(applied + 1) /
                             static_cast<double>(warmup_steps_));
  }
  const uint64_t since = applied - warmup_steps_;
  double factor = 1;
  switch (kind_) {
    case Config::STEP:
      factor = PowerOf(decay_factor_, since / decay_steps_);
      break;
    case Config::EXPONENTIAL:
      factor =
          RealPowerOf(decay_factor_, static_cast<double>(since) /
                                         static_cast<double>(decay_steps_));
      break;
    case Config::POLYNOMIAL:
      factor = final_factor_ +
               (1.0 - final_factor_) * RealPowerOf(1.0 - Done(applied), power_);
      break;
    case Config::COSINE:
      factor = final_factor_ +
               (1.0 - final_factor_) * (0.5 * (1.0 + CosinePi(Done(applied))));
      break;
    default:
      break;
  }
  return learning_rate_ * factor;
}

double Schedule::OneCycle(uint64_t applied) const {
  const double total = static_cast<double>(decay_steps_);
  const double rise =
      warmup_steps_ > 0 ? static_cast<double>(warmup_steps_) : 0.3 * total;
  const double t = std::min(static_cast<double>(applied), total - 1.0);
  const double top = std::max(rise - 1.0, 0.0);
  const double low = learning_rate_ / 25.0;
  const double end = low / 1e4;
  // From `from` to `to`, along half a cosine.
  const auto along = [](double from, double to, double x) {
    return to + (from - to) / 2.0 * (1.0 + CosinePi(std::min(x, 1.0)));
  };
  if (t <= top) return along(low, learning_rate_, top > 0 ? t / top : 1.0);
  return along(learning_rate_, end, (t - top) / (total - 1.0 - top));
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

double RealPowerOf(double base, double exponent) {
  if (base <= 0) return 0;
  return Natural(exponent * Logarithm(base));
}

}  // namespace paramd
