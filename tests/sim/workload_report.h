#ifndef PARAMD_TESTS_SIM_WORKLOAD_REPORT_H_
#define PARAMD_TESTS_SIM_WORKLOAD_REPORT_H_

#include <cstdint>

#include "absl/status/status.h"

#include "tests/sim/faults.h"

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
  FaultCounts faults;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_WORKLOAD_REPORT_H_
