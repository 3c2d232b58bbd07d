#ifndef PARAMD_WORKER_EVALUATION_H_
#define PARAMD_WORKER_EVALUATION_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "worker/input/pipeline.h"
#include "worker/model/trained_model.h"

namespace paramd {

// So many examples are computed at a time: 500, or fewer of a model whose
// layers keep so much of each that they would need more than 256 MiB.
uint64_t EvaluationBatch(const ModelCost& cost);

// The model's result on all examples of `data` with these weights, computed by
// so many threads, each with a clone of the model but for the caller's. The
// same bits wherever and by however many it is computed: batches are the same,
// and are added in the order of the input. An error if an example can't be
// read, the first one in that order, and kInvalidArgument if the stages leave
// none. REQUIRES: as TrainedModel::EvaluateRows; threads > 0.
absl::StatusOr<Metrics> EvaluateOn(const Pipeline& data, WeightSpans weights,
                                   TrainedModel* model, int threads = 1,
                                   RowNumbers rows = {});

// By sparse variable of the model, which of its rows the examples of `data`
// read; each once, ascending. Fails as EvaluateOn does, but not for want of
// examples.
absl::StatusOr<std::vector<std::vector<uint64_t>>> RowsReadBy(
    const Pipeline& data, const TrainedModel& model);
// The same, or nothing where no variable is keyed: others may be read whole.
absl::StatusOr<std::vector<std::vector<uint64_t>>> KeysReadBy(
    const Pipeline& data, const TrainedModel& model);

// Calls `use`, one call at a time, with what the model predicts of all
// examples, in the order of the input, some of them each time and never none;
// else as EvaluateOn. Also the first error of `use`.
absl::Status PredictOn(const Pipeline& data, WeightSpans weights,
                       TrainedModel* model, int threads,
                       absl::FunctionRef<absl::Status(const Batch&)> use,
                       RowNumbers rows = {});

}  // namespace paramd

#endif  // PARAMD_WORKER_EVALUATION_H_
