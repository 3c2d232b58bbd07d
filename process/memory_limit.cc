#include "process/memory_limit.h"

#include <algorithm>

#include "base/process_limits.h"

namespace paramd {
namespace {

// Below it gRPC shrinks the windows of a few workers' pushes.
constexpr uint64_t kLeastReceived = uint64_t{256} << 20;

}  // namespace

MemoryLimits MemoryLimitsOf(uint64_t configured, uint64_t found) {
  if (configured != 0) return {configured, configured};
  const uint64_t both = found / 10 * 9;
  const uint64_t received =
      std::min(both / 2, std::max(both / 8, kLeastReceived));
  return {both - received, received};
}

uint64_t MemoryOfAShard(const v1::JobConfig& job, uint32_t shards) {
  const uint64_t held =
      MemoryLimitsOf(job.memory_limit_bytes(), MemoryOfThisProcess()).held;
  return held == 0 ? 0 : std::max<uint64_t>(1, held / shards);
}

}  // namespace paramd
