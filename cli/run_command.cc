#include <csignal>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/exit_code.h"
#include "cli/prepared_process.h"
#include "cli/progress.h"
#include "cli/run_directory.h"
#include "cli/run_result.h"
#include "cli/signal_watcher.h"
#include "cli/termination_log.h"
#include "cli/version.h"
#include "net/keep_memory.h"

namespace paramd {
namespace {

ClusterView EmptyView(const v1::JobConfig& job) {
  ClusterView view;
  view.version = ParamdVersion();
  view.job_name = job.name();
  view.staleness = job.staleness();
  view.epochs = job.epochs();
  return view;
}

void PrintEnd(const Invocation& invocation, const RunOptions& options,
              const PreparedProcess& prepared, Console* console) {
  const std::string& run_dir = prepared.job.config.run_dir();
  EndView end;
  end.program = invocation.program;
  end.job_path = options.process.job.job_path;
  end.run_dir = ShortPath(run_dir);
  const auto result = ReadRunResult(run_dir);
  if (result.ok()) FillEnd(*result, &end);
  PrintError(result.status());
  console->Print(absl::StrCat("\n", RenderEnd(end)));
}

// How a process ended, and why if not well.
struct Ended {
  int exit_code = kExitFinished;
  std::string reason = {};
};

Ended EndOf(const PreparedProcess& prepared, const absl::Status& status,
            int signal) {
  if (signal == 0) Complain(prepared, status);
  return {ExitCodeOf(status, signal), std::string(status.message())};
}

// Runs the runtime. What came of it, and the signal that told it to end; 0:
// none did.
absl::Status RunUntilTold(PreparedProcess* prepared, int* signal) {
  Runtime* runtime = prepared->runtime.get();
  const absl::Duration drain_timeout =
      absl::Milliseconds(prepared->job.config.drain_timeout_ms());
  SignalWatcher watcher([runtime, drain_timeout](int number) {
    Log(LogLevel::kInfo, "draining",
        {{"signal", number}, {"at_most", absl::FormatDuration(drain_timeout)}});
    runtime->Drain(
        absl::CancelledError(absl::StrCat(
            "stopped by ", number == SIGTERM ? "SIGTERM" : "SIGINT")),
        drain_timeout);
  });
  Log(LogLevel::kInfo, "ready");
  const absl::Status status = runtime->Run();
  watcher.Stop();
  *signal = watcher.signal();
  return status;
}

// Stays until it is told to end, which is a good end.
Ended Linger(const RunOptions& options, PreparedProcess* prepared) {
  Log(LogLevel::kInfo, "the job is finished; staying until SIGTERM");
  int signal = 0;
  absl::Status status = PrepareToLinger(options, prepared);
  if (status.ok()) status = RunUntilTold(prepared, &signal);
  if (absl::IsCancelled(status) && signal != 0) return {};
  return EndOf(*prepared, status, signal);
}

Ended RunPrepared(const Invocation& invocation, const RunOptions& options,
                  PreparedProcess* prepared) {
  Console console(stdout, stderr, /*in_place=*/false);
  absl::optional<Progress> progress;
  if (prepared->cluster.standalone) {
    progress.emplace(EmptyView(prepared->job.config), &console,
                     prepared->runtime.get(), absl::Seconds(5));
  }
  int signal = 0;
  const absl::Status status = RunUntilTold(prepared, &signal);
  progress.reset();
  if (status.ok() && prepared->cluster.standalone) {
    PrintEnd(invocation, options, *prepared, &console);
  }
  const bool lingers =
      status.ok() && signal == 0 && prepared->job.config.linger_when_finished();
  const Ended ended =
      lingers ? Linger(options, prepared) : EndOf(*prepared, status, signal);
  Log(LogLevel::kInfo, "ended", {{"exit_code", ended.exit_code}});
  return ended;
}

// From the configuration to the end.
Ended PrepareAndRun(const Invocation& invocation, const RunOptions& options,
                    PreparedProcess* prepared) {
  const absl::Status status = Prepare(options, prepared);
  if (!status.ok()) {
    Complain(*prepared, status);
    return {ExitCodeAtStart(status), std::string(status.message())};
  }
  const std::string nothing_to_do = prepared->cluster.nothing_to_do();
  if (nothing_to_do.empty()) return RunPrepared(invocation, options, prepared);
  std::printf("paramd: %s\n", nothing_to_do.c_str());
  return {};
}

}  // namespace

int RunCommand(const Invocation& invocation) {
  RunOptions options;
  Flags flags("run", "--job FILE [flags]",
              "Runs one process of a cluster: the task that TF_CONFIG names. "
              "Without TF_CONFIG\nthe whole job runs in this process.");
  flags.AddSwitch("insecure",
                  "also listen where other machines reach it, without TLS",
                  &options.insecure);
  flags.AddText("incarnation", "HEX",
                "whoever starts this process calls it so; drawn if not given",
                &options.incarnation);
  flags.AddText("replaces", "HEX",
                "the process of this worker before this one, which has ended: "
                "its lease need not run out",
                &options.replaces);
  options.process.AddTo(&flags);
  PreparedProcess prepared;
  Ended ended;
  absl::Status wrong;
  if (const auto exit_code = ParseFlags(invocation, &flags, &wrong)) {
    ended = {*exit_code, std::string(wrong.message())};
  } else {
    KeepMemory();
    SignalWatcher::Catch();
    ended = PrepareAndRun(invocation, options, &prepared);
  }
  if (ended.exit_code != kExitFinished) {
    // A job that can't be loaded says nothing.
    WriteTerminationLog(
        prepared.job.config.has_termination_log()
            ? prepared.job.config.termination_log()
            : options.process.job.Raw("termination_log", kTerminationLog),
        ended.reason);
  }
  return ended.exit_code;
}

}  // namespace paramd
