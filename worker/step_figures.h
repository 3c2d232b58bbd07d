#ifndef PARAMD_WORKER_STEP_FIGURES_H_
#define PARAMD_WORKER_STEP_FIGURES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "compute/model/metrics.h"

namespace paramd {

// What a member counted in its part of a step.
struct StepFigures {
  Metrics metrics;
  uint64_t left_out = 0;
};

// As numbers of which each member has as many. `counted`: what the model says
// that it counts, TrainedModel::metrics, its outputs' included.
std::vector<double> ToNumbers(const StepFigures& figures,
                              absl::Span<const std::string> counted);

// Of ToNumbers of some members, one after the other, in their order, added up.
// REQUIRES: `counted` as there.
StepFigures FromNumbers(absl::Span<const double> numbers,
                        absl::Span<const std::string> counted);

}  // namespace paramd

#endif  // PARAMD_WORKER_STEP_FIGURES_H_
