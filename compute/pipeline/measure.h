#ifndef PARAMD_COMPUTE_PIPELINE_MEASURE_H_
#define PARAMD_COMPUTE_PIPELINE_MEASURE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "compute/device/device.h"
#include "compute/model/network_plan.h"
#include "compute/pipeline/partition.h"
#include "compute/pipeline/pipeline_model.h"
#include "compute/pipeline/timeline.h"
#include "input/batch.h"

namespace paramd {

// What each layer of the top level takes for the forward and the backward pass
// of these examples, in its two halves, each the fastest of so many times, and
// what it keeps in between. The
// loss and its gradient are the last layer's. `make_device`: where it is
// computed. INVALID_ARGUMENT or DATA_LOSS if the batch does not fit the model;
// the errors of the device. REQUIRES: there is an example.
absl::StatusOr<std::vector<LayerTimes>> MeasureLayers(
    const std::shared_ptr<const NetworkPlan>& network, const Batch& batch,
    int repetitions, absl::FunctionRef<std::unique_ptr<Device>()> make_device);

// Measures one step, after a few others, in the stages and by the schedule of
// `plan`, with all stages computing at the same time on their threads.
// `make_device`: of each stage. Errors are those of MeasureLayers.
absl::StatusOr<Timeline> MeasureStages(
    const std::shared_ptr<const NetworkPlan>& network, const PipelinePlan& plan,
    const Batch& batch, const PipelineModel::MakeDevice& make_device);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_PIPELINE_MEASURE_H_
