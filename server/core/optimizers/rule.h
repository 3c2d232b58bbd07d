#ifndef PARAMD_SERVER_CORE_OPTIMIZERS_RULE_H_
#define PARAMD_SERVER_CORE_OPTIMIZERS_RULE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "proto/paramd/v1/optimizer.pb.h"
#include "server/core/optimizers/kernel.h"
#include "server/core/optimizers/loop_device.h"
#include "tensor/number_reader.h"

namespace paramd {

// How one optimizer changes values and what lies beside them. What a new one
// takes, file by file, is in CONTRIBUTING.md.
//
// Invariant: the result is a function of the arguments alone, the same bits on
// every machine and however the gradient is cut.
//
// Immutable, hence thread-safe.
class Rule {
 public:
  // One application.
  struct Step {
    double rate;      // After schedule, factor and staleness.
    uint64_t number;  // Of the application, from 1.
    bool adjusted;    // Whether `adjustment` says anything.
    Adjustment adjustment;
    InstructionSet set;
    LoopDevice* device = nullptr;  // Runs what lies in its memory; or null.
    double decay = 0;  // Of a rule that has a place of its own for it.
  };
  // Where one application reads and writes `elements` floats of values, and so
  // many times as many of slots as there are, one slot after the other. Outputs
  // may be the inputs.
  struct Arrays {
    size_t elements;
    const float* values;
    const float* slots;
    float* new_values;
    float* new_slots;
    // From one slot to the next; 0: `elements`.
    size_t slot_stride = 0;

    size_t stride() const { return slot_stride == 0 ? elements : slot_stride; }
  };

  virtual ~Rule() = default;

  // What a slot begins with.
  virtual float initial_slot(size_t /*slot*/) const { return 0; }
  // Sets slots that are as they begin, beside values that were trained, so that
  // the first gradient begins from these values, at this rate.
  virtual void Hold(double /*rate*/, const Arrays&) const {}
  // Whether a gradient of zeros that is not adjusted leaves each bit of values
  // and slots as it is, however often it is applied.
  virtual bool RestsOnZeros(bool slots_are_zeros) const = 0;
  // Reads the next elements of the gradient and applies them. REQUIRES: that
  // many remain.
  virtual void Apply(const NumberReader& gradient, const Step& step,
                     const Arrays& arrays) const = 0;
};

// Each has its own file. kInvalidArgument names the constant that is out of its
// bounds, Adam's as one of `name`. REQUIRES: all constants are set
// (WithDefaultNumbers).
absl::StatusOr<std::unique_ptr<const Rule>> MakeSgd();
absl::StatusOr<std::unique_ptr<const Rule>> MakeMomentum(
    const v1::OptimizerConfig::Sgd& config);
absl::StatusOr<std::unique_ptr<const Rule>> MakeAdam(
    absl::string_view name, const v1::OptimizerConfig::Adam& config);
absl::StatusOr<std::unique_ptr<const Rule>> MakeAdagrad(
    const v1::OptimizerConfig::Adagrad& config);
// Of rows: the slot is one number.
absl::StatusOr<std::unique_ptr<const Rule>> MakeRowAdagrad(
    const v1::OptimizerConfig::Adagrad& config);
absl::StatusOr<std::unique_ptr<const Rule>> MakeRmsprop(
    const v1::OptimizerConfig::Rmsprop& config);
absl::StatusOr<std::unique_ptr<const Rule>> MakeFtrl(
    const v1::OptimizerConfig::Ftrl& config);
absl::StatusOr<std::unique_ptr<const Rule>> MakeAdadelta(
    const v1::OptimizerConfig::Adadelta& config);
// Does its own weight decay.
absl::StatusOr<std::unique_ptr<const Rule>> MakeLamb(
    const v1::OptimizerConfig::Lamb& config);

// That of `config`, with defaults for what it does not set. kInvalidArgument
// also if it names none.
absl::StatusOr<std::unique_ptr<const Rule>> MakeRule(
    const v1::OptimizerConfig& config);

// kInvalidArgument, naming optimizer.`name`, unless the value is at least 0 and
// below 1, is above 0, or is at least 0.
absl::Status CheckShare(absl::string_view name, double value);
absl::Status CheckPositive(absl::string_view name, double value);
absl::Status CheckNotNegative(absl::string_view name, double value);

// Whether the first so many floats of these arrays lie in the device's memory.
inline bool LieThere(const LoopDevice& device, const RuleArrays& arrays,
                     size_t slots, size_t count) {
  const auto has = [&](const float* array) {
    return device.Has(AsBytes(absl::MakeConstSpan(array, count)));
  };
  bool there = has(arrays.values) && has(arrays.new_values);
  for (size_t s = 0; s < slots; ++s) {
    there = there && has(arrays.slots[s]) && has(arrays.new_slots[s]);
  }
  return there;
}

// Runs the loop over the next elements of the gradient.
template <typename Loop>
void RunKernel(const typename Loop::Constants& constants,
               const NumberReader& gradient, const Rule::Step& step,
               const Rule::Arrays& arrays) {
  const auto function = kKernelOf<Loop>.For(step.set, step.adjusted);
  gradient.ForEachRun(
      arrays.elements, [&](const std::byte* g, size_t offset, size_t count) {
        RuleArrays at = {};
        at.values = arrays.values + offset;
        at.new_values = arrays.new_values + offset;
        for (size_t s = 0; s < Loop::kSlots; ++s) {
          at.slots[s] = arrays.slots + s * arrays.stride() + offset;
          at.new_slots[s] = arrays.new_slots + s * arrays.stride() + offset;
        }
        if (step.device == nullptr ||
            !LieThere(*step.device, at, Loop::kSlots, count)) {
          return function(constants, step.adjustment, g, count, at);
        }
        LoopCall call =
            LoopCall::Of<Loop>(constants, step.adjusted, step.adjustment);
        call.gradient = g;
        call.count = count;
        call.arrays = at;
        step.device->Run(call);
      });
}

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_OPTIMIZERS_RULE_H_
