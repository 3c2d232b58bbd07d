#ifndef PARAMD_TESTS_SIM_IDLE_SHARE_H_
#define PARAMD_TESTS_SIM_IDLE_SHARE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace paramd {

// Workers that are sometimes slow: a step takes `step`, a slow one `slowed`
// times as long. Of each worker's steps one of every `slow_every` in turn is
// slow, or, if `by_chance`, each with a chance of 1 / slow_every; drawn for
// each worker by itself.
struct IdleJob {
  std::string staleness = "async";
  uint32_t backup_workers = 0;  // Of sync.
  uint32_t workers = 8;
  uint32_t servers = 1;
  uint32_t slow_every = 20;
  bool by_chance = false;
  int slowed = 4;
  absl::Duration step = absl::Milliseconds(100);
  // Simulated time over which the shares are taken.
  absl::Duration window = absl::Minutes(2);
  uint64_t seed = 1;
};

struct IdleReport {
  // Of the workers' time in which they computed nothing.
  double idle_share = 0;
  // Steps of all workers together in the window.
  uint64_t steps = 0;
  // Sync: steps of the job.
  uint64_t job_steps = 0;
};

// Runs the job in simulated time on a good network. The error of the
// simulation, if it fails.
absl::StatusOr<IdleReport> MeasureIdleShare(const IdleJob& job);

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_IDLE_SHARE_H_
