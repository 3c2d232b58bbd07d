#ifndef PARAMD_PROTO_STOPPED_JOB_H_
#define PARAMD_PROTO_STOPPED_JOB_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace paramd {

// The one end of a job besides those of job_end.h, which tells it on: an
// operator has stopped it, as `sentence` says. CANCELLED, with a mark by which
// it is told from a process that was stopped by itself. No process has failed,
// and the run is not finished either.
absl::Status StoppedJob(absl::string_view sentence);
bool IsStoppedJob(const absl::Status& status);

}  // namespace paramd

#endif  // PARAMD_PROTO_STOPPED_JOB_H_
