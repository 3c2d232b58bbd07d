#ifndef PARAMD_WORKER_EVALUATOR_CHECKPOINT_WEIGHTS_H_
#define PARAMD_WORKER_EVALUATOR_CHECKPOINT_WEIGHTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// The values of a model's variables in the checkpoint at `path`, row-major, in
// the order of the variables; what is read is checked against its checksums. The
// errors of ReadSlicesFromCheckpoint: it lacks one, has it in another shape, or
// is damaged.
absl::StatusOr<std::vector<std::vector<float>>> ReadWeights(
    const std::string& path, const std::vector<v1::Variable>& variables);

}  // namespace paramd

#endif  // PARAMD_WORKER_EVALUATOR_CHECKPOINT_WEIGHTS_H_
