#ifndef PARAMD_TESTS_SIM_SYNC_WORKLOAD_H_
#define PARAMD_TESTS_SIM_SYNC_WORKLOAD_H_

#include <cstdint>

#include "tests/sim/workload_report.h"

namespace paramd {

// An IntegerJob in sync mode, on a cluster whose servers, workers and chief
// die, are replaced, paused, cut off and drained while it runs; in every fifth
// seed with a backup worker.
//
// Checked: what a step consists of is the same on all servers; every checkpoint
// has, in every block, each batch that its input says is used exactly once and
// no other, and as many applications as steps; the weights at the end have
// every batch once; the job ends. With backup workers batches are dropped on
// purpose, so only the steps are counted.
WorkloadReport RunSyncWorkload(uint64_t seed, bool verbose);

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_SYNC_WORKLOAD_H_
