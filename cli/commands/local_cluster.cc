#include "cli/commands/local_cluster.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/chrome_trace.h"
#include "base/clock.h"
#include "checkpoint/file.h"
#include "cli/local/child_process.h"
#include "process/exit_code.h"
#include "process/run_directory.h"
#include "process/run_result.h"
#include "process/terminal/dashboard.h"
#include "process/version.h"

namespace paramd {
namespace {

constexpr int kMostDraws = 5;     // Of an address, until its ports are free.
constexpr int kTicksPerLine = 5;  // Seconds between lines of progress.

// What starts this program again: itself, or what has started it with a loader
// of its own (deploy/portable).
std::string OwnProgram() {
  const char* const launcher = std::getenv("PARAMD_LAUNCHER");
  const bool has_one = launcher != nullptr && *launcher != '\0';
  return has_one ? launcher : "/proc/self/exe";
}

}  // namespace

LocalCluster::LocalCluster(const LocalOptions& options,
                           const v1::JobConfig& job, KillPlan kills,
                           std::string run_dir, std::shared_ptr<const Tls> tls)
    : options_(options),
      job_(job),
      kills_(std::move(kills)),
      run_dir_(std::move(run_dir)),
      tls_(std::move(tls)),
      console_(stdout, stderr, StdoutIsTerminal()),
      random_(std::random_device()()) {}

Supervisor::Outcome LocalCluster::Run() {
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

SupervisedTask LocalCluster::MakeTask(const LoopbackCluster& cluster,
                                      const std::string& type,
                                      int index) const {
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

std::string LocalCluster::TraceOf(int worker) const {
  return absl::StrCat(options_.trace_path, ".worker-", worker);
}

void LocalCluster::JoinTraceFiles() {
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

Supervisor::Outcome LocalCluster::RunAt(const LoopbackCluster& cluster) {
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

Supervisor::Options LocalCluster::MakeOptions(
    const std::vector<SupervisedTask>& tasks,
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

ClusterView LocalCluster::View() const {
  ClusterView view = EmptyView(job_, ParamdVersion());
  const std::vector<StatusPoller::Answer> answers = poller_->Newest();
  const std::vector<TaskState> states = supervisor_->States();
  std::vector<ProcessReport> servers, workers;
  const int rows_shown = options_.servers + options_.workers;
  for (size_t i = 0; i < static_cast<size_t>(rows_shown); ++i) {
    ProcessReport report = {answers[i].newest, Note(answers[i], states[i])};
    auto& rows = i < static_cast<size_t>(options_.servers) ? servers : workers;
    rows.push_back(std::move(report));
  }
  FillView(servers, workers, &view);
  return view;
}

std::string LocalCluster::Note(const StatusPoller::Answer& answer,
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

void LocalCluster::SayWhoIsBack() {
  const std::vector<StatusPoller::Answer> answers = poller_->Newest();
  for (int i = 0; i < options_.workers; ++i) {
    const StatusPoller::Answer& answer = answers[options_.servers + i];
    if (!answer.newest.has_value() || !answer.newest->has_first_push_ago_ms()) {
      continue;
    }
    const auto back = rejoins_.Pushed(
        absl::StrCat("worker-", i),
        answer.received +
            -absl::Milliseconds(answer.newest->first_push_ago_ms()));
    if (back.has_value()) console_.Say(*back);
  }
}

void LocalCluster::OnTick() {
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

void LocalCluster::ShowTheEnd() {
  ClusterView view = View();
  const auto result = ReadRunResult(run_dir_);
  if (result.ok()) FinishView(*result, &view);
  if (console_.in_place()) {
    console_.ShowBlock(RenderBlock(view, TerminalWidth(stdout)));
  } else {
    console_.Print(absl::StrCat(RenderLine(view), "\n"));
  }
}

}  // namespace paramd
