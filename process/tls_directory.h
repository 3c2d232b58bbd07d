#ifndef PARAMD_PROCESS_TLS_DIRECTORY_H_
#define PARAMD_PROCESS_TLS_DIRECTORY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace paramd {

// The certificates of one job, as files:
//
//   DIR/ca.crt, DIR/ca.key             the job's own authority
//   DIR/job                            the job's name
//   DIR/ps-0/ca.crt, tls.crt, tls.key  what ps 0 needs; and so each task
//
// Keys are readable by their owner alone, directories too.
struct TlsTasks {
  int servers = 0;
  int workers = 0;
  int evaluators = 0;
  int operators = 0;
  int readers = 0;
  int stages = 0;
};

// Makes all of it, valid from an hour before `now` (for clocks that differ) for
// so many days; the authority for ten years, or as long as that if it is more.
// kInvalidArgument if the job's name is none, kFailedPrecondition, with nothing
// changed, if there is something in `directory` already.
absl::Status MakeTlsDirectory(const std::string& directory,
                              const std::string& job, const TlsTasks& tasks,
                              int days, absl::Time now);

// Replaces the certificate of each task in there, one file at a time, for the
// key it has. The tasks, in order. kInvalidArgument, naming the file, if one
// can't be read; those before it are replaced. Also kInvalidArgument, with
// nothing replaced, if they would outlive the authority.
absl::StatusOr<std::vector<std::string>> RenewTlsDirectory(
    const std::string& directory, int days, absl::Time now);

}  // namespace paramd

#endif  // PARAMD_PROCESS_TLS_DIRECTORY_H_
