#include "net/descriptors.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

constexpr rlim_t kMostDescriptors = 1 << 20;
constexpr size_t kLeastConnections = 1024;
// For control and for payloads, and as many again to greet one that is silent
// (PeerLink).
constexpr size_t kFromAWorker = 4;
// The same, and one for the memory that is shared.
constexpr size_t kToAProcess = 5;
// Connections of others; and files, the log and gRPC's own.
constexpr size_t kOthers = 32;

}  // namespace

size_t DescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return std::numeric_limits<size_t>::max();
  }
  return limit.rlim_cur;
}

void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t most = std::min(limit.rlim_max, kMostDescriptors);
  if (limit.rlim_cur >= most) return;
  limit.rlim_cur = most;
  setrlimit(RLIMIT_NOFILE, &limit);
}

size_t ConnectionsOf(size_t workers) {
  return std::max(kLeastConnections, kFromAWorker * workers + kOthers);
}

absl::Status CheckDescriptors(size_t workers, size_t called) {
  // A listener takes half of the limit.
  const size_t needed =
      2 * (kFromAWorker * workers + kOthers) + kToAProcess * called;
  const size_t limit = DescriptorLimit();
  if (needed <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("this process may open ", limit, " files and needs ", needed,
                   ": ", kFromAWorker, " connections from each of ", workers,
                   " workers, ", kToAProcess, " to each of ", called,
                   " other processes, as many as come in for the "
                   "rest; raise the limit (ulimit -Hn ",
                   needed, ") or start fewer"));
}

}  // namespace paramd
