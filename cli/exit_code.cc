#include "cli/exit_code.h"

#include <csignal>
#include <cstdio>
#include <string>

namespace paramd {

int ExitCodeOf(const absl::Status& status, int signal) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitFinished;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kDeadlineExceeded:
      return kExitRetry;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kInvalidArgument:
      return kExitBadConfiguration;
    case absl::StatusCode::kCancelled:
      if (signal == SIGINT) return kExitInterrupted;
      if (signal == SIGTERM) return kExitStopped;
      return kExitFailed;
    default:
      return kExitFailed;
  }
}

int ExitCodeAtStart(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
      return kExitBadConfiguration;
    default:
      return ExitCodeOf(status, /*signal=*/0);
  }
}

void PrintError(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "paramd: %s\n", std::string(status.message()).c_str());
}

}  // namespace paramd
