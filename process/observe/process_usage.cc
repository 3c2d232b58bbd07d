#include "process/observe/process_usage.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace paramd {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

// The fields of /proc/self/stat from the third on: the second, the program's
// name in parentheses, may hold anything.
std::vector<std::string> StatFields() {
  const std::string stat = ReadAll("/proc/self/stat");
  const size_t name_end = stat.rfind(") ");
  if (name_end == std::string::npos) return {};
  return absl::StrSplit(stat.substr(name_end + 2), ' ');
}

// Field `number` of proc(5), which counts from 1; -1: not there.
double Field(const std::vector<std::string>& fields, size_t number) {
  double value = -1;
  if (number - 3 < fields.size() &&
      absl::SimpleAtod(fields[number - 3], &value)) {
    return value;
  }
  return -1;
}

double StartedAt(double ticks_after_boot) {
  double uptime = 0;
  const std::vector<std::string> words =
      absl::StrSplit(ReadAll("/proc/uptime"), ' ');
  if (ticks_after_boot < 0 || !absl::SimpleAtod(words[0], &uptime)) return -1;
  const double now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  return now - uptime + ticks_after_boot / sysconf(_SC_CLK_TCK);
}

double OpenFiles() {
  std::error_code error;
  std::filesystem::directory_iterator files("/proc/self/fd", error);
  if (error) return -1;
  // The iterator holds one itself.
  return static_cast<double>(std::distance(begin(files), end(files))) - 1;
}

void Append(const char* name, MetricType type, const char* help, double value,
            std::vector<MetricFamily>* families) {
  if (value < 0) return;
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  family.metric.emplace_back();
  family.metric[0].gauge.value = value;
  family.metric[0].counter.value = value;
  families->push_back(std::move(family));
}

}  // namespace

std::vector<MetricFamily> ProcessUsage() {
  const std::vector<std::string> stat = StatFields();
  const double tick = static_cast<double>(sysconf(_SC_CLK_TCK));
  const double page = static_cast<double>(sysconf(_SC_PAGESIZE));
  const double user = Field(stat, 14);
  const double system = Field(stat, 15);
  const double resident = Field(stat, 24);
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  std::vector<MetricFamily> all;
  Append("process_cpu_seconds_total", MetricType::Counter,
         "User and system time used.", user < 0 ? -1 : (user + system) / tick,
         &all);
  Append("process_resident_memory_bytes", MetricType::Gauge, "Memory in use.",
         resident < 0 ? -1 : resident * page, &all);
  Append("process_virtual_memory_bytes", MetricType::Gauge, "Addresses in use.",
         Field(stat, 23), &all);
  Append("process_threads", MetricType::Gauge, "Threads.", Field(stat, 20),
         &all);
  Append("process_open_fds", MetricType::Gauge, "Open files and sockets.",
         OpenFiles(), &all);
  Append("process_max_fds", MetricType::Gauge,
         "How many files and sockets may be open.",
         static_cast<double>(files.rlim_cur), &all);
  Append("process_start_time_seconds", MetricType::Gauge,
         "When the process started, in seconds since 1970.",
         StartedAt(Field(stat, 22)), &all);
  return all;
}

}  // namespace paramd
