#include "bench/train/cluster_run.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "google/protobuf/util/json_util.h"

#include "base/check.h"
#include "cli/local/child_process.h"
#include "proto/paramd/v1/storage.pb.h"

namespace paramd {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(100);

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * time.tv_usec;
}

// Of all processes that were waited for, theirs included.
double CpuSecondsOfEnded() {
  rusage usage;
  getrusage(RUSAGE_CHILDREN, &usage);
  return Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
}

bool IsServer(absl::string_view pid) {
  const std::string environment =
      ReadFile(absl::StrCat("/proc/", pid, "/environ"));
  for (const absl::string_view entry : absl::StrSplit(environment, '\0')) {
    if (absl::StartsWith(entry, "TF_CONFIG=")) {
      return absl::StrContains(entry, "\"type\":\"ps\"") ||
             absl::StrContains(entry, "\"type\": \"ps\"");
    }
  }
  return false;
}

std::vector<std::string> ChildrenOf(pid_t parent) {
  return absl::StrSplit(
      ReadFile(absl::StrCat("/proc/", parent, "/task/", parent, "/children")),
      ' ', absl::SkipEmpty());
}

// Of the children that `parent` has now.
double CpuSecondsOfChildren(pid_t parent) {
  uint64_t ticks = 0;
  for (const std::string& pid : ChildrenOf(parent)) {
    const std::string text = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
    // What follows the name, which may contain blanks: proc(5).
    const std::vector<std::string> fields = absl::StrSplit(
        text.substr(std::min(text.rfind(')'), text.size())), ' ');
    for (const size_t field : {12, 13}) {
      uint64_t value = 0;
      if (field < fields.size() && absl::SimpleAtoi(fields[field], &value)) {
        ticks += value;
      }
    }
  }
  return static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// The most that a server among the children of `parent` has had resident.
uint64_t ServerBytes(pid_t parent) {
  uint64_t most = 0;
  for (const std::string& pid : ChildrenOf(parent)) {
    if (!IsServer(pid)) continue;
    const std::string status = ReadFile(absl::StrCat("/proc/", pid, "/status"));
    for (absl::string_view line : absl::StrSplit(status, '\n')) {
      uint64_t kilobytes = 0;
      if (absl::ConsumePrefix(&line, "VmHWM:") &&
          absl::ConsumeSuffix(&line, " kB") &&
          absl::SimpleAtoi(absl::StripAsciiWhitespace(line), &kilobytes)) {
        most = std::max(most, kilobytes << 10);
      }
    }
  }
  return most;
}

std::string NewDirectory() {
  std::string directory =
      std::filesystem::temp_directory_path() / "trainXXXXXX";
  CHECK(mkdtemp(directory.data()) != nullptr, "a directory can be made");
  return directory;
}

// Runs `paramd local` below the directory until it ends, and calls `look` now
// and then, which may signal it. Returns its exit code and what it printed.
std::pair<int, std::string> RunLocal(
    const std::string& paramd, std::vector<std::string> flags,
    const std::string& directory, const std::string& log_level,
    absl::FunctionRef<void(const ChildProcess&)> look) {
  flags.insert(flags.begin(), {paramd, "local"});
  flags.push_back(absl::StrCat("--run_dir=", directory, "/run"));
  ChildProcess::Options options;
  options.executable = paramd;
  options.arguments = flags;
  options.environment = EnvironmentWith("PARAMD_LOG_LEVEL", log_level);
  std::string said;
  auto child = ChildProcess::Start(options);
  CHECK(child.ok(), child.status().message());
  absl::optional<int> exit_code;
  while (!(exit_code = child->Poll()).has_value()) {
    char text[4096];
    for (ssize_t got; (got = read(child->output(), text, sizeof(text))) > 0;) {
      said.append(text, got);
    }
    look(*child);
    std::this_thread::sleep_for(kLookEvery);
  }
  return {*exit_code, said};
}

// The time at the beginning of a line of the log.
absl::Time TimeOf(absl::string_view line) {
  absl::Time time;
  std::string error;
  CHECK(absl::ParseTime("%Y-%m-%dT%H:%M:%E*S", line.substr(0, line.find(' ')),
                        &time, &error),
        error);
  return time;
}

// The first evaluation of the chief's log that gives `accuracy`; without CPU.
absl::optional<AccuracyReached> FindAccuracy(const std::string& log,
                                             double accuracy) {
  absl::optional<absl::Time> begin;
  for (const absl::string_view line : absl::StrSplit(log, '\n')) {
    if (absl::StrContains(line, " first push of ") && !begin) {
      begin = TimeOf(line);
    }
    constexpr absl::string_view kEpoch = " evaluation after epoch ";
    constexpr absl::string_view kAccuracy = ": accuracy ";
    const size_t epoch_at = line.find(kEpoch);
    const size_t accuracy_at = line.find(kAccuracy);
    if (epoch_at == line.npos || accuracy_at == line.npos || !begin) continue;
    const size_t from = epoch_at + kEpoch.size();
    const absl::string_view found = line.substr(accuracy_at + kAccuracy.size());
    AccuracyReached reached;
    double value = 0;
    if (!absl::SimpleAtoi(line.substr(from, accuracy_at - from),
                          &reached.epochs) ||
        !absl::SimpleAtod(found.substr(0, found.find(',')), &value) ||
        value < accuracy) {
      continue;
    }
    reached.seconds = absl::ToDoubleSeconds(TimeOf(line) - *begin);
    return reached;
  }
  return absl::nullopt;
}

}  // namespace

absl::optional<AccuracyReached> RunToAccuracy(const std::string& paramd,
                                              std::vector<std::string> flags,
                                              double accuracy) {
  const std::string directory = NewDirectory();
  absl::optional<AccuracyReached> reached;
  const auto [exit_code, said] =
      RunLocal(paramd, std::move(flags), directory, "info",
               [&](const ChildProcess& child) {
                 if (reached.has_value()) return;
                 reached = FindAccuracy(
                     ReadFile(directory + "/run/logs/worker-0.log"), accuracy);
                 if (!reached.has_value()) return;
                 reached->cpu_seconds = CpuSecondsOfChildren(child.pid());
                 child.Signal(SIGTERM);
               });
  CHECK(exit_code == 0 || reached.has_value(), said);
  std::filesystem::remove_all(directory);
  return reached;
}

ClusterRun RunCluster(const std::string& paramd,
                      std::vector<std::string> flags) {
  const std::string directory = NewDirectory();
  const double cpu_before = CpuSecondsOfEnded();
  ClusterRun run;
  const auto [exit_code, said] = RunLocal(
      paramd, std::move(flags), directory, "error",
      [&](const ChildProcess& child) {
        run.server_bytes = std::max(run.server_bytes, ServerBytes(child.pid()));
      });
  CHECK(exit_code == 0, said);
  run.cpu_seconds = CpuSecondsOfEnded() - cpu_before;
  v1::WriteResult result;
  const auto parsed = google::protobuf::util::JsonStringToMessage(
      ReadFile(directory + "/run/result.json"), &result);
  CHECK(parsed.ok(), "the run has left a result.json");
  run.seconds = result.seconds();
  run.steps = result.global_step();
  run.accuracy = result.evaluation().metrics().at("accuracy");
  std::filesystem::remove_all(directory);
  return run;
}

}  // namespace paramd
