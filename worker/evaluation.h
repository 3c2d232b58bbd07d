#ifndef PARAMD_WORKER_EVALUATION_H_
#define PARAMD_WORKER_EVALUATION_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"

#include "compute/model/trained_model.h"
#include "input/pipeline.h"

namespace paramd {

// So many examples are computed at a time: 500, or fewer of a model whose
// layers keep so much of each that they would need more than 256 MiB.
uint64_t EvaluationBatch(const ModelCost& cost);

// The index-th of `count` parts of a test set, counted from 0: a run of its
// batches, whole ones, so that each is the same in a part as in an evaluation
// of all. The first part has at least one; others are empty where there are
// fewer batches than parts.
struct TestPart {
  uint32_t index = 0;
  uint32_t count = 1;
  // Instead of these: from the first batch to before the second.
  absl::optional<std::pair<uint64_t, uint64_t>> batches = {};

  // Of so many batches, those that are its own: [first, second).
  std::pair<uint64_t, uint64_t> Of(uint64_t all) const;
};

// Of all examples of a test set.
uint64_t BatchCount(const Pipeline& data, const TrainedModel& model);

struct EvaluationOptions {
  // Above 0: that compute, each with a clone of the model but for the caller's.
  int threads = 1;
  // As TrainedModel::EvaluateRows.
  RowNumbers rows = {};
  TestPart part = {};
};

// The model's result on all examples of `data`, or of a part, with these
// weights. The same bits wherever and by however many threads it is computed:
// batches are the same, and are added in the order of the input. An error if an
// example can't be read, the first one in that order, and kInvalidArgument if
// the stages leave none. REQUIRES: as TrainedModel::EvaluateRows.
absl::StatusOr<Metrics> EvaluateOn(const Pipeline& data, WeightSpans weights,
                                   TrainedModel* model,
                                   const EvaluationOptions& options = {});
// Calls `use` with the result on each batch, in that order, whose sum
// EvaluateOn is, if CheckEvaluated admits it. No error if there is no example.
absl::Status EvaluateEach(const Pipeline& data, WeightSpans weights,
                          TrainedModel* model, const EvaluationOptions& options,
                          absl::FunctionRef<void(const Metrics&)> use);
// kInvalidArgument if it is of no example.
absl::Status CheckEvaluated(const Metrics& sum);

// By sparse variable of the model, which of its rows the examples of `data`, or
// of a part, read; each once, ascending. Fails as EvaluateOn does, but not for
// want of examples.
absl::StatusOr<std::vector<std::vector<uint64_t>>> RowsReadBy(
    const Pipeline& data, const TrainedModel& model, const TestPart& part = {});
// The same, or nothing where no variable is keyed: others may be read whole.
absl::StatusOr<std::vector<std::vector<uint64_t>>> KeysReadBy(
    const Pipeline& data, const TrainedModel& model, const TestPart& part = {});

// Calls `use`, one call at a time, with what the model predicts of all
// examples, in the order of the input, some of them each time and never none;
// else as EvaluateOn. Also the first error of `use`. Of one of several parts no
// error if there is no example: then `use` is called once, with none.
absl::Status PredictOn(const Pipeline& data, WeightSpans weights,
                       TrainedModel* model, const EvaluationOptions& options,
                       absl::FunctionRef<absl::Status(const Batch&)> use);

}  // namespace paramd

#endif  // PARAMD_WORKER_EVALUATION_H_
