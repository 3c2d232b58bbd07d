#ifndef PARAMD_CHECKPOINT_WRITE_WEIGHTS_H_
#define PARAMD_CHECKPOINT_WRITE_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {

// Makes the directory `to`, which is not there yet, a checkpoint of the
// variables of `manifest` with these values, row-major, in their order, and
// nothing beside them: no slots, no counts of steps, no input. The rest of its
// manifest is what `manifest` says of the job and the step. `more` writes other
// files, each durable, into the directory that it is given, before this appears
// as `to`. The result is the size of the checkpoint's files.
//
// ALREADY_EXISTS if the directory is there; else what writing failed with, and
// nothing is left.
absl::StatusOr<uint64_t> WriteWeights(
    const std::string& to, const v1::Manifest& manifest,
    absl::Span<const std::vector<float>> values,
    absl::FunctionRef<absl::Status(const std::string& directory)> more);

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_WRITE_WEIGHTS_H_
