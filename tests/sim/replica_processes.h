#ifndef PARAMD_TESTS_SIM_REPLICA_PROCESSES_H_
#define PARAMD_TESTS_SIM_REPLICA_PROCESSES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "base/random.h"
#include "coordinator/core/coordinator.h"
#include "coordinator/core/server_places.h"
#include "proto/paramd/v1/compute.pb.h"
#include "server/core/shard.h"
#include "tests/sim/elected_chiefs.h"
#include "tests/sim/integer_job.h"
#include "tests/sim/simulation.h"
#include "tests/sim/storage.h"
#include "worker/core/worker.h"

namespace paramd {

// The processes of an IntegerJob in which each server has a backup, under one
// simulation: tasks with the places of servers, coordinators and workers. They
// live until the end, those that were killed too. What workers ask to be
// computed is computed here, and checked: weights are not torn, and those of
// the last evaluation have every batch once.
//
// Not thread-safe. What it is made of outlives it.
class ReplicaProcesses {
 public:
  struct Options {
    uint64_t seed = 1;
    uint32_t tasks = 3;  // Processes with servers, and servers.
    uint32_t workers = 3;
    std::vector<ServerPlaces> places;
    // Every server has a place in each task, else two servers have.
    bool scales = false;
    // The coordinator moves servers by what they say they spend, which is
    // drawn for each place.
    bool balances = false;
    // How long it moves none after it has moved one.
    absl::Duration balance_rest;
    // In the last evaluation.
    std::function<absl::Status()> check_end;
  };
  // Numbers of processes are drawn from `random`, those of all coordinators but
  // the first from `chief`.
  ReplicaProcesses(Options options, const IntegerJob& job, RandomStream* random,
                   RandomStream* chief, SimStorage* storage,
                   Simulation* simulation);

  // Who follows the chief; null: there is one chief.
  void set_elections(ElectedChiefs* elections) { elections_ = elections; }

  std::vector<PeerId> PlacesOfTask(uint32_t task) const;
  // The shard that was made last at a place. REQUIRES: AddTask of its task.
  const Shard& ShardAt(uint32_t place) const { return *places_now_.at(place); }

  void AddTask(uint32_t task, uint64_t incarnation);
  // Makes one, which is nobody's yet.
  Coordinator* MakeCoordinator();
  void AddCoordinator();
  void AddWorker(uint32_t index);

  bool was_evaluated_last() const { return final_seen_; }

 private:
  using WeightValues = std::vector<absl::Span<const float>>;

  // How many of the variables have values that tell which batches are in them.
  size_t ExactVariables() const {
    return job_.is_rounded() ? 0 : job_.variables().size();
  }
  IoResult Compute(const v1::ComputeGradient& request,
                   const WeightValues& weights);
  IoResult Evaluate(const v1::EvaluateWeights& request,
                    const WeightValues& weights);

  const Options options_;
  const IntegerJob& job_;
  RandomStream& random_;
  RandomStream& chief_;
  SimStorage& storage_;
  Simulation& simulation_;
  ElectedChiefs* elections_ = nullptr;
  std::vector<std::unique_ptr<Shard>> shards_;  // Of all lives.
  std::map<uint32_t, Shard*> places_now_;       // Of those, by place.
  std::vector<std::unique_ptr<Coordinator>> coordinators_;
  std::vector<std::unique_ptr<Worker>> workers_;
  bool final_seen_ = false;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_REPLICA_PROCESSES_H_
