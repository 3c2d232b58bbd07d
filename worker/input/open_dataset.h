#ifndef PARAMD_WORKER_INPUT_OPEN_DATASET_H_
#define PARAMD_WORKER_INPUT_OPEN_DATASET_H_

#include <memory>

#include "absl/status/statusor.h"

#include "proto/paramd/v1/config.pb.h"
#include "worker/input/dataset.h"

namespace paramd {

// Opens what `config` names to train on. File names are relative to its
// directory unless they begin with '/'. INVALID_ARGUMENT if the format is not
// set or a file name is missing; else the errors of the format's Open.
absl::StatusOr<std::unique_ptr<Dataset>> OpenTrainingData(
    const v1::InputConfig& config);

// Opens what `config` names to evaluate on. Errors as above, and if it does not
// look like `training`, the spec of what was trained on.
absl::StatusOr<std::unique_ptr<Dataset>> OpenTestData(
    const v1::InputConfig& config, const InputSpec& training);

}  // namespace paramd

#endif  // PARAMD_WORKER_INPUT_OPEN_DATASET_H_
