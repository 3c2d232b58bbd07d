#ifndef PARAMD_BENCH_OVERHEAD_SLEEPING_MODEL_H_
#define PARAMD_BENCH_OVERHEAD_SLEEPING_MODEL_H_

#include <string>

#include "absl/time/time.h"

#include "worker/model_factory.h"

namespace paramd {

// Models with the variables of the job's layers, whose steps sleep for `step`
// instead of computing: a third of it forward, the rest backward, in which each
// layer takes its share of the network's operations and its gradients, zeros,
// are ready after it. They evaluate nothing. `count`: a file that says how
// many steps a model has begun; empty: none does.
ModelFactory SleepingModels(absl::Duration step, const std::string& count);

}  // namespace paramd

#endif  // PARAMD_BENCH_OVERHEAD_SLEEPING_MODEL_H_
