#include "cli/local/restart_policy.h"

#include <algorithm>
#include <csignal>

#include "process/exit_code.h"

namespace paramd {

bool RestartPolicy::IsWorthRestarting(int exit_code) {
  return exit_code == kExitRetry || exit_code == 128 + SIGKILL ||
         exit_code == 128 + SIGABRT || exit_code == 128 + SIGSEGV;
}

RestartPolicy::Verdict RestartPolicy::OnExit(int exit_code) {
  if (exit_code == kExitFinished) return Verdict::kFinished;
  if (!IsWorthRestarting(exit_code) || restarts_ >= options_.most_restarts) {
    return Verdict::kStopCluster;
  }
  ++restarts_;
  wait_ = restarts_ == 1 ? options_.first_wait
                         : std::min(2 * wait_, options_.longest_wait);
  return Verdict::kRestart;
}

}  // namespace paramd
