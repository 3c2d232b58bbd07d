#ifndef PARAMD_TESTS_SIM_STAGE_WORKLOAD_H_
#define PARAMD_TESTS_SIM_STAGE_WORKLOAD_H_

#include <cstdint>

#include "tests/sim/workload_report.h"

namespace paramd {

struct StagesReport : WorkloadReport {
  uint64_t trained = 0;      // Batches.
  uint64_t evaluated = 0;    // Batches.
  uint64_t begun_again = 0;  // Mini-batches that failed.
  uint64_t given_up = 0;     // Workers that failed at one for too long.
  uint64_t struck = 0;       // Faults of the script.
  // What a stage answered, or was seen of one.
  uint64_t owners = 0;        // Processes of workers that took a stage.
  uint64_t fenced = 0;        // Calls of an older one that were refused.
  uint64_t busy = 0;          // Questions while an earlier batch is computed.
  uint64_t pieces = 0;        // Of contents.
  uint64_t fetched = 0;       // Pieces of results.
  uint64_t weights_kept = 0;  // Batches on weights that a stage has.
  uint64_t weights_lost = 0;  // It was another owner's, so they are sent.
};

// Workers whose first stages other processes compute, over a network that
// loses, repeats and delays what it carries, by any schedule with a flush;
// processes are killed in the middle of an operation, stopped, cut off in one
// direction or both, told to end, and replaced while they go on. Every output,
// gradient and sum must be what one process computes from the weights and
// examples of that batch; each operation is computed in its place; who waits
// for long says for which stage; and all end, in bounded time.
StagesReport RunStageWorkload(uint64_t seed, bool verbose = false);

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_STAGE_WORKLOAD_H_
