#ifndef PARAMD_PROCESS_TERMINATION_LOG_H_
#define PARAMD_PROCESS_TERMINATION_LOG_H_

#include <string>

#include "absl/strings/string_view.h"

namespace paramd {

// Where Kubernetes looks for the last words of a container; the default of the
// setting `termination_log`.
inline constexpr char kTerminationLog[] = "/dev/termination-log";

// Writes `reason` there, at most 4096 bytes of it, which end with a whole
// character. What was there is replaced. Nothing happens if `path` is empty or
// is not a file that is there and can be written: it is never made.
void WriteTerminationLog(const std::string& path, absl::string_view reason);

}  // namespace paramd

#endif  // PARAMD_PROCESS_TERMINATION_LOG_H_
