// Prints how long workers idle in each mode, in simulated time.
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "absl/time/time.h"

#include "tests/sim/idle_share.h"

namespace paramd {
namespace {

constexpr uint64_t kSeeds = 20;

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

// How long a step of sync mode takes, in steps of a worker that is not slowed;
// the mean over the seeds, negative if one failed.
double MeanStepTime(uint32_t backup_workers, bool by_chance, int slowed) {
  double time = 0;
  IdleJob job;
  job.staleness = "sync";
  job.backup_workers = backup_workers;
  job.by_chance = by_chance;
  job.slowed = slowed;
  for (job.seed = 1; job.seed <= kSeeds; ++job.seed) {
    const auto report = MeasureIdleShare(job);
    if (!report.ok()) {
      std::fprintf(stderr, "%s\n", report.status().ToString().c_str());
      return -1;
    }
    time +=
        absl::FDivDuration(job.window, job.step * report->job_steps) / kSeeds;
  }
  return time;
}

// False if one failed.
bool PrintStepTimes() {
  std::printf(
      "\n| sync, of 8 workers | step time, one random step of every 20 "
      "| with a chance of 1 in 20 |\n|---|---|---|\n");
  const double clean = MeanStepTime(0, false, 1);
  if (clean < 0) return false;
  std::printf("| nobody is slow | %.2f | %.2f |\n", clean / clean,
              clean / clean);
  for (const uint32_t backup : {0, 1, 2, 3}) {
    const double regular = MeanStepTime(backup, false, 4);
    const double by_chance = MeanStepTime(backup, true, 4);
    if (regular < 0 || by_chance < 0) return false;
    std::printf("| backup_workers %u | %.2f | %.2f |\n", backup,
                regular / clean, by_chance / clean);
    std::fflush(stdout);
  }
  return true;
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--step_times") == 0) {
    return paramd::PrintStepTimes() ? 0 : 1;
  }
  std::printf(
      "| staleness | one random step of every 20 | each step with a "
      "chance of 1 in 20 |\n|---|---|---|\n");
  for (const char* staleness :
       {"async", "16", "8", "4", "2", "1", "0", "sync"}) {
    const double regular = paramd::MeanIdleShare(staleness, false);
    const double by_chance = paramd::MeanIdleShare(staleness, true);
    if (regular < 0 || by_chance < 0) return 1;
    std::printf("| %s | %.1f %% | %.1f %% |\n", staleness, 100 * regular,
                100 * by_chance);
    std::fflush(stdout);
  }
  return paramd::PrintStepTimes() ? 0 : 1;
}
