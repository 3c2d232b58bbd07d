#ifndef PARAMD_WORKER_EVALUATION_H_
#define PARAMD_WORKER_EVALUATION_H_

#include "absl/status/statusor.h"

#include "worker/input/pipeline.h"
#include "worker/model/trained_model.h"

namespace paramd {

// The model's result on all examples of `data` with these weights. The same
// bits wherever it is computed. An error if an example can't be read, and
// kInvalidArgument if the stages leave none.
// REQUIRES: as TrainedModel::Evaluate.
absl::StatusOr<Metrics> EvaluateOn(const Pipeline& data, WeightSpans weights,
                                   TrainedModel* model);

}  // namespace paramd

#endif  // PARAMD_WORKER_EVALUATION_H_
