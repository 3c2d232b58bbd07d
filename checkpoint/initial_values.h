#ifndef PARAMD_CHECKPOINT_INITIAL_VALUES_H_
#define PARAMD_CHECKPOINT_INITIAL_VALUES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// What the variables of a model begin with that brings its own values: a
// safetensors file beside the checkpoints, which servers read as a warm start.
// It is not a checkpoint, and is written anew by every chief that starts.
inline constexpr char kInitialValuesFile[] = "initial.safetensors";

// Writes the file into `directory`, which is made if it is not there, in place
// of one that is. Its path from the root on; the error of the file.
// REQUIRES: as many values as the variables have elements, in their order.
absl::StatusOr<std::string> WriteInitialValues(
    const std::string& directory, absl::Span<const v1::Variable> variables,
    absl::Span<const std::vector<float>> values);

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_INITIAL_VALUES_H_
