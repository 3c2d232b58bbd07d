#ifndef PARAMD_TESTS_SIM_MODEL_CLUSTER_H_
#define PARAMD_TESTS_SIM_MODEL_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "coordinator/core/coordinator.h"
#include "server/core/shard.h"
#include "tests/sim/model_job.h"
#include "tests/sim/storage.h"
#include "worker/core/worker.h"

namespace paramd {

// What a training came to: the bytes of each variable, and of each of its slots
// under "<variable>/slot:<slot>", as the last checkpoint has them.
using TrainedWeights = std::map<std::string, std::string>;

class ModelTrainer;

// The cores of a job that trains the real model, and the work outside them, for
// any transport. One life of each process: another cluster on the same storage
// goes on where it was cut off.
//
// Not thread-safe. Job and storage outlive it.
class ModelCluster {
 public:
  // `seed`: of what processes draw; another one for another life.
  ModelCluster(const ModelJob& job, uint64_t seed, SimStorage* storage);
  ~ModelCluster();

  // Each node with its core and its work.
  using Add = std::function<void(PeerId, Core*, std::vector<SimStorage::Work>)>;
  void ForEachNode(const Add& add);

  // Out of the newest checkpoint. kDataLoss if the job did not end.
  absl::StatusOr<TrainedWeights> Trained() const;
  // What the newest checkpoint says beside the numbers, in words: by slice, how
  // many steps each block has applied; by slice and kRunning, the bits of its
  // running gradient.
  std::map<std::string, std::string> Counts() const;
  static constexpr char kRunning[] = "/running";

 private:
  SimStorage* const storage_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<ModelTrainer>> trainers_;
  std::unique_ptr<Coordinator> coordinator_;
};

// kDataLoss naming the first variable or slot that has other bits.
absl::Status CompareWeights(const TrainedWeights& trained,
                            const TrainedWeights& expected);

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_MODEL_CLUSTER_H_
