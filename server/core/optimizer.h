#ifndef PARAMD_SERVER_CORE_OPTIMIZER_H_
#define PARAMD_SERVER_CORE_OPTIMIZER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "proto/paramd/v1/config.pb.h"
#include "server/core/optimizer_kernels.h"
#include "tensor/buffer.h"
#include "tensor/number_reader.h"

namespace paramd {

// How old the weights were that a gradient was computed on.
struct GradientAge {
  // Other pushes that were applied since.
  uint64_t pushes = 0;
  // Those weights; null if they are not kept.
  const float* values = nullptr;
};

// How a gradient changes values: SGD, plain or with momentum (Nesterov's too,
// as Sutskever et al., 2013), Adagrad (Duchi et al., 2011) or Adam (Kingma and
// Ba, 2015, algorithm 1), with a learning rate that is constant or falls along
// half a cosine. What is done about a gradient's age: nothing; scale_rate
// divides the rate by the number of pushes (slots are as ever); compensate is
// delay-compensated SGD (Zheng et al., 2017, equation 10), g + lambda * g * g *
// (w - w_old).
//
// Invariant: the result is a function of the arguments of Apply alone, the same
// bits on every machine and however the gradient is split. The schedule and
// Adam's bias correction follow the count that is handed in, nothing else.
//
// Not thread-safe while UseKernels runs; else immutable.
class Optimizer {
 public:
  // Where one application reads and writes `elements` floats of values, and
  // slots().size() times as many of slots, one slot after the other. Outputs
  // may be the inputs.
  struct Arrays {
    size_t elements;
    const float* values;
    const float* slots;
    float* new_values;
    float* new_slots;
  };

  // `decay_steps`: applications over which the schedule falls; 0: those that
  // `config` names. kInvalidArgument if the config has no optimizer, a constant
  // out of its bounds, an unknown schedule, a cosine over 0 steps, or an
  // unknown treatment of staleness, or one that the optimizer does not have.
  static absl::StatusOr<Optimizer> Create(const v1::OptimizerConfig& config,
                                          uint64_t decay_steps);

  // The schedule falls over so many applications from now on; 0: as before.
  void SetDecaySteps(uint64_t decay_steps) {
    if (decay_steps != 0) decay_steps_ = decay_steps;
  }

  // Names of what lies beside a value: none, "momentum", "accumulator", or
  // "momentum" and "variance".
  absl::Span<const absl::string_view> slots() const { return slots_; }
  // Whether a gradient of zeros leaves each bit of values and slots as it is,
  // however often it is applied.
  bool RestsOnZeros(bool slots_are_zeros) const {
    return kind_ == Kind::kSgd || kind_ == Kind::kAdagrad || slots_are_zeros;
  }
  // What every slot begins with.
  float initial_slot() const { return initial_slot_; }

  // Reads the next elements of `gradient` and applies them as the one after
  // `applied` others. REQUIRES: that many remain; age.values are apart from
  // new_values.
  void Apply(const NumberReader& gradient, uint64_t applied,
             const Arrays& arrays, const GradientAge& age = {}) const;

  // Whether the next elements are finite numbers; reads them. REQUIRES: that
  // many remain.
  bool ReadFinite(const NumberReader& gradient, size_t elements) const;

  // Reads the next elements. The mean of their squares; not finite if
  // and only if one of them is not. REQUIRES: as ReadFinite.
  double ReadMeanSquare(const NumberReader& gradient, size_t elements) const;

  // Whether Apply has use for GradientAge::values.
  bool compensates() const { return lambda_ > 0; }

  // The learning rate after `applied` applications.
  double Rate(uint64_t applied) const;

  // From now on it applies with these; at first with the machine's fastest.
  void UseKernels(const OptimizerKernels& kernels) { kernels_ = &kernels; }

 private:
  enum class Kind { kSgd, kMomentum, kAdagrad, kAdam };

  explicit Optimizer(const v1::OptimizerConfig& config, uint64_t decay_steps);
  static Kind KindOf(const v1::OptimizerConfig& config);
  double Rate(uint64_t applied, const GradientAge& age) const;
  AdamStep StepOfAdam(uint64_t applied, const GradientAge& age) const;
  void ApplySgd(const NumberReader& gradient, float rate, const Arrays& arrays,
                const float* old_values) const;
  void ApplyAdam(const NumberReader& gradient, const AdamStep& step,
                 const Arrays& arrays) const;

  Kind kind_;
  absl::Span<const absl::string_view> slots_;
  double momentum_;
  bool nesterov_;
  float initial_slot_;
  double adagrad_epsilon_;
  double beta1_;
  double beta2_;
  double epsilon_;
  double learning_rate_;
  bool cosine_;
  uint64_t decay_steps_;
  bool scale_rate_;
  float lambda_;  // 0: no compensation.
  const OptimizerKernels* kernels_;
};

// cos(pi * x) for x in [0, 1], within 1e-15, by plain operations only: the same
// bits everywhere, which std::cos does not promise.
double CosinePi(double x);

// base^exponent by repeated squaring: the same bits everywhere.
double PowerOf(double base, uint64_t exponent);

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_OPTIMIZER_H_
