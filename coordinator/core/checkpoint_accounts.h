#ifndef PARAMD_COORDINATOR_CORE_CHECKPOINT_ACCOUNTS_H_
#define PARAMD_COORDINATOR_CORE_CHECKPOINT_ACCOUNTS_H_

#include <cstdint>
#include <vector>

#include "coordinator/core/checkpoint_metrics.h"
#include "coordinator/core/job_audit.h"
#include "coordinator/core/job_view.h"
#include "coordinator/core/loss_report.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "tensor/outbox.h"

namespace paramd {

// What a manifest says besides its files: the newest evaluation, which pushes
// are lost, and whether each of the others is in exactly once.
class CheckpointAccounts {
 public:
  CheckpointMetrics metrics;
  LossReport loss;
  JobAudit audit;

  // The job goes on from this checkpoint.
  void Found(const v1::Manifest& manifest, bool sync);
  // All sessions end at once. In sync mode, and until its steps are saved, what
  // a server loses is computed again.
  void SessionsEnd(const JobView& job);
  // Into the manifest of the checkpoint that is about to be committed.
  void Complete(v1::Manifest* manifest, bool sync, Outbox* out);
  // It is.
  void Committed(const v1::SnapshotNumber& number, Outbox* out);

  // Chunks of the newest checkpoint that were acknowledged when only one server
  // had them.
  uint64_t acknowledged_alone() const { return alone_; }
  uint64_t pushes_lost() const { return loss.pushes() + audit.missing(); }
  uint64_t pushes_doubled() const { return audit.doubled(); }

  static void NoteLost(const std::vector<v1::LostPushes>& lost, Outbox* out);

 private:
  uint64_t alone_ = 0;
  uint64_t next_alone_ = 0;  // Of the one that is about to be committed.
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_CHECKPOINT_ACCOUNTS_H_
