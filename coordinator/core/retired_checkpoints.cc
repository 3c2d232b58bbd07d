#include "coordinator/core/retired_checkpoints.h"

#include <algorithm>

#include "base/check.h"
#include "proto/refusal.h"

namespace paramd {

RetiredCheckpoints::Work RetiredCheckpoints::Begin(
    const google::protobuf::RepeatedPtrField<v1::SnapshotNumber>& old) {
  Work work;
  for (const v1::SnapshotNumber& version : old) {
    if (std::find(logged_.begin(), logged_.end(), version) != logged_.end()) {
      work.to_delete.push_back(version);
    } else if (logging_.size() < kMostAtOnce &&
               std::find(logging_.begin(), logging_.end(), version) ==
                   logging_.end()) {
      logging_.push_back(version);
      work.to_log.push_back(version);
    }
  }
  return work;
}

v1::SnapshotNumber RetiredCheckpoints::Logged() {
  CHECK(!logging_.empty(), "what is logged was begun");
  logged_.push_back(logging_.front());
  logging_.pop_front();
  return logged_.back();
}

}  // namespace paramd
