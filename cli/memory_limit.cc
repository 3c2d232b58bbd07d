#include "cli/memory_limit.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace paramd {
namespace {

constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
// Below it gRPC shrinks the windows of a few workers' pushes.
constexpr uint64_t kLeastReceived = uint64_t{256} << 20;

// The file's one number. None where it has none, as "max".
uint64_t NumberIn(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  uint64_t number;
  return file >> word && absl::SimpleAtoi(word, &number) ? number : kNone;
}

// The least of what the group and those above it allow.
uint64_t LimitOfGroup(const std::string& top, std::string group,
                      const std::string& file) {
  uint64_t limit = NumberIn(absl::StrCat(top, "/", file));
  while (group.size() > 1) {
    limit = std::min(limit, NumberIn(absl::StrCat(top, group, "/", file)));
    group.resize(group.rfind('/'));
  }
  return limit;
}

uint64_t LimitOfGroups(const std::string& root) {
  uint64_t limit = kNone;
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    // "0::/path" of version 2, "7:memory:/path" of version 1.
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || parts[2].empty() || parts[2][0] != '/') continue;
    const std::string top = root + "/sys/fs/cgroup";
    if (parts[1].empty()) {
      limit = std::min(limit, LimitOfGroup(top, parts[2], "memory.max"));
    } else {
      for (const absl::string_view name : absl::StrSplit(parts[1], ',')) {
        if (name != "memory") continue;
        limit = std::min(limit, LimitOfGroup(top + "/memory", parts[2],
                                             "memory.limit_in_bytes"));
      }
    }
  }
  return limit;
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

}  // namespace

MemoryLimits MemoryLimitsOf(uint64_t configured, uint64_t found) {
  if (configured != 0) return {configured, configured};
  const uint64_t both = found / 10 * 9;
  const uint64_t received =
      std::min(both / 2, std::max(both / 8, kLeastReceived));
  return {both - received, received};
}

uint64_t MemoryOfThisProcess(const std::string& root) {
  const uint64_t memory = std::min(LimitOfGroups(root), MemoryOfMachine(root));
  return memory == kNone ? 0 : memory;
}

}  // namespace paramd
