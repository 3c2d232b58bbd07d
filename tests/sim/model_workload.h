#ifndef PARAMD_TESTS_SIM_MODEL_WORKLOAD_H_
#define PARAMD_TESTS_SIM_MODEL_WORKLOAD_H_

#include <cstdint>

#include "absl/status/statusor.h"

#include "tests/sim/model_cluster.h"
#include "tests/sim/model_job.h"
#include "tests/sim/workload_report.h"

namespace paramd {

// A coordinator, the job's servers and one worker train it in the in-process
// runtime: real time, no fault.
absl::StatusOr<TrainedWeights> TrainModelInProcess(const ModelJob& job);

// A run under the simulator.
struct ModelReport : WorkloadReport {
  TrainedWeights trained;  // Empty if it did not get that far.
};

// The same under the simulator, on the network that the seed draws. The
// report's status is not OK if the result is not `expected`, bit for bit.
ModelReport RunModelWorkload(const ModelJob& job, uint64_t seed, bool verbose,
                             const TrainedWeights& expected);

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_MODEL_WORKLOAD_H_
