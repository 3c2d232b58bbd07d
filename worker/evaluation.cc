#include "worker/evaluation.h"

#include <algorithm>

#include "absl/status/status.h"

#include "base/status_macros.h"

namespace paramd {
namespace {

constexpr uint64_t kBatch = 500;

}  // namespace

absl::StatusOr<Metrics> EvaluateOn(const Pipeline& data, WeightSpans weights,
                                   TrainedModel* model) {
  Batch batch;
  Metrics sum;
  for (uint64_t begin = 0; begin < data.size(); begin += kBatch) {
    const uint64_t end = std::min(data.size(), begin + kBatch);
    RETURN_IF_ERROR(
        data.Read({.epoch = 1, .begin = begin, .end = end}, &batch));
    ASSIGN_OR_RETURN(const Metrics metrics, model->Evaluate(weights, batch));
    sum += metrics;
  }
  if (sum.examples == 0) {
    return absl::InvalidArgumentError(
        "no example to evaluate on is left behind input.stages; check the "
        "filters among them");
  }
  return sum;
}

}  // namespace paramd
