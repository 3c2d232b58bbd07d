#ifndef PARAMD_BENCH_TRAIN_CLUSTER_RUN_H_
#define PARAMD_BENCH_TRAIN_CLUSTER_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"

namespace paramd {

// One job from its first process to its last.
struct ClusterRun {
  double seconds = 0;      // Of training, as result.json has it.
  double cpu_seconds = 0;  // Of all processes, starting and ending included.
  uint64_t steps = 0;
  double accuracy = 0;
  uint64_t server_bytes = 0;  // Most that one server had resident.
};

// Runs `paramd local` with these flags and reads what it left in the directory
// that it is given. Ends the process with a sentence if the job fails.
ClusterRun RunCluster(const std::string& paramd,
                      std::vector<std::string> flags);

// When an evaluation first gave an accuracy.
struct AccuracyReached {
  uint64_t epochs = 0;
  double seconds = 0;      // From the chief's first push.
  double cpu_seconds = 0;  // Of all processes, starting included.
};

// Runs `paramd local` with these flags until an evaluation gives `accuracy`,
// and stops it there; nullopt if it ends before. Ends the process with a
// sentence if the job fails.
absl::optional<AccuracyReached> RunToAccuracy(const std::string& paramd,
                                              std::vector<std::string> flags,
                                              double accuracy);

}  // namespace paramd

#endif  // PARAMD_BENCH_TRAIN_CLUSTER_RUN_H_
