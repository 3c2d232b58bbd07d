#ifndef PARAMD_CLI_REJOIN_WATCH_H_
#define PARAMD_CLI_REJOIN_WATCH_H_

#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "base/time.h"

namespace paramd {

// Measures how long a worker that was restarted takes until it is of use again:
// from the start of its process to the line in which it says that its first
// push was acknowledged.
//
// Not thread-safe.
class RejoinWatch {
 public:
  // A process of `task` is about to start.
  void Started(const std::string& task, Time now);

  // One line that it printed. A sentence for people if it says that a worker
  // whose process is not its first is back; once for each process.
  absl::optional<std::string> Printed(const std::string& task,
                                      absl::string_view line, Time now);

 private:
  struct Task {
    int starts = 0;
    Time started;
    bool back = false;
  };
  std::map<std::string, Task> tasks_;
};

}  // namespace paramd

#endif  // PARAMD_CLI_REJOIN_WATCH_H_
