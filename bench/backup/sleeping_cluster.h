#ifndef PARAMD_BENCH_BACKUP_SLEEPING_CLUSTER_H_
#define PARAMD_BENCH_BACKUP_SLEEPING_CLUSTER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "bench/harness/child.h"

namespace paramd {

// A job in sync mode, of one server and several workers, each a process of its
// own, that compute by sleeping. Its files lie in a temporary directory, which
// goes with it.
//
// Not thread-safe. The processes end with it.
class SleepingCluster {
 public:
  struct Options {
    uint32_t workers = 8;
    uint32_t backup_workers = 0;
    absl::Duration step = absl::Milliseconds(50);
    // One random step of every 20 of a worker takes so many times as long.
    int slowed = 1;
  };

  // Begins to train.
  explicit SleepingCluster(const Options& options);
  ~SleepingCluster();
  SleepingCluster(const SleepingCluster&) = delete;
  SleepingCluster& operator=(const SleepingCluster&) = delete;

  // The mean time of a step over about `window`, from the first steps on.
  absl::Duration StepTime(absl::Duration window);

 private:
  uint64_t Steps() const;

  const Options options_;
  std::string directory_;
  std::vector<std::unique_ptr<Child>> children_;  // The chief last.
};

}  // namespace paramd

#endif  // PARAMD_BENCH_BACKUP_SLEEPING_CLUSTER_H_
