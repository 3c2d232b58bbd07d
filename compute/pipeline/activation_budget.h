#ifndef PARAMD_COMPUTE_PIPELINE_ACTIVATION_BUDGET_H_
#define PARAMD_COMPUTE_PIPELINE_ACTIVATION_BUDGET_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"

#include "compute/model/network_plan.h"
#include "compute/pipeline/pipeline_model.h"
#include "proto/paramd/v1/config.pb.h"
#include "tensor/tensor.h"

namespace paramd {

// The plan of a model that is not cut.
PipelinePlan InOnePiece();

// How many operations this processor computes while a byte is written to the
// disk of this directory and read again, both measured: operations as those of
// a product of matrices, the fastest there are. INVALID_ARGUMENT, a sentence,
// if nothing can be written there.
absl::StatusOr<double> MeasureSwapCost(const std::string& directory);

// Has layers of the network computed again, the fewest operations, so that what
// each device needs for activations of this type in a step fits
// memory.activation_budget_bytes, and moves where stages begin accordingly; a
// device with several stages has a part of the budget for each. Nothing changes
// if the job has no budget or all fits as it is. INVALID_ARGUMENT, a sentence
// with the bytes that are there and those that are needed and the layer that
// needs most, if nothing fits.
//
// With memory.swap_directory layers are swapped in place of that where it takes
// less time: `swap_cost`, or MeasureSwapCost if that is not given, says what it
// takes. INVALID_ARGUMENT also as MeasureSwapCost has it, and if there is no
// room for what is swapped. REQUIRES: the job's batch_per_replica is set,
// and the layers are those that the job file has.
absl::Status FitActivations(const v1::JobConfig& job, DType dtype,
                            NetworkPlan* network, PipelinePlan* pipeline,
                            absl::optional<double> swap_cost = absl::nullopt);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_PIPELINE_ACTIVATION_BUDGET_H_
