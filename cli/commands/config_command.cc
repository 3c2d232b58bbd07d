#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "base/print.h"
#include "base/status_macros.h"
#include "cli/commands/command.h"
#include "cli/process/exit_code.h"
#include "cli/process/process_flags.h"
#include "cli/process/run_options.h"
#include "cli/process/start_checks.h"
#include "config/print_config.h"

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

// All that a start would refuse; what was not looked at is in `unchecked`.
absl::Status CheckAll(const RunOptions& options, const Configuration& loaded,
                      const ModelFactory& models, std::string* unchecked) {
  if (!loaded.cluster.nothing_to_do().empty()) return absl::OkStatus();
  const v1::JobConfig& job = loaded.job.config;
  ASSIGN_OR_RETURN(const ProcessRole role,
                   RoleIn(loaded.cluster, job, options));
  const Start start{options, job, loaded.cluster, role};
  RETURN_IF_ERROR(CheckStart(start));
  std::vector<std::string> left;
  RETURN_IF_ERROR(CheckContent(start, models, &left));
  *unchecked = NotChecked(start, std::move(left));
  return absl::OkStatus();
}

}  // namespace

int ConfigCheckCommand(const Invocation& invocation) {
  RunOptions options;
  Flags flags("config check", "--job FILE [flags]",
              "Says everything that is wrong with the job file, the cluster "
              "and the data that\nthis task reads, and what it could not "
              "check; starts nothing. Takes the flags of\n'paramd run', and "
              "ends with its exit code.");
  options.AddTo(&flags);
  absl::StatusOr<Configuration> loaded = absl::UnknownError("not loaded");
  int exit_code = kExitFinished;
  if (!LoadFor(&flags, options.process, invocation, &loaded, &exit_code)) {
    return exit_code;
  }
  std::string unchecked = "nothing";
  const absl::Status status =
      CheckAll(options, *loaded, invocation.models, &unchecked);
  PrintError(status);
  if (!status.ok()) return ExitCodeAtStart(status);
  if (!loaded->job.warning.empty()) {
    Print(absl::StrCat("paramd: ", loaded->job.warning, "\n"), stderr);
  }
  Print(absl::StrCat(options.process.job.job_path, ": nothing is wrong (job ",
                     loaded->job.config.name(), ", digest ", loaded->job.digest,
                     ")\nnot checked: ", unchecked, "\n"));
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
