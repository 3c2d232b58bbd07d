#ifndef PARAMD_PROCESS_EXIT_CODE_H_
#define PARAMD_PROCESS_EXIT_CODE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace paramd {

// What a process says to whoever started it.
enum ExitCode : int {
  kExitFinished = 0,
  kExitFailed = 1,  // Again makes no difference.
  kExitBadConfiguration = 2,
  kExitInterrupted = 130,
  kExitRetry = 138,    // Lost something that may come back: start me again.
  kExitStopped = 143,  // By SIGTERM, after a clean drain.
};

// What each means, for people: "138", "lost something …".
std::vector<std::pair<int, std::string>> ExitCodeMeanings();

// The code for a process that ran and ended with `status`: OK 0, and so is
// StoppedJob, so that nothing starts it again; UNAVAILABLE,
// ABORTED and DEADLINE_EXCEEDED 138; ALREADY_EXISTS (a living process has this
// task) and INVALID_ARGUMENT (what it was told does not fit the others or the
// run) 2; CANCELLED 130 after SIGINT and 143 after SIGTERM and SIGHUP (`signal`
// is the one that came, 0 if none did); anything else 1.
int ExitCodeOf(const absl::Status& status, int signal);

// The code for a process that could not begin: as above, but what the
// configuration names wrongly (NOT_FOUND, PERMISSION_DENIED,
// FAILED_PRECONDITION, OUT_OF_RANGE) is 2.
int ExitCodeAtStart(const absl::Status& status);

// Prints "paramd: <message>" to stderr unless `status` is OK.
void PrintError(const absl::Status& status);

}  // namespace paramd

#endif  // PARAMD_PROCESS_EXIT_CODE_H_
