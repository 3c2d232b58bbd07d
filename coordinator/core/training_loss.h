#ifndef PARAMD_COORDINATOR_CORE_TRAINING_LOSS_H_
#define PARAMD_COORDINATOR_CORE_TRAINING_LOSS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/optional.h"

#include "proto/metric_values.h"
#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/status.pb.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// The mean loss of what workers have trained on, and the metrics, out of the
// sums that they tell: each example is in one mean, however often it is told.
//
// Not thread-safe: lives inside the coordinator's core.
class TrainingLoss {
 public:
  // The job goes on from a step, or begins: what was told of later ones is
  // void.
  void Begin(uint64_t step);
  // What a session told last. One that was taken over from an earlier
  // coordinator counts from what it tells first.
  void Told(uint32_t worker, const v1::SessionId& generation, bool taken_over,
            const v1::WorkerStats& stats);

  bool has_unreported() const { return unreported_.examples > 0; }
  // Of all that is new since the last call: "loss", and the metrics by name.
  // REQUIRES: has_unreported().
  std::map<std::string, double> TakeMeans();

  // The loss of about the first thousand examples of the job, and of the
  // newest; unset if it goes on from a step, or was too short to have both.
  absl::optional<double> first() const;
  absl::optional<double> newest() const;

 private:
  struct Sum {
    double mean() const { return loss / static_cast<double>(examples); }
    uint64_t examples = 0;
    double loss = 0;
    MetricSums metrics;
  };
  struct Session {
    v1::SessionId generation;
    Sum told;
  };

  absl::flat_hash_map<uint32_t, Session>
      sessions_;  // Bound: the job's workers.
  Sum unreported_;
  bool from_the_start_ = false;
  Sum sample_;  // Being filled.
  absl::optional<double> first_;
  absl::optional<double> newest_;
};

// What people should know of a job that has ended: that its last evaluation has
// a loss which is not finite, or an accuracy that guessing has too; or that the
// training loss is above what it began with. A sentence each.
std::vector<std::string> TrainingWarnings(const v1::Evaluation& evaluation,
                                          const TrainingLoss& loss);

// The same of what was to happen at a step of the job that its steps did not
// reach: pruning to its last share of zeros, training for integers.
std::vector<std::string> ScheduleWarnings(const v1::JobConfig& job,
                                          uint64_t steps);

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_TRAINING_LOSS_H_
