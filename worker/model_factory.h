#ifndef PARAMD_WORKER_MODEL_FACTORY_H_
#define PARAMD_WORKER_MODEL_FACTORY_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"

#include "proto/paramd/v1/config.pb.h"
#include "worker/input/batch.h"
#include "worker/model/trained_model.h"

namespace paramd {

// Makes the model of a job whose examples look like this. An error is a sentence
// that names what does not fit. Each process
// of a job must be given one that makes the same variables.
using ModelFactory = std::function<absl::StatusOr<std::unique_ptr<TrainedModel>>(
    const v1::JobConfig& job, const InputSpec& input)>;

// The layers and the loss of the job file, on the device that it says; see
// ChooseDevice for what may be wrong with that.
ModelFactory BuiltInModels();

}  // namespace paramd

#endif  // PARAMD_WORKER_MODEL_FACTORY_H_
