#ifndef PARAMD_TESTS_SIM_BOUNDED_WORKLOAD_H_
#define PARAMD_TESTS_SIM_BOUNDED_WORKLOAD_H_

#include <cstdint>

#include "tests/sim/bound_witness.h"
#include "tests/sim/workload_report.h"

namespace paramd {

struct BoundedReport : WorkloadReport {
  BoundWitness::Counts bound;  // Of all servers together.
  uint64_t crashes = 0;        // Of workers and servers.
  uint64_t chief_crashes = 0;
  uint64_t joins = 0;     // Workers that came late, or again.
  uint64_t settings = 0;  // Changes of the staleness.
};

// Workers of unequal speed train under a bound on the network that the seed
// draws, while workers die, some of them for ever, one comes late, a server
// loses its shard, the chief dies and an operator changes the bound.
//
// Checked: what BoundWitness says of every server; no session begins below the
// clocks of those that were there; a clock never falls; the job ends, so nobody
// waits for ever.
BoundedReport RunBoundedWorkload(uint64_t seed, bool verbose);

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_BOUNDED_WORKLOAD_H_
