#ifndef PARAMD_PROCESS_TERMINAL_REMAINING_TIME_H_
#define PARAMD_PROCESS_TERMINAL_REMAINING_TIME_H_

#include <deque>

#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/time.h"

namespace paramd {

// How long a job will still take, if it goes on as in the last minute. Not
// thread-safe.
class RemainingTime {
 public:
  // The job has come to `done` of `all`. Nullopt while that is not known: at
  // the beginning, where nothing was done in the last minute or something was
  // taken back, and at the end.
  absl::optional<absl::Duration> Take(double done, double all, Time now);

 private:
  struct Sample {
    Time at;
    double done = 0;
  };

  std::deque<Sample>
      samples_;  // Bound: one for each second of the last minute.
};

}  // namespace paramd

#endif  // PARAMD_PROCESS_TERMINAL_REMAINING_TIME_H_
