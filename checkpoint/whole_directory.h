#ifndef PARAMD_CHECKPOINT_WHOLE_DIRECTORY_H_
#define PARAMD_CHECKPOINT_WHOLE_DIRECTORY_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paramd {

// Makes a directory that appears at one instant, complete and durable, or not
// at all. `fill` writes its files, each durable, into the one that it is given,
// which lies beside `path` under a hidden name. What others left there that
// were making the same directory when they were killed is deleted. The sorted
// names of what is in it; ALREADY_EXISTS if `path` is a directory that holds
// something; ABORTED if others who clear up were faster, again and again; else
// what `fill` or the storage failed with, and nothing is left.
// REQUIRES: `path` goes from the root (AbsolutePath in checkpoint/file.h).
absl::StatusOr<std::vector<std::string>> MakeWholeDirectory(
    const std::string& path,
    absl::FunctionRef<absl::Status(const std::string& directory)> fill);

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_WHOLE_DIRECTORY_H_
