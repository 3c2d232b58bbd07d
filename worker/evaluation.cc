#include "worker/evaluation.h"

#include <utility>

#include "absl/status/status.h"

#include "base/status_macros.h"

namespace paramd {
namespace {

constexpr uint64_t kBatch = 500;
// Of a batch: with a slow disk 500 examples may take long.
constexpr absl::Duration kPatience = absl::Hours(1);

}  // namespace

absl::StatusOr<Metrics> EvaluateOn(const Pipeline& data, WeightSpans weights,
                                   TrainedModel* model,
                                   Prefetcher::Options reading) {
  reading.batch_size = kBatch;
  Prefetcher prefetcher(data, std::move(reading));
  RETURN_IF_ERROR(
      prefetcher.Add({.epoch = 1, .begin = 0, .end = data.size()}));
  prefetcher.NoMore();
  Metrics sum;
  for (;;) {
    ASSIGN_OR_RETURN(Prefetcher::NextBatch next,
                     prefetcher.WaitForNext(kPatience));
    if (next.state == Prefetcher::NextBatch::kEnd) break;
    ASSIGN_OR_RETURN(const Metrics metrics,
                     model->Evaluate(weights, *next.batch));
    sum += metrics;
    prefetcher.Recycle(std::move(next.batch));
  }
  if (sum.examples == 0) {
    return absl::InvalidArgumentError(
        "no example to evaluate on is left behind input.stages; check the "
        "filters among them");
  }
  return sum;
}

}  // namespace paramd
