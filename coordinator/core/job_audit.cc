#include "coordinator/core/job_audit.h"

#include <utility>

namespace paramd {

void JobAudit::ModeChanged() {
  mode_changed_ = true;
  KeepCounts();
  base_.reset();
  next_base_.reset();
}

void JobAudit::Found(const v1::Manifest& manifest, bool sync) {
  base_.reset();
  Committing(manifest, sync);
  Committed();
}

void JobAudit::Committing(const v1::Manifest& manifest, bool sync) {
  next_ = PushAudit();
  next_base_.reset();
  if (!mode_changed_) {
    next_ = PushAudit(manifest, sync);
  } else if (base_.has_value() && PushAudit::HaveSameSlices(*base_, manifest)) {
    next_ = PushAudit(manifest, sync, &*base_);
  } else {
    next_base_ = manifest;
  }
}

void JobAudit::Committed() {
  newest_ = next_;
  if (mode_changed_) KeepCounts();
  if (next_base_.has_value()) base_ = std::exchange(next_base_, absl::nullopt);
}

void JobAudit::KeepCounts() {
  doubled_before_ = doubled();
  missing_before_ = missing();
}

}  // namespace paramd
