#ifndef PARAMD_WORKER_INPUT_OPEN_PIPELINE_H_
#define PARAMD_WORKER_INPUT_OPEN_PIPELINE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "proto/paramd/v1/input.pb.h"
#include "worker/input/pipeline.h"
#include "worker/input/prefetcher.h"

namespace paramd {

// Opens what `config` names to train on, or, if it follows that, nothing yet
// (see GrowingSource); the order of examples and what is random follow from
// `seed`. File names are relative to the directory beside them unless they
// begin with '/'. INVALID_ARGUMENT if the input names nothing or a stage does
// not suit; else the errors of the format.
absl::StatusOr<std::unique_ptr<Pipeline>> OpenTrainingData(
    const v1::InputConfig& config, uint64_t seed);

// Opens what `config` names to evaluate on. Errors as above, and if it does not
// look like `training`, the spec of what was trained on.
absl::StatusOr<std::unique_ptr<Pipeline>> OpenTestData(
    const v1::InputConfig& config, const InputSpec& training);

// Where the training data lie: what DataSet.directory says of them.
std::string TrainingDirectory(const v1::InputConfig& config);

// What `config` says about making batches ahead; threads found by auto are at
// most 64, and 16 for each processor of this process.
Prefetcher::Options PrefetchOptions(const v1::InputConfig& config,
                                    uint64_t batch_size);

}  // namespace paramd

#endif  // PARAMD_WORKER_INPUT_OPEN_PIPELINE_H_
