#ifndef PARAMD_CHECKPOINT_VERIFY_H_
#define PARAMD_CHECKPOINT_VERIFY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {

// A checkpoint's directory by its name, "000001-00000005.step-9370": the
// snapshot's term and counter, then the step.
struct CheckpointName {
  v1::Version snapshot;
  uint64_t step = 0;
  std::string name;
};
std::string FormatCheckpointName(const v1::Version& snapshot, uint64_t step);
// Nothing if `name` is not the name of a committed checkpoint.
absl::optional<CheckpointName> ParseCheckpointName(absl::string_view name);
// The committed checkpoints in a directory, newest snapshot first, verified or
// not. NOT_FOUND if there is no such directory.
absl::StatusOr<std::vector<CheckpointName>> ListCheckpointNames(
    const std::string& root);

// The manifest of a checkpoint, checked by itself. DATA_LOSS if it is damaged,
// FAILED_PRECONDITION if it needs a newer reader, NOT_FOUND if there is none.
absl::StatusOr<v1::Manifest> ReadManifest(const std::string& directory);

// Whether the files that `manifest` names are in `directory` with the sizes,
// checksums and tensors it says. Reads them wholly. DATA_LOSS naming the first
// one that is not.
absl::Status VerifyFiles(const std::string& directory,
                         const v1::Manifest& manifest);

// ReadManifest and VerifyFiles, and that a directory with a checkpoint's name
// holds the checkpoint of that number.
absl::StatusOr<v1::Manifest> VerifyCheckpoint(const std::string& directory);

// Of all files that the manifest names.
uint64_t CheckpointBytes(const v1::Manifest& manifest);

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_VERIFY_H_
