#ifndef PARAMD_TESTS_SIM_MODE_WORKLOAD_H_
#define PARAMD_TESTS_SIM_MODE_WORKLOAD_H_

#include <cstdint>

#include "tests/sim/workload_report.h"

namespace paramd {

// An IntegerJob whose mode an operator changes while it runs, between async,
// bounds and sync; after half of the changes it asks for a checkpoint. Of
// every three seeds in one nobody is hurt; in one the chief dies, mostly while
// a change is under way; in one anybody is killed, replaced, drained, paused,
// cut off or slow.
//
// Checked: what StepWitness says; the job ends; a checkpoint that the operator
// is told of is there; and where no worker and no server was killed, and before
// a coordinator takes over servers with open pushes, every checkpoint has each
// batch that its input says is used exactly once in every block, and the
// weights at the end have all of them. Where some were, no block is torn.
WorkloadReport RunModeWorkload(uint64_t seed, bool verbose);

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_MODE_WORKLOAD_H_
