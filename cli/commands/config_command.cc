#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"

#include "base/print.h"
#include "base/status_macros.h"
#include "cli/commands/command.h"
#include "cli/commands/stage_fit.h"
#include "cli/commands/stage_run.h"
#include "config/print_config.h"
#include "config/stages.h"
#include "process/exit_code.h"
#include "process/process_flags.h"
#include "process/run_options.h"
#include "process/start_checks.h"

namespace paramd {
namespace {

// Loads what the flags name. True if there is a configuration to go on with;
// else `exit_code` is the process's, and all has been said.
bool Load(const ProcessFlags& process, absl::StatusOr<Configuration>* loaded,
          int* exit_code) {
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

// The job of a stage as far as it can be checked before those that come before
// have finished.
Configuration WithoutOtherStages(Configuration loaded) {
  v1::JobConfig& job = loaded.job.config;
  if (loaded.job.stage.has_from()) job.clear_warm_start();
  ForgetLabelsOfStages(loaded.job.as_stage.input(), job.mutable_input());
  if (!job.has_distill()) return loaded;
  job.mutable_distill()->clear_teachers();
  for (const std::string& teacher : loaded.job.as_stage.distill().teachers()) {
    if (absl::StartsWith(teacher, StageReference(""))) continue;
    job.mutable_distill()->add_teachers(teacher);
  }
  if (job.distill().teachers().empty()) job.clear_distill();
  return loaded;
}

absl::Status CheckEachStage(const RunOptions& options,
                            absl::Span<const LoadedJob> stages,
                            const ModelFactory& models) {
  for (const LoadedJob& stage : stages) {
    RunOptions of = options;
    of.process.job.stage = stage.stage.name();
    ASSIGN_OR_RETURN(Configuration loaded, of.process.Load());
    if (KindOf(stage.stage) != StageKind::kTrain) continue;
    std::string unchecked;
    RETURN_IF_ERROR(CheckAll(of, WithoutOtherStages(std::move(loaded)), models,
                             &unchecked));
  }
  return CheckStagesFit(stages);
}

int CheckStages(const RunOptions& options, absl::Span<const LoadedJob> stages,
                const ModelFactory& models) {
  const absl::Status status = CheckEachStage(options, stages, models);
  PrintError(status);
  if (!status.ok()) return ExitCodeAtStart(status);
  std::vector<std::string> names;
  for (const LoadedJob& stage : stages) names.push_back(stage.stage.name());
  Print(absl::StrCat(options.process.job.job_path, ": nothing is wrong (job ",
                     stages[0].config.name(), ", stages ",
                     absl::StrJoin(names, ", "),
                     ")\nnot checked: what a stage takes from one that has not "
                     "finished\n"));
  return kExitFinished;
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
  if (const auto code = ParseFlags(invocation, &flags)) return *code;
  const auto stages = StageRun::StagesOf(options.process.job);
  PrintError(stages.status());
  if (!stages.ok()) return kExitBadConfiguration;
  if (!stages->empty()) {
    return CheckStages(options, *stages, invocation.models);
  }
  absl::StatusOr<Configuration> loaded = absl::UnknownError("not loaded");
  int exit_code = kExitFinished;
  if (!Load(options.process, &loaded, &exit_code)) return exit_code;
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
  if (const auto code = ParseFlags(invocation, &flags)) return *code;
  absl::StatusOr<Configuration> loaded = absl::UnknownError("not loaded");
  int exit_code = kExitFinished;
  if (!Load(process, &loaded, &exit_code)) return exit_code;
  const auto text = PrintConfig(loaded->job, loaded->cluster, format);
  PrintError(text.status());
  if (!text.ok()) return kExitBadConfiguration;
  Print(*text);
  return kExitFinished;
}

}  // namespace paramd
