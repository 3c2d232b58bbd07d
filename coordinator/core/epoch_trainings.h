#ifndef PARAMD_COORDINATOR_CORE_EPOCH_TRAININGS_H_
#define PARAMD_COORDINATOR_CORE_EPOCH_TRAININGS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "coordinator/core/told_mark.h"
#include "coordinator/core/turn.h"
#include "proto/metric_values.h"
#include "proto/paramd/v1/status.pb.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// What was trained on in each epoch, out of the sums that workers tell: each
// example that was told of is in the mean of its epoch, however often it is
// told. What a worker did since it was heard last is lost with it.
//
// Not thread-safe: lives inside the coordinator's core.
class EpochTrainings {
 public:
  // Older epochs are forgotten.
  static constexpr size_t kMostEpochs = 1000;

  // What a session told last.
  void Told(uint32_t worker, const v1::SessionId& generation,
            const v1::WorkerStats& stats);
  // From this epoch on the job trains anew.
  void ForgetFrom(uint32_t epoch);

  // So many epochs are over: says of each that was not said before what it was
  // trained with, once every worker has told all that it did in it. `ending`:
  // all have.
  void Advance(uint32_t finished, bool ending, Turn* turn);

  // In order.
  std::vector<v1::EpochTraining> All() const;

 private:
  struct Session {
    v1::SessionId generation;
    std::map<uint32_t, v1::EpochSums> told;  // Bound: kMostEpochs.
  };

  void Note(Turn* turn);

  absl::flat_hash_map<uint32_t, Session>
      sessions_;  // Bound: the job's workers.
  std::map<uint32_t, v1::EpochSums> epochs_;
  uint32_t noted_ = 0;   // Epochs up to this one were said.
  uint32_t marked_ = 0;  // Those up to this one are, when the mark is passed.
  ToldMark mark_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_EPOCH_TRAININGS_H_
