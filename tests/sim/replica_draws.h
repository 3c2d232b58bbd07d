#ifndef PARAMD_TESTS_SIM_REPLICA_DRAWS_H_
#define PARAMD_TESTS_SIM_REPLICA_DRAWS_H_

#include <cstdint>
#include <vector>

#include "tests/sim/faults.h"
#include "tests/sim/fine_cut.h"
#include "tests/sim/integer_job.h"
#include "tests/sim/operator_core.h"
#include "tests/sim/scale_operator.h"

namespace paramd {

// What the workload `replicas` draws for a seed. In two of five a variable's
// rows travel by themselves, and mostly have keys; one of three is in sync
// mode.
Faults DrawReplicaNetwork(uint64_t seed);
Cut DrawReplicaCut(uint64_t seed);
IntegerJob::Options DrawReplicaJob(uint64_t seed);
// The same for the workload `election`, none of which is in sync mode.
IntegerJob::Options DrawElectionJob(uint64_t seed);
// When an operator scales the job, and to how many of its ps.
std::vector<ScaleOperator::Step> DrawScales(uint64_t seed, uint32_t tasks);
// Whether rebalance moves servers of a job that is scaled, and the share of a
// processor that a place reports.
bool DrawRebalances(uint64_t seed);
double DrawBusy(uint64_t seed, uint32_t place);
// How an operator ends sync mode, and asks for checkpoints.
std::vector<OperatorCore::Setting> DrawReplicaSettings(uint64_t seed);

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_REPLICA_DRAWS_H_
