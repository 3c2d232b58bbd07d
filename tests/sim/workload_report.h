#ifndef PARAMD_TESTS_SIM_WORKLOAD_REPORT_H_
#define PARAMD_TESTS_SIM_WORKLOAD_REPORT_H_

#include <cstdint>

#include "absl/status/status.h"

#include "tests/sim/faults.h"
#include "tests/sim/probes.h"

namespace paramd {

// How one run of a workload went.
struct WorkloadReport {
  // OK, or what was violated, with how to see it again.
  absl::Status status;
  uint64_t trace_hash = 0;
  uint64_t events = 0;
  uint64_t checkpoints = 0;
  // Whether it was stopped and went on from a checkpoint.
  bool resumed = false;
  // Processes that were told to stop and had a successor.
  uint64_t drained = 0;
  FaultCounts faults = {};
  // Of workloads that know: pushes sent, chunks that servers applied, and
  // faults of any kind that hit an open push.
  uint64_t pushes = 0;
  uint64_t chunks_applied = 0;
  uint64_t hits = 0;
  // Blocks in which a batch was missing at the end, or was there too often,
  // all of it explained.
  uint64_t lost = 0;
  uint64_t doubled = 0;
  // Whether it had all that a seed of its kind is to have.
  bool complete = false;
  Probes probes = {};
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_WORKLOAD_REPORT_H_
