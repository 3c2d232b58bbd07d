#ifndef PARAMD_TESTS_SIM_INTEGER_CLUSTER_H_
#define PARAMD_TESTS_SIM_INTEGER_CLUSTER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "base/random.h"
#include "coordinator/core/coordinator.h"
#include "proto/paramd/v1/compute.pb.h"
#include "server/core/shard.h"
#include "tests/sim/growing_files.h"
#include "tests/sim/integer_job.h"
#include "tests/sim/integer_witness.h"
#include "tests/sim/intruder.h"
#include "tests/sim/simulation.h"
#include "tests/sim/storage.h"
#include "worker/core/worker.h"

namespace paramd {

// The processes of an IntegerJob under one simulation, and the supervisor that
// brings each of them back: whoever was killed, drained or ended with what may
// be tried again. Half of the workers that it brings back say which process
// they replace, as it saw that one end. The coordinator and worker-0 are one
// process, the chief's, and live and die together.
//
// Checks while it runs: what the witness says; every block that a worker
// computes on is of one version; in a gentle run, that the weights of the last
// evaluation have every batch once; that processes end as they should.
//
// Not thread-safe. Job, witness and storage outlive it.
class IntegerCluster {
 public:
  struct Options {
    uint64_t seed = 1;
    uint32_t servers = 3;
    uint32_t workers = 4;
    // So many of them, the last, the job's list does not name.
    uint32_t joined = 0;
    // Nobody is killed, so nobody may end but in good order.
    bool gentle = false;
    // Joins later, when a script says so.
    bool last_worker_is_late = false;
    // Servers have little more memory than their content needs.
    bool tight_memory = false;
    // The weights of the last evaluation have every batch once, whoever died.
    bool exact = false;
    // A push or pull that takes longer is given up.
    absl::Duration give_up_after = absl::Minutes(5);
    // Sums are scaled, so what is in weights can't be told from them.
    bool scaled = false;
    // The job begins with what the storage has for it to start from.
    bool warm = false;
    // Of a job that grows; outlives the cluster.
    GrowingFiles* files = nullptr;
  };

  // Without a witness nobody sees what is said.
  IntegerCluster(const Options& options, const IntegerJob& job,
                 IntegerWitness* witness, SimStorage* storage,
                 Simulation* simulation);
  IntegerCluster(const IntegerCluster&) = delete;
  IntegerCluster& operator=(const IntegerCluster&) = delete;

  // The process of this task dies; another one comes soon. With `late_work`
  // what it wrote reaches the storage all the same.
  void Kill(PeerId task, bool late_work);
  // Another process takes the task over, and the first one does not know.
  // With `at_once` they run side by side from the start.
  void Replace(PeerId task, bool at_once = false);
  // The process is told to stop; another one comes when it has.
  void Drain(PeerId task);
  void AddLateWorker();

  // Somebody sends the server a spoiled copy of this push of `batch`.
  void Intrude(PeerId server, const v1::PushRequest& push,
               const BatchPlace& batch);

  // What the newest coordinator says of the job.
  v1::JobStats JobStatus() const;

  // Tasks of this run that a script may hurt: servers, workers, coordinator.
  std::vector<PeerId> tasks() const;
  const Options& options() const { return options_; }
  uint64_t drained() const { return drained_; }
  // How the chief ended because an operator stopped the job; OK: it did not.
  const absl::Status& stopped() const { return stopped_; }
  uint64_t restarted() const { return restarted_; }
  uint64_t intrusions_refused() const { return intruder_.refused(); }

 private:
  // What a worker has computed last, and as which work.
  struct Computed {
    IoId io = 0;
    BufferChain gradients;
  };

  absl::Duration DrawStart();
  uint64_t TightMemory() const;
  // Those that the job's list names.
  uint32_t listed() const { return options_.workers - options_.joined; }
  void AddServer(uint32_t index, absl::Duration start_within);
  void AddCoordinator(absl::Duration start_within);
  void AddWorker(uint32_t index, absl::Duration start_within);
  // What a worker has done outside of it.
  void HandleInput(PeerId worker);
  void HandleComputing(PeerId worker);
  void Add(PeerId task, absl::Duration start_within);
  // The tasks that share the process of `task`.
  static std::vector<PeerId> ProcessOf(PeerId task);
  absl::Status Judge(const SimProcess& process, const absl::Status& status);
  // `ended`: the process before this one is gone.
  void Restart(PeerId task, bool ended, bool at_once = false);

  // What is in a worker's weights can be told from them.
  bool HasExactWeights() const;
  using WeightValues = std::vector<absl::Span<const float>>;
  void CheckWeights(const WeightValues& weights);
  IoResult CollectRows(const v1::CollectRows& request) const;
  IoResult Compute(const v1::ComputeGradient& request,
                   const WeightValues& weights);
  IoResult TakeGradients(const v1::TakeGradients& request,
                         const Computed& computed);
  IoResult Evaluate(const v1::EvaluateWeights& request,
                    const WeightValues& weights);

  const Options options_;
  const IntegerJob& job_;
  SimStorage& storage_;
  Simulation& simulation_;
  RandomStream random_;
  Intruder intruder_;
  std::vector<std::unique_ptr<Core>> cores_;  // Of all lives.
  const Coordinator* coordinator_ = nullptr;  // The newest.
  std::map<PeerId, uint64_t> lives_;          // The newest of each task.
  RandomStream supervisor_;
  std::map<uint32_t, uint64_t> incarnations_;  // Of the newest, by worker.
  std::map<uint32_t, uint64_t> replaces_;      // What the next one says.
  std::set<PeerId> draining_;
  bool late_worker_is_there_ = false;
  uint64_t drained_ = 0;
  absl::Status stopped_;
  uint64_t restarted_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_INTEGER_CLUSTER_H_
