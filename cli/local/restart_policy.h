#ifndef PARAMD_CLI_LOCAL_RESTART_POLICY_H_
#define PARAMD_CLI_LOCAL_RESTART_POLICY_H_

#include "absl/time/time.h"

namespace paramd {

// Decides what becomes of one task whose process has ended, from exit codes
// alone. What says "retry me" (138), was killed (137), aborted (134) or had a
// memory fault (139) is started again, each time after twice the wait; 0 is
// the end of the task; everything else ends the cluster.
//
// Not thread-safe.
class RestartPolicy {
 public:
  struct Options {
    int most_restarts = 3;
    absl::Duration first_wait = absl::Milliseconds(500);
    absl::Duration longest_wait = absl::Seconds(10);
  };
  enum class Verdict { kFinished, kRestart, kStopCluster };

  explicit RestartPolicy(const Options& options) : options_(options) {}

  // kRestart counts one restart, to be carried out after wait(); once
  // most_restarts are used up the answer is kStopCluster.
  Verdict OnExit(int exit_code);

  // Of the restart that OnExit decided last.
  absl::Duration wait() const { return wait_; }
  int restarts() const { return restarts_; }

  // Whether a process that ended with this code may do better next time.
  static bool IsWorthRestarting(int exit_code);

 private:
  const Options options_;
  int restarts_ = 0;
  absl::Duration wait_ = absl::ZeroDuration();
};

}  // namespace paramd

#endif  // PARAMD_CLI_LOCAL_RESTART_POLICY_H_
