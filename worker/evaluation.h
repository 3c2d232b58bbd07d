#ifndef PARAMD_WORKER_EVALUATION_H_
#define PARAMD_WORKER_EVALUATION_H_

#include "absl/status/statusor.h"

#include "worker/input/pipeline.h"
#include "worker/input/prefetcher.h"
#include "worker/model/trained_model.h"

namespace paramd {

// The model's result on all examples of `data` with these weights, which threads
// read ahead as `reading` says, but for the size of a batch. The same bits
// wherever it is computed, whatever the threads. An error if an example can't be
// read, and kInvalidArgument if the stages leave none.
// REQUIRES: as TrainedModel::Evaluate.
absl::StatusOr<Metrics> EvaluateOn(
    const Pipeline& data, WeightSpans weights, TrainedModel* model,
    Prefetcher::Options reading = Prefetcher::Options());

}  // namespace paramd

#endif  // PARAMD_WORKER_EVALUATION_H_
