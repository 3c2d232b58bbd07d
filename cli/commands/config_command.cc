#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"

#include "base/print.h"
#include "cli/commands/command.h"
#include "cli/process/exit_code.h"
#include "cli/process/process_flags.h"
#include "config/print_config.h"
#include "worker/worker_process.h"

namespace paramd {
namespace {

// Parses the flags and loads what they name. True if there is a configuration
// to go on with; else `exit_code` is the process's, and all has been said.
bool LoadFor(Flags* flags, const ProcessFlags& process,
             const Invocation& invocation,
             absl::StatusOr<Configuration>* loaded, int* exit_code) {
  if (const auto code = ParseFlags(invocation, flags)) {
    *exit_code = *code;
    return false;
  }
  *loaded = process.Load();
  PrintError(loaded->status());
  *exit_code = kExitBadConfiguration;
  return loaded->ok();
}

// What only the data says: whether it can be read, and whether the model fits
// it. Done as a worker does it, where this task reads data.
absl::Status CheckData(const Configuration& loaded) {
  const v1::JobConfig& job = loaded.job.config;
  if (loaded.cluster.self.type == TaskType::kEvaluator) {
    return WorkerProcess::Check(WithOneReplica(job));
  }
  return loaded.cluster.worker_index() < 0 ? absl::OkStatus()
                                           : WorkerProcess::Check(job);
}

std::string NotChecked(const ClusterSpec& cluster) {
  std::string unchecked;
  if (cluster.worker_index() < 0 && cluster.self.type != TaskType::kEvaluator) {
    unchecked = absl::StrCat("the data, and whether the model fits it (",
                             TaskName(cluster.self), " reads none); ");
  }
  if (!cluster.standalone) {
    unchecked.append("whether the other tasks can be reached; ");
  }
  return absl::StrCat(unchecked, "whether what the job writes can be written");
}

}  // namespace

int ConfigCheckCommand(const Invocation& invocation) {
  ProcessFlags process;
  Flags flags("config check", "--job FILE [flags]",
              "Says everything that is wrong with the job file, the cluster "
              "and the data that\nthis task reads, and what it could not "
              "check; starts nothing.");
  process.AddTo(&flags);
  absl::StatusOr<Configuration> loaded = absl::UnknownError("not loaded");
  int exit_code = kExitFinished;
  if (!LoadFor(&flags, process, invocation, &loaded, &exit_code)) {
    return exit_code;
  }
  const absl::Status data = CheckData(*loaded);
  PrintError(data);
  if (!data.ok()) return kExitBadConfiguration;
  if (!loaded->job.warning.empty()) {
    Print(absl::StrCat("paramd: ", loaded->job.warning, "\n"), stderr);
  }
  Print(absl::StrCat(process.job.job_path, ": nothing is wrong (job ",
                     loaded->job.config.name(), ", digest ", loaded->job.digest,
                     ")\nnot checked: ", NotChecked(loaded->cluster), "\n"));
  return kExitFinished;
}

int ConfigPrintCommand(const Invocation& invocation) {
  ProcessFlags process;
  std::string format = "text";
  Flags flags("config print", "--job FILE [flags]",
              "Shows the effective configuration, where each value came from, "
              "and how this\nprocess read the cluster.");
  flags.AddText("format", "text|json", "how it is written", &format);
  process.AddTo(&flags);
  absl::StatusOr<Configuration> loaded = absl::UnknownError("not loaded");
  int exit_code = kExitFinished;
  if (!LoadFor(&flags, process, invocation, &loaded, &exit_code)) {
    return exit_code;
  }
  const auto text = PrintConfig(loaded->job, loaded->cluster, format);
  PrintError(text.status());
  if (!text.ok()) return kExitBadConfiguration;
  Print(*text);
  return kExitFinished;
}

}  // namespace paramd
