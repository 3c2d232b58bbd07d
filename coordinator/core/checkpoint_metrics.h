#ifndef PARAMD_COORDINATOR_CORE_CHECKPOINT_METRICS_H_
#define PARAMD_COORDINATOR_CORE_CHECKPOINT_METRICS_H_

#include <cstdint>
#include <string>

#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "proto/paramd/v1/status.pb.h"
#include "proto/paramd/v1/storage.pb.h"

namespace paramd {

// What a job's settings say of which checkpoints stay, the best by
// `best_metric`; if that is empty by accuracy where this newest one has it,
// else by loss.
v1::Retention RetentionOf(const v1::CheckpointConfig& config,
                          const std::string& best_metric,
                          const v1::Manifest& newest);

// Which evaluation a checkpoint's manifest names: the newest before it was
// opened, also across restarts and rewinds. At most one checkpoint is open.
//
// Not thread-safe: lives inside the coordinator's core.
class CheckpointMetrics {
 public:
  // The job goes on from this checkpoint.
  void Restored(const v1::Manifest& manifest);
  // The weights of about this step were evaluated. REQUIRES: of examples.
  void Evaluated(const v1::Evaluation& evaluation, uint64_t step);
  void Opened() { opened_ = newest_; }
  // Into the manifest of the one that is open: "loss", the metrics that the
  // model has, and their step, or nothing without an evaluation.
  void Fill(v1::Manifest* manifest) const;
  void Committed() { committed_ = opened_; }
  // The job goes back to the checkpoint that was committed or restored last.
  void Rewind() { newest_ = committed_; }

 private:
  // Manifests of which only the metrics are set.
  v1::Manifest newest_;
  v1::Manifest opened_;
  v1::Manifest committed_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_CHECKPOINT_METRICS_H_
