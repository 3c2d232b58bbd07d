#ifndef PARAMD_PROCESS_DEVICE_ARRAYS_H_
#define PARAMD_PROCESS_DEVICE_ARRAYS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "compute/model/trained_model.h"
#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/types.pb.h"
#include "server/device/cuda_loops.h"

namespace paramd {

// The memory that the arrays of a process with all of a job take on its GPU:
// values and slots, the worker's copies of the weights, gradients.
// FAILED_PRECONDITION, with why they had better lie in host memory.
absl::StatusOr<LoopMemory> PlanDeviceArrays(
    const v1::JobConfig& job, absl::Span<const v1::Variable> variables);

// Has the model's device keep them, and says in the log where they lie. Null if
// they lie in host memory. REQUIRES: one process has the server and the worker.
std::shared_ptr<LoopDevice> PlaceDeviceArrays(const v1::JobConfig& job,
                                              const MakeLoopDevice& make,
                                              TrainedModel* model);

}  // namespace paramd

#endif  // PARAMD_PROCESS_DEVICE_ARRAYS_H_
