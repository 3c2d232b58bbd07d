#include "base/process_limits.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace paramd {
namespace {

constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kMostProcessors = 65536;  // Linux knows no more than 8,192.

struct GroupFolder {
  std::string path;
  int version;
};

// Appends `group` below `top` and those above it, `top` at the end: in a
// container its own group may be the top, whatever it is called.
void AppendGroups(const std::string& top, std::string group, int version,
                  std::vector<GroupFolder>* folders) {
  while (group.size() > 1) {
    folders->push_back({top + group, version});
    group.resize(group.rfind('/'));
  }
  folders->push_back({top, version});
}

// Where limits of `controller` may stand.
std::vector<GroupFolder> GroupsWith(absl::string_view controller,
                                    const std::string& root) {
  std::vector<GroupFolder> folders;
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    // "0::/path" of version 2, "7:cpu,cpuacct:/path" of version 1.
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || parts[2].empty() || parts[2][0] != '/') continue;
    const std::string top = root + "/sys/fs/cgroup";
    if (parts[1].empty()) {
      AppendGroups(top, parts[2], 2, &folders);
      continue;
    }
    for (const absl::string_view name : absl::StrSplit(parts[1], ',')) {
      if (name != controller) continue;
      AppendGroups(absl::StrCat(top, "/", name), parts[2], 1, &folders);
      // Where there is no link with the controller's own name.
      if (parts[1] != name) {
        AppendGroups(absl::StrCat(top, "/", parts[1]), parts[2], 1, &folders);
      }
    }
  }
  return folders;
}

// The next number in the file. None if there is none, as in "max" or "-1".
uint64_t NextNumber(std::ifstream* file) {
  std::string word;
  uint64_t number;
  return *file >> word && absl::SimpleAtoi(word, &number) ? number : kNone;
}

uint64_t NumberIn(const std::string& path) {
  std::ifstream file(path);
  return NextNumber(&file);
}

uint64_t MemoryOfMachine(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string word;
  uint64_t kibibytes;
  while (file >> word) {
    if (word == "MemTotal:" && file >> kibibytes) return kibibytes * 1024;
  }
  return kNone;
}

uint64_t ProcessorsIn(const GroupFolder& folder) {
  uint64_t quota = kNone;
  uint64_t period = kNone;
  if (folder.version == 2) {
    std::ifstream file(folder.path + "/cpu.max");  // "200000 100000"
    quota = NextNumber(&file);
    period = NextNumber(&file);
  } else {
    quota = NumberIn(folder.path + "/cpu.cfs_quota_us");
    period = NumberIn(folder.path + "/cpu.cfs_period_us");
  }
  if (quota == kNone || period == kNone || period == 0) return kNone;
  return quota / period + (quota % period != 0 ? 1 : 0);
}

// On which the kernel may schedule it: a list like "0-3,8".
uint64_t ProcessorsAllowed(const std::string& root) {
  std::ifstream file(root + "/proc/self/status");
  std::string word;
  while (file >> word) {
    if (word != "Cpus_allowed_list:" || !(file >> word)) continue;
    uint64_t count = 0;
    for (const absl::string_view part : absl::StrSplit(word, ',')) {
      const std::vector<absl::string_view> ends = absl::StrSplit(part, '-');
      uint32_t first, last;
      if (!absl::SimpleAtoi(ends.front(), &first) ||
          !absl::SimpleAtoi(ends.back(), &last) || last < first) {
        return kNone;
      }
      count += last - first + 1;
    }
    return count;
  }
  return kNone;
}

}  // namespace

uint64_t MemoryOfThisProcess(const std::string& root) {
  uint64_t memory = MemoryOfMachine(root);
  for (const GroupFolder& folder : GroupsWith("memory", root)) {
    memory = std::min(memory,
                      NumberIn(folder.path + (folder.version == 2
                                                  ? "/memory.max"
                                                  : "/memory.limit_in_bytes")));
  }
  return memory == kNone ? 0 : memory;
}

uint32_t ProcessorsOfThisProcess(const std::string& root) {
  uint64_t processors = ProcessorsAllowed(root);
  for (const GroupFolder& folder : GroupsWith("cpu", root)) {
    processors = std::min(processors, ProcessorsIn(folder));
  }
  if (processors == kNone) return 1;
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(processors, 1, kMostProcessors));
}

}  // namespace paramd
