#include "bench/train/cluster_run.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "google/protobuf/util/json_util.h"

#include "base/check.h"
#include "cli/child_process.h"
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

// The most that a server among the children of `parent` has had resident.
uint64_t ServerBytes(pid_t parent) {
  uint64_t most = 0;
  const std::string children = ReadFile(
      absl::StrCat("/proc/", parent, "/task/", parent, "/children"));
  for (const absl::string_view pid :
       absl::StrSplit(children, ' ', absl::SkipEmpty())) {
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

}  // namespace

ClusterRun RunCluster(const std::string& paramd,
                      std::vector<std::string> flags) {
  std::string directory = std::filesystem::temp_directory_path() / "trainXXXXXX";
  CHECK(mkdtemp(directory.data()) != nullptr, "a directory can be made");
  flags.insert(flags.begin(), {paramd, "local"});
  flags.push_back(absl::StrCat("--run_dir=", directory, "/run"));
  ChildProcess::Options options;
  options.executable = paramd;
  options.arguments = flags;
  options.environment = EnvironmentWith("PARAMD_LOG_LEVEL", "error");
  const double cpu_before = CpuSecondsOfEnded();
  ClusterRun run;
  std::string said;
  {
    auto child = ChildProcess::Start(options);
    CHECK(child.ok(), child.status().message());
    absl::optional<int> exit_code;
    while (!(exit_code = child->Poll()).has_value()) {
      char text[4096];
      for (ssize_t got; (got = read(child->output(), text, sizeof(text))) > 0;) {
        said.append(text, got);
      }
      run.server_bytes = std::max(run.server_bytes, ServerBytes(child->pid()));
      std::this_thread::sleep_for(kLookEvery);
    }
    CHECK(*exit_code == 0, said);
  }
  run.cpu_seconds = CpuSecondsOfEnded() - cpu_before;
  v1::WriteResult result;
  const auto parsed = google::protobuf::util::JsonStringToMessage(
      ReadFile(directory + "/run/result.json"), &result);
  CHECK(parsed.ok(), "the run has left a result.json");
  run.seconds = result.seconds();
  run.steps = result.global_step();
  run.accuracy = static_cast<double>(result.evaluation().correct()) /
                 std::max<uint64_t>(1, result.evaluation().examples());
  std::filesystem::remove_all(directory);
  return run;
}

}  // namespace paramd
