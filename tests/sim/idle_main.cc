// Prints how long workers idle in each mode, in simulated time.
#include <cstdint>
#include <cstdio>

#include "tests/sim/idle_share.h"

namespace paramd {
namespace {

constexpr uint64_t kSeeds = 5;

// The mean over the seeds; negative if one failed.
double MeanIdleShare(const char* staleness, bool by_chance) {
  double idle = 0;
  IdleJob job;
  job.staleness = staleness;
  job.by_chance = by_chance;
  for (job.seed = 1; job.seed <= kSeeds; ++job.seed) {
    const auto report = MeasureIdleShare(job);
    if (!report.ok()) {
      std::fprintf(stderr, "%s\n", report.status().ToString().c_str());
      return -1;
    }
    idle += report->idle_share / kSeeds;
  }
  return idle;
}

}  // namespace
}  // namespace paramd

int main() {
  std::printf("| staleness | one random step of every 20 | each step with a "
              "chance of 1 in 20 |\n|---|---|---|\n");
  for (const char* staleness : {"async", "16", "8", "4", "2", "1", "0",
                                "sync"}) {
    const double regular = paramd::MeanIdleShare(staleness, false);
    const double by_chance = paramd::MeanIdleShare(staleness, true);
    if (regular < 0 || by_chance < 0) return 1;
    std::printf("| %s | %.1f %% | %.1f %% |\n", staleness, 100 * regular,
                100 * by_chance);
    std::fflush(stdout);
  }
  return 0;
}
