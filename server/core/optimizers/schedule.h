#ifndef PARAMD_SERVER_CORE_OPTIMIZERS_SCHEDULE_H_
#define PARAMD_SERVER_CORE_OPTIMIZERS_SCHEDULE_H_

#include <cstdint>

#include "absl/status/statusor.h"

#include "proto/paramd/v1/optimizer.pb.h"

namespace paramd {

// The learning rate after so many applications. With t of them done, w the
// warm-up, d the decay steps and r the configured rate:
//
//   before w        r (t + 1) / w; one_cycle has its own rise
//   constant        r
//   step            r f^floor((t - w) / d)             f: decay_factor
//   exponential     r f^((t - w) / d)
//   polynomial      r (e + (1 - e) (1 - x)^p)
//   cosine          r (e + (1 - e) (1 + cos(pi x)) / 2)
//   one_cycle       Smith and Topin, 2018, as PyTorch's OneCycleLR: along half
//                   a cosine from r / 25 to r in w steps (0: 0.3 d), then down
//                   to r / 250000
//
// where e is final_factor, p the power, and x = (t - w) / (d - w), at most 1.
//
// Plain operations only: the same bits on every machine.
//
// Immutable but for SetDecaySteps. Not thread-safe while that runs.
class Schedule {
 public:
  // `decay_steps`: d; 0: that of `config`. kInvalidArgument names the setting
  // that is unknown, out of its bounds, or missing.
  static absl::StatusOr<Schedule> Create(const v1::OptimizerConfig& config,
                                         uint64_t decay_steps);

  // d from now on; 0: as before.
  void SetDecaySteps(uint64_t decay_steps) {
    if (decay_steps != 0) decay_steps_ = decay_steps;
  }

  double Rate(uint64_t applied) const;

 private:
  explicit Schedule(const v1::OptimizerConfig& config, uint64_t decay_steps);
  // x.
  double Done(uint64_t applied) const;
  double OneCycle(uint64_t applied) const;

  v1::OptimizerConfig::Schedule kind_;
  double learning_rate_;
  uint64_t decay_steps_;
  uint64_t warmup_steps_;
  double decay_factor_;
  double final_factor_;
  double power_;
};

// cos(pi * x) for x in [0, 1], within 1e-15, by plain operations only: the same
// bits everywhere, which std::cos does not promise.
double CosinePi(double x);

// base^exponent by repeated squaring: the same bits everywhere.
double PowerOf(double base, uint64_t exponent);

// base^exponent for any exponent, within a relative 1e-12; 0 for a base of 0 or
// less. The same bits everywhere.
double RealPowerOf(double base, double exponent);

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_OPTIMIZERS_SCHEDULE_H_
