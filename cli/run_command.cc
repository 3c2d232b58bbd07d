#include <cstdio>

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

int RunPrepared(const Invocation& invocation, const RunOptions& options,
                PreparedProcess* prepared) {
  Runtime* runtime = prepared->runtime.get();
  const absl::Duration drain_timeout =
      absl::Milliseconds(prepared->job.config.drain_timeout_ms());
  SignalWatcher watcher([runtime, drain_timeout](int signal) {
    Log(LogLevel::kInfo, "draining",
        {{"signal", signal}, {"at_most", absl::FormatDuration(drain_timeout)}});
    runtime->Drain(absl::CancelledError("stopped by a signal"), drain_timeout);
  });
  Console console(stdout, stderr, /*in_place=*/false);
  absl::optional<Progress> progress;
  if (prepared->cluster.standalone) {
    progress.emplace(EmptyView(prepared->job.config), &console, runtime,
                     absl::Seconds(5));
  }
  Log(LogLevel::kInfo, "ready");
  const absl::Status status = runtime->Run();
  progress.reset();
  const int exit_code = ExitCodeOf(status, watcher.signal());
  if (watcher.signal() == 0) Complain(*prepared, status);
  Log(LogLevel::kInfo, "ended", {{"exit_code", exit_code}});
  if (status.ok() && prepared->cluster.standalone) {
    PrintEnd(invocation, options, *prepared, &console);
  }
  return exit_code;
}

}  // namespace

int RunCommand(const Invocation& invocation) {
  KeepMemory();
  SignalWatcher::Catch();
  RunOptions options;
  Flags flags("run", "--job FILE [flags]",
              "Runs one process of a cluster: the task that TF_CONFIG names. "
              "Without TF_CONFIG\nthe whole job runs in this process.");
  flags.AddSwitch("insecure",
                  "also listen where other machines reach it, without TLS",
                  &options.insecure);
  options.process.AddTo(&flags);
  absl::Status status = flags.Parse(invocation.arguments);
  if (status.ok() && flags.help_wanted()) {
    std::fputs(flags.Help().c_str(), stdout);
    return kExitFinished;
  }
  PreparedProcess prepared;
  if (status.ok()) status = Prepare(options, &prepared);
  if (!status.ok()) {
    Complain(prepared, status);
    return ExitCodeAtStart(status);
  }
  const std::string nothing_to_do = prepared.cluster.nothing_to_do();
  if (!nothing_to_do.empty()) {
    std::printf("paramd: %s\n", nothing_to_do.c_str());
    return kExitFinished;
  }
  return RunPrepared(invocation, options, &prepared);
}

}  // namespace paramd
