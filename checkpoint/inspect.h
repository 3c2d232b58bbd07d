#ifndef PARAMD_CHECKPOINT_INSPECT_H_
#define PARAMD_CHECKPOINT_INSPECT_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace paramd {

// What `paramd checkpoint` prints: text for people, ended by a newline. `path`
// is the directory of a run, of its checkpoints, or of one checkpoint.
// NOT_FOUND naming the path if there is no checkpoint.

// A line for each checkpoint, newest first: number, step, when it was made, its
// size, files, and `ok` or what is wrong with it, as far as it takes no reading
// of numbers: manifests, sizes, headers. `damaged`, unless null, is set to how
// many are not `ok`.
absl::StatusOr<std::string> ListCheckpoints(const std::string& path,
                                            size_t* damaged = nullptr);

// What is in one checkpoint, that of the highest number if `path` has several:
// its manifest in short, then each variable with shape, parts and slots; if
// `values`, the range and mean of its values, the share of zeros, and how many
// rows of keyed ones have a key, by when it was last named, for which all files
// are read and their checksums looked at, at most 8 MiB at a time. DATA_LOSS
// naming what is wrong with the checkpoint.
absl::StatusOr<std::string> InspectCheckpoint(const std::string& path,
                                              bool values = false);

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_INSPECT_H_
