#ifndef PARAMD_TESTS_SIM_INTEGER_WORKLOAD_H_
#define PARAMD_TESTS_SIM_INTEGER_WORKLOAD_H_

#include <cstdint>

#include "tests/sim/workload_report.h"

namespace paramd {

// A coordinator, two servers and three workers train an IntegerJob on the
// network that the seed draws; in every fourth seed all of them are killed on
// the way, and others, of other numbers, go on from what is on storage.
//
// Checked: what IntegerCluster says; each checkpoint holds, in every element,
// exactly the pushes up to its sessions' numbers, and together with the input
// it says is left every batch exactly once; the last one holds every batch;
// nobody is fenced; every process exits with 0.
WorkloadReport RunIntegerWorkload(uint64_t seed, bool verbose);

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_INTEGER_WORKLOAD_H_
