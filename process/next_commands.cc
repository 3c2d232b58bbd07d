#include "process/next_commands.h"

#include "absl/strings/str_cat.h"

#include "process/terminal/dashboard.h"

namespace paramd {
namespace {

using Job = v1::JobConfig;

// How a job of this strategy is started, and what makes it larger.
struct Ways {
  absl::string_view command;
  absl::string_view larger;
  absl::string_view larger_strategy = "";  // Empty: the same.
};

Ways WaysOf(Job::Strategy strategy) {
  switch (strategy) {
    case Job::ONE_DEVICE:
      // It has one replica; another has more of them.
      return {"run", "--replicas 2", "central_storage"};
    case Job::MIRRORED:
    case Job::CENTRAL_STORAGE:
      return {"run", "--replicas 4"};
    case Job::MULTI_WORKER_MIRRORED:
      return {"local", "--workers 4"};
    default:
      return {"local", "--servers 3 --workers 4"};
  }
}

}  // namespace

std::vector<std::string> NextCommands(const JobFlags& flags, const Job& job,
                                      absl::string_view run_dir) {
  const Ways ways = WaysOf(job.strategy());
  // The job file may name another strategy.
  const std::string strategy = flags.Raw("strategy", "");
  const auto again = [&](absl::string_view with) {
    return absl::StrCat(
        ways.command, " --job ", ShellQuoted(flags.job_path),
        with.empty() ? "" : absl::StrCat(" --strategy ", ShellQuoted(with)));
  };
  return {absl::StrCat("checkpoint inspect ", ShellQuoted(run_dir)),
          absl::StrCat(
              again(ways.larger_strategy.empty() ? absl::string_view(strategy)
                                                 : ways.larger_strategy),
              " ", ways.larger),
          absl::StrCat(again(strategy), " --set optimizer.learning_rate=0.01")};
}

}  // namespace paramd
