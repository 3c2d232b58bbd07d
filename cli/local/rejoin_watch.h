#ifndef PARAMD_CLI_LOCAL_REJOIN_WATCH_H_
#define PARAMD_CLI_LOCAL_REJOIN_WATCH_H_

#include <map>
#include <string>

#include "absl/types/optional.h"

#include "base/time.h"

namespace paramd {

// Measures how long a worker that was restarted takes until it is of use again:
// from the start of its process until its first push is acknowledged.
//
// Not thread-safe.
class RejoinWatch {
 public:
  // A process of `task` is about to start.
  void Started(const std::string& task, Time now);

  // The newest status of `task` says when its process's first push was
  // acknowledged. A sentence for people if that is a process which is not the
  // task's first; once for each. What an earlier process said says nothing.
  absl::optional<std::string> Pushed(const std::string& task, Time first_push);

 private:
  struct Task {
    int starts = 0;
    Time started;
    bool back = false;
  };
  std::map<std::string, Task> tasks_;
};

}  // namespace paramd

#endif  // PARAMD_CLI_LOCAL_REJOIN_WATCH_H_
