#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

#include "base/escape.h"
#include "base/print.h"
#include "base/status_macros.h"
#include "cli/commands/command.h"
#include "cli/commands/local_cluster.h"
#include "cli/commands/operator_client.h"
#include "cli/commands/stage_run.h"
#include "cli/local/kill_plan.h"
#include "cli/local/supervisor.h"
#include "config/strategy.h"
#include "coordinator/chief_lease.h"
#include "coordinator/failure_note.h"
#include "process/exit_code.h"
#include "process/job_flags.h"
#include "process/next_commands.h"
#include "process/run_directory.h"
#include "process/run_options.h"
#include "process/run_result.h"
#include "process/terminal/console.h"
#include "process/terminal/dashboard.h"
#include "process/termination_log.h"

namespace paramd {
namespace {

constexpr int kMostProcesses = 64;  // Of each kind.

// Where this run writes: what the job says, or the next free directory below
// runs/, or with --resume the newest run there. ALREADY_EXISTS if it is
// running, NOT_FOUND if --resume has none to go on with. One with a backup goes
// on by itself.
absl::StatusOr<std::string> ChooseRunDirectory(const v1::JobConfig& job,
                                               bool resume) {
  std::string run_dir = job.run_dir();
  const bool has_backup = !job.backup_and_restore().directory().empty();
  if (!run_dir.empty()) {
    if (resume && !has_backup) RETURN_IF_ERROR(CheckRunStartedIn(run_dir));
    RETURN_IF_ERROR(UseRunDirectory(run_dir, resume || has_backup));
  } else {
    ASSIGN_OR_RETURN(run_dir, resume ? NewestRunDirectory("runs", job.name(),
                                                          /*any=*/has_backup)
                                     : MakeRunDirectory("runs", job.name()));
  }
  // Before anything of the other's is written over, its logs for one.
  RETURN_IF_ERROR(ChiefLease::CheckFree(
      StateDirectory(job).empty() ? run_dir : StateDirectory(job)));
  return run_dir;
}

void AddFlags(LocalOptions* options, Flags* flags) {
  flags->AddCount("servers", "parameter servers", {1, kMostProcesses},
                  &options->servers);
  flags->AddCount("workers", "workers; worker 0 is the chief",
                  {1, kMostProcesses}, &options->workers);
  flags->AddCount("stages",
                  "processes for each worker that compute the first stages of "
                  "its pipeline",
                  {0, kMostProcesses}, &options->stages);
  flags->AddCount("restarts",
                  "restarts of one process whose exit code allows one",
                  {0, 1000000}, &options->restarts);
  flags->AddSwitch("resume", "go on with the newest run of this job",
                   &options->resume);
  flags->AddText(
      "kill", "TASK@epoch=N",
      "kill this task's process in that epoch (kill -9), to see what "
      "a lost process costs; several: a,b",
      &options->kill);
  flags->AddText("tls_dir", "DIR",
                 "the processes speak TLS, with what 'paramd tls init' made in "
                 "DIR for each",
                 &options->tls_dir);
  flags->AddText("trace", "FILE", kTraceFlag, &options->trace_path);
  options->job.AddTo(flags);
}

void PrintFailure(const Supervisor::Outcome& outcome, Console* console) {
  console->Say(absl::StrCat(
      outcome.sentence,
      outcome.last_lines.empty() ? "" : "; the last lines it printed:"));
  for (const std::string& line : outcome.last_lines) {
    Print(absl::StrCat("  ", line, "\n"), stderr);
  }
}

// The command line that goes on with what was interrupted.
std::string ResumeCommand(const Invocation& invocation) {
  std::string command = absl::StrCat(ShellQuoted(invocation.program), " local");
  bool resumes = false;
  for (const std::string& argument : invocation.arguments) {
    absl::StrAppend(&command, " ", ShellQuoted(argument));
    resumes |= argument == "--resume" || argument == "--resume=true";
  }
  return resumes ? command : absl::StrCat(command, " --resume");
}

// Whether --resume finds this run: one that had not begun it passes over.
bool ResumesAt(const v1::JobConfig& job, const std::string& run_dir) {
  return !job.run_dir().empty() ||
         !job.backup_and_restore().directory().empty() || HasBegun(run_dir);
}

void PrintEnd(const Invocation& invocation, const LocalOptions& options,
              const v1::JobConfig& job, const std::string& run_dir,
              Console* console) {
  EndView end;
  end.program = invocation.program;
  end.next = NextCommands(options.job, job, ShortPath(run_dir));
  const auto result = ReadRunResult(run_dir);
  if (result.ok()) FillEnd(*result, &end);
  PrintError(result.status());
  console->Print(absl::StrCat("\n", RenderEnd(end)));
}

// A cluster that could not begin.
Supervisor::Outcome NotBegun(const absl::Status& status) {
  PrintError(status);
  return {.exit_code = ExitCodeAtStart(status),
          .sentence = std::string(status.message())};
}

// InvalidArgument if the strategy has no several processes, or no servers, and
// some were asked for.
absl::Status ChooseServers(const Invocation& invocation,
                           const v1::JobConfig& job, LocalOptions* options) {
  if (UsesServers(job)) return absl::OkStatus();
  if (job.strategy() != v1::JobConfig::MULTI_WORKER_MIRRORED) {
    return absl::InvalidArgumentError(absl::StrCat(
        "strategy: \"", StrategyName(job.strategy()),
        "\" runs in one process, "
        "and paramd local starts several; use paramd run, or choose "
        "\"parameter_server\" or \"multi_worker_mirrored\""));
  }
  for (const std::string& argument : invocation.arguments) {
    if (argument != "--servers" && !absl::StartsWith(argument, "--servers=")) {
      continue;
    }
    return absl::InvalidArgumentError(
        "strategy: \"multi_worker_mirrored\" has no servers, but --servers is "
        "given; leave that out, or choose \"parameter_server\"");
  }
  options->servers = 0;
  return absl::OkStatus();
}

// Runs the job and says how it ended.
Supervisor::Outcome RunJob(const Invocation& invocation,
                           const LocalOptions& options,
                           const v1::JobConfig& job) {
  auto kills =
      KillPlan::Parse(options.kill, {.servers = options.servers,
                                     .workers = options.workers,
                                     .stages = options.workers * options.stages,
                                     .epochs = job.epochs()});
  if (!kills.ok()) return NotBegun(kills.status());
  const auto tls = OperatorTls(options.tls_dir);
  if (!tls.ok()) return NotBegun(tls.status());
  const auto run_dir = ChooseRunDirectory(job, options.resume);
  if (!run_dir.ok()) return NotBegun(run_dir.status());
  const absl::Status logs =
      UseRunDirectory(absl::StrCat(*run_dir, "/logs"), true);
  if (!logs.ok()) return NotBegun(logs);
  LocalCluster cluster(options, job, *std::move(kills), *run_dir, *tls);
  const Supervisor::Outcome outcome = cluster.Run();
  const std::string stopped = FailureNote::WhyStopped(*run_dir);
  if (outcome.exit_code == kExitFinished && !stopped.empty()) {
    cluster.console()->Say(EscapeLine(stopped));
    if (ResumesAt(job, *run_dir)) {
      cluster.console()->Say(
          absl::StrCat("to go on: ", ResumeCommand(invocation)));
    }
  } else if (outcome.exit_code == kExitFinished) {
    PrintEnd(invocation, options, job, *run_dir, cluster.console());
  } else {
    PrintFailure(outcome, cluster.console());
    const bool may_go_on = outcome.exit_code == kExitInterrupted ||
                           outcome.exit_code == kExitStopped ||
                           outcome.exit_code == kExitRetry;
    if (may_go_on && ResumesAt(job, *run_dir)) {
      cluster.console()->Say(
          absl::StrCat("to go on: ", ResumeCommand(invocation)));
    }
  }
  return outcome;
}

// One stage, in the directory of the run.
Supervisor::Outcome TrainStage(const Invocation& invocation,
                               LocalOptions options, const StageRun& run,
                               int number) {
  options.job = run.FlagsOf(number);
  const v1::JobConfig& job = run.stage(number).config;
  const auto tls = OperatorTls(options.tls_dir);
  if (!tls.ok()) return NotBegun(tls.status());
  absl::Status status = ChiefLease::CheckFree(job.run_dir());
  if (status.ok()) {
    status = UseRunDirectory(absl::StrCat(job.run_dir(), "/logs"), true);
  }
  if (!status.ok()) return NotBegun(status);
  LocalCluster cluster(options, job, KillPlan(), job.run_dir(), *tls);
  cluster.console()->Say(absl::StrCat(run.Title(number), " begins"));
  Supervisor::Outcome outcome = cluster.Run();
  const std::string stopped = FailureNote::WhyStopped(job.run_dir());
  outcome.was_stopped = outcome.exit_code == kExitFinished && !stopped.empty();
  if (outcome.was_stopped) {
    cluster.console()->Say(EscapeLine(stopped));
  } else if (outcome.exit_code != kExitFinished) {
    PrintFailure(outcome, cluster.console());
  }
  const bool may_go_on =
      outcome.was_stopped || outcome.exit_code == kExitInterrupted ||
      outcome.exit_code == kExitStopped || outcome.exit_code == kExitRetry;
  if (may_go_on) {
    cluster.console()->Say(
        absl::StrCat("to go on: ", ResumeCommand(invocation)));
  }
  return outcome;
}

// Each stage in turn, until one does not end well.
Supervisor::Outcome RunStagesIn(const Invocation& invocation,
                                const LocalOptions& options,
                                const StageRun& run) {
  const absl::Status begun = run.Begin();
  if (!begun.ok()) return NotBegun(begun);
  for (;;) {
    const auto next = run.Next();
    if (!next.ok()) return NotBegun(next.status());
    if (next->what == NextStage::What::kNothing) break;
    if (next->what == NextStage::What::kTrain) {
      const Supervisor::Outcome outcome =
          TrainStage(invocation, options, run, next->number);
      if (outcome.exit_code != kExitFinished || outcome.was_stopped) {
        return outcome;
      }
    }
    const int exit_code = run.Finish(next->number, invocation);
    if (exit_code != kExitFinished) {
      return {.exit_code = exit_code,
              .sentence = absl::StrCat(run.Title(next->number), " has failed")};
    }
  }
  Print(absl::StrCat("\n", run.Describe()));
  return {};
}

Supervisor::Outcome RunStagesHere(const Invocation& invocation,
                                  LocalOptions options,
                                  const LoadedJob& first) {
  if (!options.kill.empty() || !options.trace_path.empty()) {
    return NotBegun(absl::InvalidArgumentError(absl::StrCat(
        options.kill.empty() ? "--trace" : "--kill",
        " is of one job, and this one has stages; choose one by --stage")));
  }
  const absl::Status servers =
      ChooseServers(invocation, first.config, &options);
  if (!servers.ok()) return NotBegun(servers);
  const auto run_dir =
      StageRun::ChooseDirectory(first.as_stage, options.resume);
  if (!run_dir.ok()) return NotBegun(run_dir.status());
  const auto run = StageRun::Create(options.job, *run_dir);
  return run.ok() ? RunStagesIn(invocation, options, *run)
                  : NotBegun(run.status());
}

// The sentence, and what the process that it is about said last.
std::string ReasonOf(const Supervisor::Outcome& outcome) {
  return outcome.last_lines.empty()
             ? outcome.sentence
             : absl::StrCat(outcome.sentence, ": ", outcome.last_lines.back());
}

}  // namespace

int LocalCommand(const Invocation& invocation) {
  CatchSupervisorSignals();
  LocalOptions options;
  Flags flags("local", "--job FILE [flags]",
              "Runs a whole cluster of processes on this machine.");
  AddFlags(&options, &flags);
  Supervisor::Outcome outcome;
  absl::optional<std::string> termination_log;
  absl::Status wrong;
  if (const auto exit_code = ParseFlags(invocation, &flags, &wrong)) {
    outcome = {.exit_code = *exit_code,
               .sentence = std::string(wrong.message())};
  } else if (const auto stages = StageRun::StagesOf(options.job);
             !stages.ok() || !stages->empty()) {
    outcome = stages.ok() ? RunStagesHere(invocation, options, stages->front())
                          : NotBegun(stages.status());
  } else if (const auto job = options.job.Load(); job.ok()) {
    termination_log = job->config.termination_log();
    absl::Status servers = CheckRunsByItself(*job);
    if (servers.ok()) {
      servers = ChooseServers(invocation, job->config, &options);
    }
    outcome = servers.ok() ? RunJob(invocation, options, job->config)
                           : NotBegun(servers);
  } else {
    outcome = NotBegun(job.status());
  }
  if (outcome.exit_code == kExitFinished) return kExitFinished;
  // A job that can't be loaded says nothing.
  WriteTerminationLog(termination_log.has_value()
                          ? *termination_log
                          : options.job.Raw("termination_log", kTerminationLog),
                      ReasonOf(outcome));
  return outcome.exit_code;
}

}  // namespace paramd
