#ifndef PARAMD_TESTS_SIM_SEQUENTIAL_STEPS_H_
#define PARAMD_TESTS_SIM_SEQUENTIAL_STEPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/core/optimizer.h"
#include "tests/sim/integer_job.h"

namespace paramd {

// Of a step of sync mode, what was decided.
struct DecidedStep {
  // In the order of their shares of the step's input, a batch each.
  std::vector<uint32_t> contributors;
  // Those of them whose shares the step is of.
  std::vector<uint32_t> workers;
};

// A job's steps of sync mode, done one after another by one process, which is
// told who contributed to each and nothing else: the input of a step, its sum,
// scale and application follow from it.
//
// Not thread-safe. The job outlives it; its gradients are rounded ones.
class SequentialSteps {
 public:
  explicit SequentialSteps(const IntegerJob& job);

  // REQUIRES: input is left.
  void Apply(const DecidedStep& step);

  uint64_t steps() const { return steps_; }
  // The input that is left begins here; with an epoch that the job does not
  // have there is none.
  const BatchPlace& next() const { return next_; }
  // Of variable `v`: its values, or this slot of theirs.
  std::vector<float> Numbers(size_t v, const std::string& slot) const;
  // Names of its slots, and "" for the values.
  std::vector<std::string> names(size_t v) const;

 private:
  VariableOptions OptionsOf(size_t v) const;
  // By entry of optimizer.pruning, what is smaller becomes zero with the next
  // step; 0 where nothing does.
  std::vector<float> FindThresholds() const;
  // The sum of the shares, in their order; empty if nobody has an example.
  std::vector<std::vector<float>> SumOf(const DecidedStep& step, uint64_t end);

  const IntegerJob& job_;
  const Optimizer optimizer_;
  uint64_t steps_ = 0;
  BatchPlace next_ = {.epoch = 1, .begin = 0};
  std::vector<std::vector<float>> values_;  // By variable, as the next.
  std::vector<std::vector<float>> slots_;   // One slot after the other.
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_SEQUENTIAL_STEPS_H_
