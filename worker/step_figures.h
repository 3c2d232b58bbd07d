#ifndef PARAMD_WORKER_STEP_FIGURES_H_
#define PARAMD_WORKER_STEP_FIGURES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "compute/model/metrics.h"

namespace paramd {

// What a member counted in its part of a step.
struct StepFigures {
  Metrics metrics;
  uint64_t left_out = 0;
};

// As numbers of which each member has as many: those of up to `sums` metrics.
std::vector<double> ToNumbers(const StepFigures& figures, size_t sums);

// Of ToNumbers of some members, one after the other, in their order, added up.
// REQUIRES: `sums` as there.
StepFigures FromNumbers(absl::Span<const double> numbers, size_t sums);

}  // namespace paramd

#endif  // PARAMD_WORKER_STEP_FIGURES_H_
