#ifndef PARAMD_TESTS_SIM_INTEGER_CLUSTER_H_
#define PARAMD_TESTS_SIM_INTEGER_CLUSTER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "base/random.h"
#include "coordinator/core/coordinator.h"
#include "server/core/shard.h"
#include "tests/sim/integer_job.h"
#include "tests/sim/push_ledger.h"
#include "tests/sim/simulation.h"
#include "tests/sim/storage.h"
#include "worker/core/async_worker.h"

namespace paramd {

// The processes of an IntegerJob under one simulation: all of them start, now
// and then late, and some seeds cut them off from each other for a while or tell
// servers and workers to drain, whose successors come later.
//
// Checks while it runs: every block that a worker computes on is of one
// version, pushes are what the ledger knows them as, and the weights of the
// last evaluation have every batch once.
//
// Not thread-safe. The job, the ledger and the storage outlive it.
class IntegerCluster {
 public:
  struct Options {
    uint64_t seed = 1;
    uint32_t servers = 2;
    uint32_t workers = 3;
    // Everything is killed when the ledger has so many pushes.
    size_t stop_after_pushes = std::numeric_limits<size_t>::max();
  };

  IntegerCluster(const Options& options, const IntegerJob& job,
                 PushLedger* ledger, SimStorage* storage,
                 Simulation* simulation);
  IntegerCluster(const IntegerCluster&) = delete;
  IntegerCluster& operator=(const IntegerCluster&) = delete;

  // The nodes that were told to drain, each as often as it was.
  const std::multiset<PeerId>& drained() const { return drained_; }

 private:
  absl::Duration DrawStart();
  void CutOffSometimes();
  void DrainSometimes();
  void ReplaceDrained(PeerId node);
  void AddServer(uint32_t index);
  void AddCoordinator();
  void AddWorker(uint32_t index);

  void CheckWeights(const AsyncWorker& worker, uint32_t buffer);
  IoResult Compute(const AsyncWorker& worker,
                   const v1::ComputeGradient& request);
  IoResult Evaluate(const AsyncWorker& worker,
                    const v1::EvaluateWeights& request);

  const Options options_;
  const IntegerJob& job_;
  SimStorage& storage_;
  Simulation& simulation_;
  RandomStream random_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::unique_ptr<Coordinator> coordinator_;
  std::vector<std::unique_ptr<AsyncWorker>> workers_;
  std::multiset<PeerId> drained_;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_INTEGER_CLUSTER_H_
