#ifndef PARAMD_COORDINATOR_CORE_JOB_AUDIT_H_
#define PARAMD_COORDINATOR_CORE_JOB_AUDIT_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/types/optional.h"

#include "coordinator/core/push_audit.h"
#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {

// What the job's checkpoints show of pushes that are in twice, or missing.
//
// Where the mode was changed to or from sync, blocks count pushes and steps in
// one number: from then on a checkpoint is compared with the first one after
// the change, by what came since.
//
// Not thread-safe: lives inside the coordinator's core.
class JobAudit {
 public:
  // The mode was changed to or from sync, now or in an earlier term of this
  // run.
  void ModeChanged();
  // The job goes on from this checkpoint.
  void Found(const v1::Manifest& manifest, bool sync);
  // This one is about to be committed.
  void Committing(const v1::Manifest& manifest, bool sync);
  // It is.
  void Committed();

  // As of PushAudit: of the newest checkpoint, or the most that was found since
  // the mode was changed, and before.
  uint64_t doubled() const {
    return std::max(doubled_before_, newest_.doubled());
  }
  uint64_t missing() const {
    return std::max(missing_before_, newest_.missing());
  }
  // Of the newest checkpoint, as of PushAudit.
  const std::string& sentence() const { return newest_.sentence(); }

 private:
  // What follows may be compared with another base and find less.
  void KeepCounts();

  bool mode_changed_ = false;
  // The first checkpoint after the newest change.
  absl::optional<v1::Manifest> base_;
  PushAudit newest_;
  uint64_t doubled_before_ = 0;
  uint64_t missing_before_ = 0;
  absl::optional<v1::Manifest> next_base_;
  PushAudit next_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_JOB_AUDIT_H_
