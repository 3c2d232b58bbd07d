#include <cstdio>
#include <memory>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/exit_code.h"
#include "cli/metrics_endpoint.h"
#include "cli/process.h"
#include "cli/process_facts.h"
#include "cli/process_flags.h"
#include "cli/progress.h"
#include "cli/run_directory.h"
#include "cli/run_result.h"
#include "cli/signal_watcher.h"
#include "cli/version.h"
#include "config/cluster_agreement.h"
#include "config/cluster_spec.h"
#include "net/grpc_runtime.h"
#include "net/in_process_runtime.h"
#include "net/keep_memory.h"

namespace paramd {
namespace {

struct RunOptions {
  ProcessFlags process;
  bool insecure = false;
};

// What a process is, made step by step; each step may find it impossible.
struct Prepared {
  LoadedJob job;
  ClusterSpec cluster;
  ProcessRole role;
  std::unique_ptr<Process> process;
  std::unique_ptr<ProcessFacts> facts;
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<MetricsEndpoint> metrics;  // May be null. Asks the runtime.
};

uint64_t DrawIncarnation() {
  std::random_device device;
  uint64_t drawn = 0;
  while (drawn == 0) drawn = uint64_t{device()} << 32 | device();
  return drawn;
}

absl::StatusOr<ProcessRole> RoleIn(const ClusterSpec& cluster) {
  ProcessRole role;
  role.incarnation = DrawIncarnation();
  if (cluster.standalone) {
    role.server = 0;
    role.worker = 0;
    return role;
  }
  role.servers = static_cast<uint32_t>(cluster.ps.size());
  role.workers = static_cast<uint32_t>(cluster.workers.size());
  if (cluster.is_ps()) {
    role.server = cluster.self.index;
  } else if (cluster.worker_index() >= 0) {
    role.worker = cluster.worker_index();
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("TF_CONFIG: task.type: this version has nothing to do for "
                     "a task of type ",
                     TaskTypeName(cluster.self.type)));
  }
  return role;
}

// "ps-0", "worker-1"; "paramd" if the whole job is in this process.
std::string NameOf(const Prepared& prepared) {
  if (prepared.cluster.standalone) return "paramd";
  return prepared.role.server.has_value()
             ? absl::StrCat("ps-", *prepared.role.server)
             : absl::StrCat("worker-", *prepared.role.worker);
}

LogLevel LevelOf(const v1::JobConfig& job) {
  switch (job.log_level()) {
    case v1::JobConfig::LOG_LEVEL_DEBUG:
      return LogLevel::kDebug;
    case v1::JobConfig::LOG_LEVEL_WARNING:
      return LogLevel::kWarning;
    case v1::JobConfig::LOG_LEVEL_ERROR:
      return LogLevel::kError;
    default:
      return LogLevel::kInfo;
  }
}

void LogStart(const Prepared& prepared) {
  InitLogging(NameOf(prepared), LevelOf(prepared.job.config));
  Log(LogLevel::kInfo, "starting",
      {{"version", ParamdVersion()}, {"commit", ParamdCommit()}});
  Log(LogLevel::kInfo, "configured",
      {{"job", prepared.job.config.name()},
       {"digest", prepared.job.digest},
       {"servers", prepared.role.servers},
       {"workers", prepared.role.workers}});
  if (!prepared.job.warning.empty()) {
    Log(LogLevel::kWarning, prepared.job.warning);
  }
  for (const std::string& note : prepared.cluster.notes) {
    Log(LogLevel::kInfo, note);
  }
}

// The chief writes; a chief that is restarted must find what it wrote.
absl::Status SettleRunDirectory(Prepared* prepared) {
  v1::JobConfig& job = prepared->job.config;
  if (!prepared->role.is_chief() || !job.run_dir().empty()) {
    return absl::OkStatus();
  }
  if (!prepared->cluster.standalone) {
    return absl::InvalidArgumentError(
        "run_dir is missing: in a cluster the chief needs --run_dir, where it "
        "goes on after a restart");
  }
  ASSIGN_OR_RETURN(const std::string run_dir,
                   MakeRunDirectory("runs", job.name()));
  SetRunDirectory(run_dir, &job);
  return absl::OkStatus();
}

GrpcRuntimeOptions GrpcOptions(const Prepared& prepared, bool insecure) {
  const ClusterSpec& cluster = prepared.cluster;
  GrpcRuntimeOptions options;
  options.listen_address = cluster.self_address();
  options.insecure = insecure;
  options.self.set_type(prepared.role.server ? v1::PS : v1::WORKER);
  options.self.set_index(prepared.role.server ? *prepared.role.server
                                              : *prepared.role.worker);
  options.incarnation = prepared.role.incarnation;
  options.job_name = prepared.job.config.name();
  options.job_digest = prepared.job.digest;
  options.job_settings =
      absl::StrSplit(prepared.job.job_wide_text, '\n', absl::SkipEmpty());
  options.cluster = EntriesToAgree(cluster);
  options.build = absl::StrCat(ParamdVersion(), " ", ParamdCommit());
  // An address that this process is not told is empty.
  for (size_t i = 0; i < cluster.ps.size(); ++i) {
    if (cluster.ps[i].empty()) continue;
    options.peers[PeerId::Ps(static_cast<uint32_t>(i))] = cluster.ps[i];
  }
  if (!cluster.chief_address().empty()) {
    options.peers[PeerId::Coordinator()] = cluster.chief_address();
  }
  return options;
}

absl::Status MakeRuntime(bool insecure, Prepared* prepared) {
  if (prepared->cluster.standalone) {
    prepared->runtime = MakeInProcessRuntime();
    Log(LogLevel::kInfo, "no TF_CONFIG: the whole job runs in this process");
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(prepared->runtime,
                   MakeGrpcRuntime(GrpcOptions(*prepared, insecure)));
  Log(LogLevel::kInfo, "listening",
      {{"address", prepared->cluster.self_address()}});
  return absl::OkStatus();
}

absl::Status ServeMetrics(bool insecure, Prepared* prepared) {
  MetricsEndpoint::Options options;
  options.address = prepared->job.config.metrics_address();
  options.insecure = insecure;
  if (options.address.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(prepared->metrics, MetricsEndpoint::Listen(options));
  prepared->metrics->SetSource([runtime = prepared->runtime.get()](auto done) {
    runtime->Post([runtime, done] { done(runtime->Status()); });
  });
  Log(LogLevel::kInfo, "serving metrics", {{"url", prepared->metrics->url()}});
  return absl::OkStatus();
}

absl::Status Prepare(const RunOptions& options, Prepared* prepared) {
  ASSIGN_OR_RETURN(Configuration all, options.process.Load());
  prepared->job = std::move(all.job);
  prepared->cluster = std::move(all.cluster);
  if (!prepared->cluster.nothing_to_do().empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(prepared->role, RoleIn(prepared->cluster));
  LogStart(*prepared);
  RETURN_IF_ERROR(SettleRunDirectory(prepared));
  ASSIGN_OR_RETURN(prepared->process,
                   Process::Create(prepared->role, prepared->job));
  RETURN_IF_ERROR(MakeRuntime(options.insecure, prepared));
  prepared->process->AddTo(prepared->runtime.get());
  // After those of the parts: it adds to what they say.
  prepared->facts = std::make_unique<ProcessFacts>(
      prepared->cluster, absl::StrCat(ParamdVersion(), " ", ParamdCommit()));
  prepared->runtime->OnStatus(
      [facts = prepared->facts.get()](v1::StatusReply* status) {
        facts->Fill(status);
      });
  return ServeMetrics(options.insecure, prepared);
}

ClusterView EmptyView(const v1::JobConfig& job) {
  ClusterView view;
  view.version = ParamdVersion();
  view.job_name = job.name();
  view.staleness = job.staleness();
  view.epochs = job.epochs();
  return view;
}

void PrintEnd(const Invocation& invocation, const RunOptions& options,
              const Prepared& prepared, Console* console) {
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
                Prepared* prepared) {
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
  if (watcher.signal() == 0) PrintError(status);
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
  Prepared prepared;
  if (status.ok()) status = Prepare(options, &prepared);
  if (!status.ok()) {
    PrintError(status);
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
