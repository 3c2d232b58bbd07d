#include "process/exit_code.h"

#include <csignal>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"

#include "base/print.h"
#include "proto/stopped_job.h"

namespace paramd {

std::vector<std::pair<int, std::string>> ExitCodeMeanings() {
  return {
      {kExitFinished,
       "the job is finished, or an operator has stopped it, or has drained "
       "this ps"},
      {kExitFailed, "failed for a reason that stays"},
      {kExitBadConfiguration,
       "wrong flags, job file, `TF_CONFIG`, directory or port"},
      {kExitInterrupted, "interrupted (Ctrl-C)"},
      {kExitRetry, "lost something that may come back"},
      {kExitStopped,
       "stopped by SIGTERM or SIGHUP, after it finished what was in flight"},
  };
}

int ExitCodeOf(const absl::Status& status, int signal) {
  if (IsStoppedJob(status)) return kExitFinished;
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
      if (signal != 0) return kExitStopped;  // SIGTERM, SIGHUP.
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
  Print(absl::StrCat("paramd: ", status.message(), "\n"), stderr);
}

}  // namespace paramd
