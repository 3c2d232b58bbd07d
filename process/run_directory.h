#ifndef PARAMD_PROCESS_RUN_DIRECTORY_H_
#define PARAMD_PROCESS_RUN_DIRECTORY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paramd {

// Makes `<root>/<name>-N`, for this user alone (mode 0700), for the smallest N
// above all that exist and returns its path; `root` is made too if need be. Two
// processes at once get different ones. PermissionDenied or Internal, with
// nothing made but perhaps `root`, if the directory cannot be made.
absl::StatusOr<std::string> MakeRunDirectory(absl::string_view root,
                                             absl::string_view name);

// The `<root>/<name>-N` with the largest N of those whose run has begun; what a
// start that failed has left is passed over. With `any`, for runs whose state
// lies elsewhere, of all. NotFound if there is none.
absl::StatusOr<std::string> NewestRunDirectory(absl::string_view root,
                                               absl::string_view name,
                                               bool any = false);

// Makes `path`, for this user alone unless it is there, and the directories
// above it. FailedPrecondition if it holds something already and
// `may_hold_a_run` is false.
absl::Status UseRunDirectory(absl::string_view path, bool may_hold_a_run);

// NotFound unless a run was started in `path`, as its configuration log or its
// logs tell. Makes nothing.
absl::Status CheckRunStartedIn(absl::string_view path);

// Whether a run has its configuration log in this directory.
bool HoldsARun(absl::string_view path);

// Whether it came so far that its configuration is in there, or can't be read.
bool HasBegun(absl::string_view path);

// `path` from the root on, by the working directory. Not resolved further.
std::string PathFromRoot(absl::string_view path);

// `path` from the working directory on if it lies in it, else unchanged.
std::string ShortPath(absl::string_view path);

}  // namespace paramd

#endif  // PARAMD_PROCESS_RUN_DIRECTORY_H_
