#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

#include "base/log.h"
#include "base/print.h"
#include "base/status_macros.h"
#include "cli/commands/command.h"
#include "cli/commands/stage_run.h"
#include "cli/stages/stage_meeting.h"
#include "config/stages.h"
#include "net/keep_memory.h"
#include "process/exit_code.h"
#include "process/next_commands.h"
#include "process/observe/process_facts.h"
#include "process/prepared_process.h"
#include "process/resource_needs.h"
#include "process/run_directory.h"
#include "process/run_result.h"
#include "process/signal_watcher.h"
#include "process/terminal/console.h"
#include "process/terminal/dashboard.h"
#include "process/terminal/progress.h"
#include "process/termination_log.h"
#include "process/version.h"
#include "proto/job_end.h"
#include "proto/paramd/v1/status.pb.h"
#include "proto/stopped_job.h"

namespace paramd {
namespace {

// What a process may take for its end beyond drain_timeout, so that both fit
// into the 30 s that Kubernetes gives unless told otherwise.
constexpr absl::Duration kReleaseTime = absl::Seconds(3);

void PrintEnd(const Invocation& invocation, const RunOptions& options,
              const PreparedProcess& prepared, Console* console) {
  const std::string& run_dir = prepared.job.config.run_dir();
  EndView end;
  end.program = invocation.program;
  end.next = NextCommands(options.process.job, prepared.job.config,
                          ShortPath(run_dir));
  const auto result = ReadRunResult(run_dir);
  if (result.ok()) FillEnd(*result, &end);
  PrintError(result.status());
  console->Print(absl::StrCat("\n", RenderEnd(end)));
}

// How a process ended, and why if not well.
struct Ended {
  int exit_code = kExitFinished;
  std::string reason = {};
  bool has_run = false;
  // An operator has stopped the job, or drained this ps: a good end.
  bool was_stopped = false;
};

Ended EndOf(const PreparedProcess& prepared, const absl::Status& status,
            int signal) {
  if (IsStoppedJob(status)) {
    Log(LogLevel::kInfo, status.message());
    return {.was_stopped = true};
  }
  if (signal == 0 || !absl::IsCancelled(status)) Complain(prepared, status);
  return {ExitCodeOf(status, signal), std::string(status.message())};
}

absl::Status StoppedBy(int signal) {
  return absl::CancelledError(absl::StrCat("stopped by ", SignalName(signal)));
}

// A job that can't be loaded says nothing of its own.
std::string TerminationLogOf(const RunOptions& options,
                             const PreparedProcess& prepared) {
  return prepared.job.config.has_termination_log()
             ? prepared.job.config.termination_log()
             : options.process.job.Raw("termination_log", kTerminationLog);
}

// Says why, if it is not finished.
void WriteReason(const std::string& path, const Ended& ended) {
  if (ended.exit_code == kExitFinished) return;
  WriteTerminationLog(path, ended.reason);
}

// What a signal does before anything has begun, and while data is read.
SignalWatcher::Handler EndBeforeReady(const std::string& termination_log) {
  return [termination_log](int signal) {
    const absl::Status status = StoppedBy(signal);
    const Ended ended = {ExitCodeOf(status, signal),
                         std::string(status.message())};
    Log(LogLevel::kInfo, "ended before it was ready",
        {{"signal", SignalName(signal)}, {"exit_code", ended.exit_code}});
    WriteReason(termination_log, ended);
    _exit(ended.exit_code);
  };
}

// What ends a process that has not ended in time: Kubernetes sends one signal
// and then kills, which leaves no reason behind.
SignalWatcher::Handler EndLate(const std::string& termination_log,
                               const Ended& ended) {
  return [termination_log, ended](int) {
    WriteReason(termination_log, ended);
    _exit(ended.exit_code);
  };
}

// What a signal does when the runtime has ended and what it had is released,
// which may take as long as a step of the work that is under way.
SignalWatcher::Handler EndAtOnce(const std::string& termination_log,
                                 const Ended& ended) {
  return [termination_log, ended](int signal) {
    Log(LogLevel::kInfo, "ended at once",
        {{"signal", SignalName(signal)}, {"exit_code", ended.exit_code}});
    WriteReason(termination_log, ended);
    _exit(ended.exit_code);
  };
}

absl::Status RunAll(PreparedProcess* prepared) {
  if (prepared->process == nullptr) return prepared->runtime->Run();
  if (prepared->multi_worker != nullptr) return prepared->multi_worker->Run();
  return prepared->mirrors != nullptr
             ? prepared->mirrors->Run()
             : prepared->process->Run(prepared->runtime.get());
}

// Runs the runtime; what came of it. A signal before drains, one after it ends
// the process at once; and so does the time, where what the runtime leaves
// behind (a long step, a wait for input, storage that hangs) does not end.
absl::Status RunUntilTold(const std::string& termination_log,
                          PreparedProcess* prepared, SignalWatcher* watcher) {
  Runtime* runtime = prepared->runtime.get();
  const absl::Duration drain_timeout =
      absl::Milliseconds(prepared->job.config.drain_timeout_ms());
  watcher->Handle([runtime, drain_timeout](int signal) {
    // First of all: the line waits for whoever reads stderr.
    runtime->Drain(StoppedBy(signal), drain_timeout);
    Log(LogLevel::kInfo, "draining",
        {{"signal", SignalName(signal)},
         {"at_most", absl::FormatDuration(drain_timeout)}});
  });
  const absl::Duration most = drain_timeout + kReleaseTime;
  watcher->EndWithin(most, [termination_log](int signal) {
    const absl::Status stopped = StoppedBy(signal);
    EndLate(termination_log, {ExitCodeOf(stopped, signal),
                              std::string(stopped.message())})(signal);
  });
  Log(LogLevel::kInfo, "ready");
  const absl::Status status = RunAll(prepared);
  prepared->desk.reset();  // Who still waits there waits for nothing.
  const Ended ended = {ExitCodeOf(status, watcher->signal()),
                       std::string(status.message())};
  watcher->Handle(EndAtOnce(termination_log, ended));
  watcher->EndWithin(most, EndLate(termination_log, ended));
  return status;
}

// Stays until it is told to end, which is a good end.
Ended Linger(const RunOptions& options, const absl::Status& end,
             PreparedProcess* prepared, SignalWatcher* watcher) {
  Log(LogLevel::kInfo,
      absl::StrCat(end.ok() ? "the job is finished" : end.message(),
                   "; staying until SIGTERM"));
  absl::Status status = PrepareToLinger(options, ToFinished(end), prepared);
  if (status.ok()) {
    status =
        RunUntilTold(TerminationLogOf(options, *prepared), prepared, watcher);
  }
  if (absl::IsCancelled(status) && watcher->signal() != 0) return {};
  return EndOf(*prepared, status, watcher->signal());
}

Ended RunPrepared(const Invocation& invocation, const RunOptions& options,
                  PreparedProcess* prepared, SignalWatcher* watcher) {
  Console console(stdout, stderr, /*in_place=*/false);
  absl::optional<Progress> progress;
  if (prepared->cluster.standalone) {
    progress.emplace(EmptyView(prepared->job.config, ParamdVersion()), &console,
                     prepared->runtime.get(), absl::Seconds(5));
  }
  absl::Status status =
      RunUntilTold(TerminationLogOf(options, *prepared), prepared, watcher);
  if (status.ok() && watcher->signal() == 0 && prepared->process->is_missed()) {
    status = absl::UnavailableError(
        "this ps was to be drained, and ended before it heard that others have "
        "all that it held: start it again, the job may wait for it");
  }
  progress.reset();
  // Of a stage the whole job's end speaks.
  if (status.ok() && prepared->cluster.standalone &&
      options.process.job.stage.empty()) {
    PrintEnd(invocation, options, *prepared, &console);
  }
  const bool was_drained = status.ok() && prepared->process->was_drained();
  const bool lingers = (status.ok() || IsStoppedJob(status)) && !was_drained &&
                       watcher->signal() == 0 &&
                       prepared->job.config.linger_when_finished();
  Ended ended = lingers ? Linger(options, status, prepared, watcher)
                        : EndOf(*prepared, status, watcher->signal());
  // The chief knows how the job is; others would say that it is gone. Who was
  // told to end does not stay.
  if (!lingers && ended.exit_code == kExitFinished && watcher->signal() == 0 &&
      prepared->metrics != nullptr && prepared->role.is_chief()) {
    v1::StatusReply last = prepared->runtime->Status();
    FillEnd(ToFinished(status), &last);
    prepared->metrics->ShowLast(std::move(last));
  }
  ended.has_run = true;
  ended.was_stopped = ended.was_stopped || was_drained;
  return ended;
}

// From the configuration to the end.
Ended PrepareAndRun(const Invocation& invocation, const RunOptions& options,
                    PreparedProcess* prepared, SignalWatcher* watcher) {
  const absl::Status status = Prepare(options, invocation.models, prepared);
  if (!status.ok()) {
    Complain(*prepared, status);
    return {ExitCodeAtStart(status), std::string(status.message())};
  }
  const std::string& nothing_to_do = prepared->nothing_to_do;
  if (nothing_to_do.empty()) {
    return RunPrepared(invocation, options, prepared, watcher);
  }
  Print(absl::StrCat("paramd: ", nothing_to_do, "\n"));
  return {};
}

Ended NotStarted(const absl::Status& status) {
  PrintError(status);
  return {ExitCodeAtStart(status), std::string(status.message())};
}

// The run's directory of a job with stages, in which its processes meet.
absl::StatusOr<std::string> StagesDirectory(const Configuration& loaded) {
  const std::string& run_dir = loaded.job.as_stage.run_dir();
  if (!run_dir.empty()) return run_dir;
  if (loaded.cluster.standalone) {
    return MakeRunDirectory("runs", loaded.job.config.name());
  }
  return absl::InvalidArgumentError(
      "run_dir: is missing; the processes of a job with stages meet in one "
      "directory between them, so give all the same, which they share");
}

std::vector<std::string> TasksOf(const ClusterSpec& cluster) {
  std::vector<std::string> tasks;
  for (size_t i = 0; i < cluster.ps.size(); ++i) {
    tasks.push_back(absl::StrCat("ps-", i));
  }
  for (size_t i = 0; i < cluster.workers.size(); ++i) {
    tasks.push_back(absl::StrCat("worker-", i));
  }
  return tasks;
}

std::string TaskOf(const ClusterSpec& cluster) {
  if (cluster.is_ps()) return absl::StrCat("ps-", cluster.self.index);
  return cluster.worker_index() < 0
             ? absl::StrCat("evaluator-", cluster.self.index)
             : absl::StrCat("worker-", cluster.worker_index());
}

// One process of a job with stages, which goes from one to the next: each is a
// job of its own. What others have done it finds in the run's directory.
class ProcessOfStages {
 public:
  ProcessOfStages(const Invocation& invocation, const RunOptions& options,
                  const Configuration& loaded, StageRun run,
                  SignalWatcher* watcher)
      : invocation_(invocation),
        options_(options),
        standalone_(loaded.cluster.standalone),
        writes_(standalone_ || loaded.cluster.is_chief()),
        termination_log_(loaded.job.config.termination_log()),
        meeting_(TasksOf(loaded.cluster),
                 standalone_ ? "" : TaskOf(loaded.cluster),
                 absl::Milliseconds(loaded.job.config.start_timeout_ms())),
        run_(std::move(run)),
        watcher_(*watcher) {}

  Ended Run() {
    const absl::Status begun = writes_ ? run_.Begin() : absl::OkStatus();
    if (!begun.ok()) return NotStarted(begun);
    for (;;) {
      const auto next = run_.Next();
      if (!next.ok()) return NotStarted(next.status());
      if (next->what == NextStage::What::kNothing) break;
      if (next->what == NextStage::What::kTrain) {
        const Ended ended = Train(next->number);
        if (ended.exit_code != kExitFinished || ended.was_stopped) return ended;
      }
      const Ended ended = Finish(next->number);
      if (ended.exit_code != kExitFinished) return ended;
    }
    if (writes_) Print(absl::StrCat("\n", run_.Describe()));
    return {};
  }

 private:
  void Say(int number, absl::string_view what) const {
    Log(LogLevel::kInfo, absl::StrCat(run_.Title(number), " ", what));
  }

  Ended Train(int number) {
    if (writes_) Say(number, "begins");
    RunOptions options = options_;
    options.process.job = run_.FlagsOf(number);
    if (!options.trace_path.empty()) {
      absl::StrAppend(&options.trace_path, ".",
                      run_.stage(number).stage.name());
    }
    options_.replaces.clear();  // It is known of the first one alone.
    Ended ended;
    {
      PreparedProcess prepared;
      ended = PrepareAndRun(invocation_, options, &prepared, &watcher_);
    }
    watcher_.Handle(EndBeforeReady(termination_log_));
    if (ended.exit_code == kExitFinished && watcher_.signal() != 0) {
      const absl::Status stopped = StoppedBy(watcher_.signal());
      return {ExitCodeOf(stopped, watcher_.signal()),
              std::string(stopped.message())};
    }
    return ended;
  }

  Ended Finish(int number) {
    const LoadedJob& stage = run_.stage(number);
    const std::string& directory = stage.config.run_dir();
    const bool trains = KindOf(stage.stage) == StageKind::kTrain;
    if (!writes_) {
      absl::Status status =
          trains ? meeting_.Leave(directory) : absl::OkStatus();
      if (status.ok()) status = meeting_.AwaitRecord(directory);
      return status.ok() ? Ended() : NotStarted(status);
    }
    if (trains && !standalone_) meeting_.AwaitOthers(directory);
    const int exit_code = run_.Finish(number, invocation_);
    if (exit_code != kExitFinished) {
      return {exit_code, absl::StrCat(run_.Title(number), " has failed")};
    }
    Say(number, "is finished");
    return {};
  }

  const Invocation& invocation_;
  RunOptions options_;
  const bool standalone_;
  const bool writes_;  // What is said of the run.
  const std::string termination_log_;
  const StageMeeting meeting_;
  const StageRun run_;
  SignalWatcher& watcher_;
};

absl::StatusOr<StageRun> OpenStages(const RunOptions& options,
                                    const Configuration& loaded) {
  ASSIGN_OR_RETURN(const std::string run_dir, StagesDirectory(loaded));
  return StageRun::Create(options.process.job, run_dir);
}

Ended RunStagesOf(const Invocation& invocation, const RunOptions& options,
                  const LoadedJob& first, SignalWatcher* watcher) {
  ProcessFlags process = options.process;
  process.job.stage = first.stage.name();
  const auto loaded = process.Load();
  if (!loaded.ok()) return NotStarted(loaded.status());
  if (!loaded->cluster.nothing_to_do().empty()) {
    Print(absl::StrCat("paramd: ", loaded->cluster.nothing_to_do(), "\n"));
    return {};
  }
  if (loaded->cluster.joins()) {
    return NotStarted(absl::InvalidArgumentError(
        "--join: the processes of a job with stages meet in the run's "
        "directory, by the names that the cluster gives them; one more can't "
        "join"));
  }
  if (!loaded->cluster.stages.empty()) {
    return NotStarted(absl::InvalidArgumentError(
        "stage: the cluster has tasks that compute stages of a pipeline, and "
        "they don't go from one stage of the job to the next; run each stage "
        "of the job by itself, with --stage, or leave these tasks out"));
  }
  auto run = OpenStages(options, *loaded);
  if (!run.ok()) return NotStarted(run.status());
  return ProcessOfStages(invocation, options, *loaded, *std::move(run), watcher)
      .Run();
}

// Of a job with stages each in turn, of one that has none the job. What came of
// it; `prepared` is of the latter.
Ended RunJobOrStages(const Invocation& invocation, const RunOptions& options,
                     PreparedProcess* prepared, SignalWatcher* watcher) {
  const JobFlags& job = options.process.job;
  const auto stages = StageRun::StagesOf(job);
  if (!stages.ok()) return NotStarted(stages.status());
  if (!stages->empty()) {
    prepared->job = stages->front();  // It says how a bad end is told.
    return RunStagesOf(invocation, options, stages->front(), watcher);
  }
  const absl::StatusOr<LoadedJob> one =
      job.stage.empty() ? LoadedJob() : job.Load();
  const absl::Status wrong = one.ok() ? CheckRunsByItself(*one) : one.status();
  return wrong.ok() ? PrepareAndRun(invocation, options, prepared, watcher)
                    : NotStarted(wrong);
}

}  // namespace

int RunCommand(const Invocation& invocation) {
  SignalWatcher::Catch();
  RunOptions options;
  Flags flags("run", "--job FILE [flags]",
              "Runs one process of a cluster: the task that TF_CONFIG names. "
              "Without TF_CONFIG\nthe whole job runs in this process.");
  options.AddTo(&flags);
  absl::optional<SignalWatcher> watcher;  // Until all below is released.
  Ended ended;
  absl::optional<PreparedProcess> prepared(absl::in_place);
  absl::Status wrong;
  if (const auto exit_code = ParseFlags(invocation, &flags, &wrong)) {
    ended = {*exit_code, std::string(wrong.message())};
  } else if (wrong = CheckResources(NeedsAtStart()); !wrong.ok()) {
    PrintError(wrong);
    ended = {ExitCodeAtStart(wrong), std::string(wrong.message())};
  } else {
    KeepMemory();
    watcher.emplace(EndBeforeReady(TerminationLogOf(options, *prepared)));
    ended = RunJobOrStages(invocation, options, &*prepared, &*watcher);
  }
  WriteReason(TerminationLogOf(options, *prepared), ended);
  // What is released may have something to say; nothing comes after this.
  prepared.reset();
  if (ended.has_run) {
    Log(LogLevel::kInfo, "ended", {{"exit_code", ended.exit_code}});
  }
  return ended.exit_code;
}

}  // namespace paramd
