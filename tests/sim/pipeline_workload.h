#ifndef PARAMD_TESTS_SIM_PIPELINE_WORKLOAD_H_
#define PARAMD_TESTS_SIM_PIPELINE_WORKLOAD_H_

#include <cstdint>

#include "tests/sim/workload_report.h"

namespace paramd {

struct PipelineReport : WorkloadReport {
  uint64_t pauses = 0;    // Of a device, for many operations' time.
  uint64_t failures = 0;  // Of a stage; its mini-batch is computed again.
  // Mini-batches with fewer micro-batches than others, and updates, all of
  // which had the gradient of the witness.
  uint64_t short_batches = 0;
  uint64_t updates = 0;
  // What the seed has: skips, tied stages, several mini-batches at the same
  // time, several versions of the weights.
  bool skips = false;
  bool ties = false;
  bool overlaps = false;
  bool has_versions = false;
};

// A model in stages, by a schedule that the seed draws, on devices that take
// differently long for each operation, stand still, and fail in the middle of
// a mini-batch, which is then computed again: `compute/pipeline`'s lists,
// proof, transfers, turns and bookkeeping, around stages of integers. Every
// update must have exactly the gradient that the witness computes, one stage
// and one micro-batch after the other, with the weights that the schedule
// promises.
PipelineReport RunPipelineWorkload(uint64_t seed, bool verbose = false);

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_PIPELINE_WORKLOAD_H_
