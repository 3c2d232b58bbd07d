#include "worker/core/push_cut.h"

#include "base/check.h"
#include "proto/refusal.h"

namespace paramd {

bool PushCut::IsAsked(const v1::SnapshotNumber& snapshot) const {
  return snapshot > cut_.snapshot();
}

void PushCut::Make(const v1::WorkerCut& cut) {
  CHECK(IsAsked(cut.snapshot()), "a snapshot is cut once");
  cut_ = cut;
  heard_ = false;
}

v1::WorkerCut PushCut::Said(uint64_t pushes_acknowledged) const {
  v1::WorkerCut said = cut_;
  said.set_acknowledged(pushes_acknowledged >= cut_.sequence());
  return said;
}

void PushCut::Heard(const v1::WorkerCut& said) {
  heard_ |= said.snapshot() == cut_.snapshot();
}

}  // namespace paramd
