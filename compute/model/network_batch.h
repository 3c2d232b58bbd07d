#ifndef PARAMD_COMPUTE_MODEL_NETWORK_BATCH_H_
#define PARAMD_COMPUTE_MODEL_NETWORK_BATCH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "compute/model/network_plan.h"
#include "compute/model/trained_model.h"
#include "input/batch.h"

namespace paramd {

// What a network reads of a batch, and what it gives for one, whatever computes
// it.

// The column of this feature. INVALID_ARGUMENT, naming it, if the batch has
// none of its type and shape.
absl::StatusOr<const Column*> FindColumn(const FeatureSpec& wanted,
                                         const Batch& batch);

// INVALID_ARGUMENT: what the layers read is not there, or what the loss reads
// if `labels`, weights of examples among it. DATA_LOSS: values are out of
// range.
absl::Status CheckBatch(const NetworkPlan& plan, const Batch& batch,
                        bool labels = true);

// See TrainedModel::FindRows.
absl::Status FindRows(const NetworkPlan& plan, const Batch& batch,
                      absl::Span<std::vector<uint64_t>> rows);

// See TrainedModel::CountedExamples. All, if CheckBatch would not be OK.
uint64_t CountedExamples(const NetworkPlan& plan, const Batch& batch);

// What the outputs are compared with. REQUIRES: CheckBatch is OK.
Targets TargetsOf(const NetworkPlan& plan, const Batch& batch);

// What the layers read of an input: the feature, where embeddings read it as it
// is. Else, in `places`, the integers that they look up (see
// NetworkPlan::starts), those of sparse variables as places among `rows` if
// there are some. REQUIRES: CheckBatch is OK.
ConstTensor InputOf(const NetworkPlan& plan, size_t input, const Batch& batch,
                    RowNumbers rows, std::vector<int32_t>* places);

// The loss and all metrics of these outputs, in host memory, as Evaluate gives
// them, or if not `scored` as Step does, without slices. INVALID_ARGUMENT if
// the batch has not what they are counted over, DATA_LOSS, naming the example,
// if it is in no slice of a feature.
absl::StatusOr<Metrics> CountMetrics(const NetworkPlan& plan,
                                     const ConstTensor& outputs,
                                     const Batch& batch, bool scored = true);

// Lays out what Predict gives for a batch; the values are to be written.
void LayOutPrediction(const NetworkPlan& plan, const Batch& batch, Batch* out);
// Writes them, of these outputs, in host memory.
void WritePrediction(const NetworkPlan& plan, const ConstTensor& outputs,
                     Batch* out);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_NETWORK_BATCH_H_
