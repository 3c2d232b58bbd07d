#ifndef PARAMD_WORKER_MODEL_FACTORY_H_
#define PARAMD_WORKER_MODEL_FACTORY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "compute/model/network_plan.h"
#include "compute/model/trained_model.h"
#include "compute/pipeline/model_stage.h"
#include "compute/pipeline/pipeline_stage.h"
#include "input/batch.h"
#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// Makes the model of a job whose examples look like this. An error is a
// sentence that names what does not fit. Each process of a job must be given
// one that makes the same variables.
using ModelFactory =
    std::function<absl::StatusOr<std::unique_ptr<TrainedModel>>(
        const v1::JobConfig& job, const InputSpec& input)>;

// The layers and the loss of the job file, on the device that it says; see
// ChooseDevice for what may be wrong with that.
ModelFactory BuiltInModels();

// The same, of whose pipeline the first devices are in other processes.
absl::StatusOr<std::unique_ptr<TrainedModel>> MakeModelWithStages(
    const v1::JobConfig& job, const InputSpec& input,
    std::shared_ptr<StagesElsewhere> elsewhere);

// What such a process computes: the stages of one device of the job's pipeline,
// on this machine's one device that the job says.
struct StagesOfDevice {
  std::shared_ptr<const NetworkPlan> network;
  std::map<uint32_t, std::unique_ptr<PipelineStage>> stages;  // By number.
};
using MakeStages = std::function<absl::StatusOr<StagesOfDevice>(
    const InputSpec& input, uint32_t device)>;
// Makes them, each time on the same device of this machine. Thread-safe. Its
// errors are those of BuiltInModels, and INVALID_ARGUMENT if the pipeline has
// no such device.
MakeStages StagesOf(const v1::JobConfig& job);

// The job for who has one replica and learns nothing, whatever it says: an
// evaluation, a prediction. Of several GPUs that it names, its device is the
// first; it has no teachers, and swaps nothing, so that it needs no directory
// for that.
v1::JobConfig WithOneReplica(v1::JobConfig job);
// The job for who computes nothing with the model: no GPU is opened or claimed.
// Without a budget for activations whose type is the GPU's alone.
v1::JobConfig WithoutGpu(v1::JobConfig job);
// Whether this machine has the GPUs of the job's replicas, as BuiltInModels
// says it; nobody's claim. The first one is opened for that. `elsewhere`: so
// many of the pipeline's devices are in other processes.
absl::Status CheckGpus(const v1::JobConfig& job, uint32_t elsewhere = 0);

// The setting `device` of each replica of strategy "mirrored", which is a
// process of its own as far as that goes: of what the job's comes to on this
// machine. The errors of ChooseDevices.
absl::StatusOr<std::vector<std::string>> DevicesOfReplicas(
    const v1::JobConfig& job);

}  // namespace paramd

#endif  // PARAMD_WORKER_MODEL_FACTORY_H_
