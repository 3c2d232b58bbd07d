#include "bench/overhead/process_cluster.h"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/types/optional.h"

#include "base/check.h"
#include "base/clock.h"
#include "net/testing/loopback_address.h"

namespace paramd {
namespace {

// Which are not measured: connections are made, memory is touched first.
constexpr uint64_t kFirstSteps = 5;
constexpr absl::Duration kLookEvery = absl::Milliseconds(1);
constexpr absl::Duration kPatience = absl::Minutes(2);

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

double Number(absl::string_view text) {
  double value = 0;
  CHECK(absl::SimpleAtod(text, &value), "the kernel writes numbers");
  return value;
}

// What the loopback of this process's network has delivered: proc_pid_net(5).
double LoopbackBytes() {
  const std::string text = ReadFile("/proc/self/net/dev");
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripLeadingAsciiWhitespace(line);
    if (!absl::ConsumePrefix(&line, "lo:")) continue;
    const std::vector<std::string> fields =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    return Number(fields.at(0));
  }
  return 0;
}

double CpuSecondsOf(pid_t pid) {
  const std::string text = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  const size_t name_ends = text.rfind(')');
  CHECK(name_ends != text.npos, "a process of the job runs until it is killed");
  const std::vector<std::string> fields =
      absl::StrSplit(text.substr(name_ends), ' ');
  return (Number(fields.at(12)) + Number(fields.at(13))) /
         static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::string QuotedList(const std::vector<std::string>& texts) {
  return texts.empty()
             ? "[]"
             : absl::StrCat("[\"", absl::StrJoin(texts, "\",\""), "\"]");
}

}  // namespace

bool EnterOwnNetwork() {
  if (unshare(CLONE_NEWNET) != 0 &&
      unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
    return false;
  }
  const int any_socket = socket(AF_INET, SOCK_DGRAM, 0);
  ifreq loopback = {};
  std::strcpy(loopback.ifr_name, "lo");
  loopback.ifr_flags = IFF_UP;
  const bool is_up = ioctl(any_socket, SIOCSIFFLAGS, &loopback) == 0;
  close(any_socket);
  return is_up;
}

ProcessCluster::ProcessCluster(const Options& options)
    : directory_(std::filesystem::temp_directory_path() / "overheadXXXXXX") {
  CHECK(mkdtemp(directory_.data()) != nullptr, "a directory can be made");
  std::ofstream(directory_ + "/job.json") << options.job;
  const std::string host = DrawLoopbackHost();
  for (uint32_t s = 0; s < options.servers; ++s) {
    servers_.push_back(absl::StrCat(host, ":", 2200 + s));
  }
  for (uint32_t w = 0; w < options.workers; ++w) {
    workers_.push_back(absl::StrCat(host, ":", 2300 + w));
  }
  for (uint32_t s = 0; s < options.servers; ++s) Start(options, "ps", s);
  for (uint32_t w = 0; w < options.workers; ++w) Start(options, "worker", w);
}

ProcessCluster::~ProcessCluster() {
  children_.clear();
  std::filesystem::remove_all(directory_);
}

void ProcessCluster::Start(const Options& options, const std::string& type,
                           uint32_t index) {
  std::string cluster = absl::StrCat("\"worker\":", QuotedList(workers_));
  if (!servers_.empty()) {
    absl::StrAppend(&cluster, ",\"ps\":", QuotedList(servers_));
  }
  ChildProcess::Options child;
  child.executable = options.program;
  child.arguments = {
      options.program, "run", absl::StrCat("--job=", directory_, "/job.json"),
      absl::StrCat("--run_dir=", directory_, "/run"), "--log_level=error"};
  child.environment = options.environment;
  child.environment.push_back(absl::StrCat("TF_CONFIG={\"cluster\":{", cluster,
                                           "},\"task\":{\"type\":\"", type,
                                           "\",\"index\":", index, "}}"));
  if (type == "worker" && index == 0) {
    child.environment.push_back(
        absl::StrCat("STEP_COUNT=", directory_, "/steps"));
  }
  auto started = ChildProcess::Start(child);
  CHECK(started.ok(), started.status().message());
  children_.push_back(*std::move(started));
}

ProcessCluster::Sample ProcessCluster::NextStep(uint64_t least) {
  const Time patience = MonotonicNow() + kPatience;
  absl::optional<uint64_t> before;
  while (MonotonicNow() < patience) {
    const std::string text = ReadFile(directory_ + "/steps");
    uint64_t steps = 0;
    // The line may not be whole yet.
    const bool is_there =
        absl::EndsWith(text, "\n") && absl::SimpleAtoi(text, &steps);
    if (is_there && before.has_value() && steps > *before && steps >= least) {
      Sample sample{.steps = steps, .time = MonotonicNow()};
      for (const ChildProcess& child : children_) {
        sample.cpu_seconds += CpuSecondsOf(child.pid());
      }
      sample.bytes = LoopbackBytes();
      return sample;
    }
    if (is_there) before = steps;
    for (ChildProcess& child : children_) {
      if (!child.Poll().has_value()) continue;
      char said[4096] = "";
      const ssize_t got = read(child.output(), said, sizeof(said) - 1);
      CHECK(false, absl::StrCat("a process of the job ended: ",
                                got > 0 ? said : "it said nothing"));
    }
    absl::SleepFor(kLookEvery);
  }
  CHECK(false, "the job makes no steps");
  std::abort();
}

ProcessCluster::Cost ProcessCluster::Measure(absl::Duration window) {
  const Sample first = NextStep(kFirstSteps);
  absl::SleepFor(window);
  const Sample last = NextStep(first.steps + 1);
  const auto steps = static_cast<double>(last.steps - first.steps);
  return {.seconds = absl::ToDoubleSeconds(last.time - first.time) / steps,
          .cpu_seconds = (last.cpu_seconds - first.cpu_seconds) / steps,
          .bytes = (last.bytes - first.bytes) / steps};
}

}  // namespace paramd
