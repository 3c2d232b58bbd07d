#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

#include "base/chrome_trace.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/print.h"
#include "base/status_macros.h"
#include "checkpoint/file.h"
#include "cli/commands/command.h"
#include "cli/commands/operator_client.h"
#include "cli/commands/stage_run.h"
#include "cli/local/kill_plan.h"
#include "cli/local/loopback.h"
#include "cli/local/rejoin_watch.h"
#include "cli/local/succession.h"
#include "cli/local/supervisor.h"
#include "config/strategy.h"
#include "coordinator/chief_lease.h"
#include "coordinator/failure_note.h"
#include "process/exit_code.h"
#include "process/job_flags.h"
#include "process/next_commands.h"
#include "process/observe/status_poller.h"
#include "process/run_directory.h"
#include "process/run_options.h"
#include "process/run_result.h"
#include "process/terminal/console.h"
#include "process/terminal/dashboard.h"
#include "process/terminal/remaining_time.h"
#include "process/termination_log.h"
#include "process/version.h"

namespace paramd {
namespace {

constexpr int kMostDraws = 5;       // Of an address, until its ports are free.
constexpr int kTicksPerLine = 5;    // Seconds between lines of progress.
constexpr int kMostProcesses = 64;  // Of each kind.

struct LocalOptions {
  JobFlags job;
  int servers = 2;
  int workers = 2;
  int stages = 0;  // Of each worker, in processes of their own.
  int restarts = 3;
  bool resume = false;
  std::string kill;        // Whom, and when: see KillPlan.
  std::string tls_dir;     // Empty: no TLS.
  std::string trace_path;  // Empty: none.
};

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

// What starts this program again: itself, or what has started it with a loader
// of its own (deploy/portable).
std::string OwnProgram() {
  const char* const launcher = std::getenv("PARAMD_LAUNCHER");
  const bool has_one = launcher != nullptr && *launcher != '\0';
  return has_one ? launcher : "/proc/self/exe";
}

// One cluster on this machine, from its first process to its last.
class LocalCluster {
 public:
  LocalCluster(const LocalOptions& options, const v1::JobConfig& job,
               KillPlan kills, std::string run_dir,
               std::shared_ptr<const Tls> tls)
      : options_(options),
        job_(job),
        kills_(std::move(kills)),
        run_dir_(std::move(run_dir)),
        tls_(std::move(tls)),
        console_(stdout, stderr, StdoutIsTerminal()),
        random_(std::random_device()()) {}

  Console* console() { return &console_; }

  // Draws addresses until one's ports are free, at most kMostDraws times.
  Supervisor::Outcome Run() {
    Supervisor::Outcome outcome;
    for (int draw = 0; draw < kMostDraws; ++draw) {
      const LoopbackCluster cluster =
          DrawLoopbackCluster(options_.servers, options_.workers,
                              options_.workers * options_.stages, &random_);
      outcome = RunAt(cluster);
      if (!outcome.port_taken) break;
      console_.Say(absl::StrCat(outcome.sentence, "; trying another address"));
    }
    return outcome;
  }

 private:
  SupervisedTask MakeTask(const LoopbackCluster& cluster,
                          const std::string& type, int index) const {
    SupervisedTask task;
    task.name = absl::StrCat(type, "-", index);
    task.is_chief = type == "worker" && index == 0;
    task.process.executable = OwnProgram();
    task.process.arguments = {"paramd", "run"};
    for (std::string& argument : options_.job.ToArguments()) {
      task.process.arguments.push_back(std::move(argument));
    }
    // A stage is told the directory of the whole run.
    const std::string run_dir = PathFromRoot(run_dir_);
    task.process.arguments.push_back(absl::StrCat(
        "--run_dir=",
        options_.job.stage.empty() ? run_dir : DirectoryOf(run_dir)));
    if (!options_.tls_dir.empty()) {
      task.process.arguments.push_back(
          absl::StrCat("--tls_dir=", PathFromRoot(options_.tls_dir)));
    }
    if (type == "worker" && !options_.trace_path.empty()) {
      task.process.arguments.push_back(
          absl::StrCat("--trace=", PathFromRoot(TraceOf(index))));
    }
    // They end, and this process says why it does.
    task.process.arguments.push_back("--linger_when_finished=false");
    task.process.arguments.push_back("--termination_log=");
    if (!job_.metrics_address().empty()) {
      const int place = type == "ps" ? index
                        : type == "worker"
                            ? options_.servers + index
                            : options_.servers + options_.workers + index;
      task.process.arguments.push_back(absl::StrCat(
          "--metrics_address=", LaterAddress(job_.metrics_address(), place)));
    }
    task.process.environment =
        EnvironmentWith("TF_CONFIG", cluster.TfConfig(type, index));
    return task;
  }

  // Where a worker writes its own.
  std::string TraceOf(int worker) const {
    return absl::StrCat(options_.trace_path, ".worker-", worker);
  }

  // Makes one of those that the workers wrote at their end; one that was killed
  // wrote none.
  void JoinTraceFiles() {
    if (options_.trace_path.empty()) return;
    std::vector<std::string> paths;
    for (int i = 0; i < options_.workers; ++i) paths.push_back(TraceOf(i));
    const absl::Status status = JoinTraces(paths, options_.trace_path);
    if (!status.ok()) {
      return console_.Say(std::string(status.message()));
    }
    for (const std::string& path : paths) std::remove(path.c_str());
    console_.Say(absl::StrCat("trace of the workers: ", options_.trace_path));
  }

  Supervisor::Outcome RunAt(const LoopbackCluster& cluster) {
    std::vector<SupervisedTask> tasks;
    std::vector<std::string> addresses = cluster.servers;
    for (int i = 0; i < options_.servers; ++i) {
      tasks.push_back(MakeTask(cluster, "ps", i));
    }
    for (int i = 0; i < options_.workers; ++i) {
      tasks.push_back(MakeTask(cluster, "worker", i));
      addresses.push_back(cluster.workers[i]);
    }
    for (size_t i = 0; i < cluster.stages.size(); ++i) {
      tasks.push_back(MakeTask(cluster, "stage", static_cast<int>(i)));
      addresses.push_back(cluster.stages[i]);
    }
    console_.Say(absl::StrCat(
        "run ", ShortPath(run_dir_), ", ",
        options_.servers > 0 ? absl::StrCat(options_.servers, " ps and ") : "",
        options_.workers,
        cluster.stages.empty()
            ? ""
            : absl::StrCat(" worker and ", cluster.stages.size(), " stage"),
        cluster.stages.empty() ? " worker processes from " : " processes from ",
        addresses[0], " on, logs in ", ShortPath(run_dir_), "/logs"));
    if (!job_.metrics_address().empty()) {
      console_.Say(absl::StrCat(
          "metrics at ", job_.metrics_address(),
          " and the ports that follow: the ps in order, then the workers",
          cluster.stages.empty() ? "" : ", then the stages"));
    }
    StatusPoller poller(addresses, absl::Seconds(1), tls_);
    poller_ = &poller;
    Supervisor::Options options = MakeOptions(tasks, addresses);
    Supervisor supervisor(std::move(options), std::move(tasks));
    supervisor_ = &supervisor;
    Supervisor::Outcome outcome = supervisor.Run();
    if (!outcome.port_taken) JoinTraceFiles();
    if (outcome.exit_code == kExitFinished) ShowTheEnd();
    console_.KeepBlock();
    return outcome;
  }

  Supervisor::Options MakeOptions(const std::vector<SupervisedTask>& tasks,
                                  const std::vector<std::string>& addresses) {
    Supervisor::Options options;
    options.restarts.most_restarts = options_.restarts;
    // The processes have that long themselves; what comes on top is for the
    // way there.
    options.drain_timeout =
        absl::Milliseconds(job_.drain_timeout_ms()) + absl::Seconds(4);
    options.finish_grace =
        absl::Milliseconds(job_.finish_timeout_ms()) + absl::Seconds(5);
    options.log_directory = absl::StrCat(run_dir_, "/logs");
    options.more_arguments = [this](const SupervisedTask& task) {
      rejoins_.Started(task.name, MonotonicNow());
      return succession_.NextOf(task.name);
    };
    options.on_line = [this](const std::string& task, const std::string& line) {
      console_.ProcessLine(task, line);
    };
    options.on_event = [this](const std::string& sentence) {
      console_.Say(sentence);
    };
    options.on_tick = [this] { OnTick(); };
    // The process has died; whoever holds its port now is somebody else.
    options.is_port_taken = [addresses, tasks](const SupervisedTask& task) {
      for (size_t i = 0; i < tasks.size(); ++i) {
        if (tasks[i].name == task.name) return IsTaken(addresses[i]);
      }
      return false;
    };
    return options;
  }

  ClusterView View() const {
    ClusterView view;
    view.version = ParamdVersion();
    view.job_name = job_.name();
    view.staleness = job_.staleness();
    view.grows = job_.input().has_follow();
    view.epochs = view.grows ? 0 : job_.epochs();
    const std::vector<StatusPoller::Answer> answers = poller_->Newest();
    const std::vector<TaskState> states = supervisor_->States();
    std::vector<ProcessReport> servers, workers;
    const int rows_shown = options_.servers + options_.workers;
    for (size_t i = 0; i < static_cast<size_t>(rows_shown); ++i) {
      ProcessReport report = {answers[i].newest, Note(answers[i], states[i])};
      auto& rows =
          i < static_cast<size_t>(options_.servers) ? servers : workers;
      rows.push_back(std::move(report));
    }
    FillView(servers, workers, &view);
    return view;
  }

  static std::string Note(const StatusPoller::Answer& answer,
                          const TaskState& state) {
    switch (state.kind) {
      case TaskState::Kind::kWaitingToRestart:
        return "restarting";
      case TaskState::Kind::kFailed:
        return absl::StrCat("exited ", state.exit_code);
      case TaskState::Kind::kFinished:
        return "";
      case TaskState::Kind::kRunning:
        break;
    }
    if (answer.answered_last) return "";
    return answer.newest.has_value() ? "no answer" : "starting";
  }

  void SayWhoIsBack() {
    const std::vector<StatusPoller::Answer> answers = poller_->Newest();
    for (int i = 0; i < options_.workers; ++i) {
      const StatusPoller::Answer& answer = answers[options_.servers + i];
      if (!answer.newest.has_value() ||
          !answer.newest->has_first_push_ago_ms()) {
        continue;
      }
      const auto back = rejoins_.Pushed(
          absl::StrCat("worker-", i),
          answer.received +
              -absl::Milliseconds(answer.newest->first_push_ago_ms()));
      if (back.has_value()) console_.Say(*back);
    }
  }

  void OnTick() {
    ++ticks_;
    SayWhoIsBack();
    ClusterView view = View();
    view.left = remaining_.Take(view.epochs_done, view.epochs, MonotonicNow());
    if (console_.in_place()) {
      console_.ShowBlock(RenderBlock(view, TerminalWidth(stdout)));
    } else if (ticks_ % kTicksPerLine == 0) {
      console_.Print(absl::StrCat(RenderLine(view), "\n"));
    }
    for (const KillPlan::Kill& kill : kills_.Due(view.epochs_done)) {
      // One that does not run now is killed as soon as it does.
      const auto process = supervisor_->Kill(kill.task);
      if (!process.has_value()) continue;
      kills_.Remove(kill);
      console_.Say(absl::StrCat("kill -9 ", *process, ": ", kill.task,
                                " is killed in epoch ", kill.epoch,
                                ", as --kill says"));
    }
  }

  void ShowTheEnd() {
    ClusterView view = View();
    const auto result = ReadRunResult(run_dir_);
    if (result.ok()) FinishView(*result, &view);
    if (console_.in_place()) {
      console_.ShowBlock(RenderBlock(view, TerminalWidth(stdout)));
    } else {
      console_.Print(absl::StrCat(RenderLine(view), "\n"));
    }
  }

  const LocalOptions& options_;
  const v1::JobConfig& job_;
  KillPlan kills_;
  const std::string run_dir_;
  const std::shared_ptr<const Tls> tls_;  // May be null.
  Console console_;
  RandomStream random_;
  Succession succession_;
  RejoinWatch rejoins_;
  RemainingTime remaining_;
  int64_t ticks_ = 0;
  const StatusPoller* poller_ = nullptr;  // While RunAt is.
  Supervisor* supervisor_ = nullptr;      // While RunAt is.
};

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
