#ifndef PARAMD_COORDINATOR_CORE_RETIRED_CHECKPOINTS_H_
#define PARAMD_COORDINATOR_CORE_RETIRED_CHECKPOINTS_H_

#include <deque>
#include <vector>

#include "google/protobuf/repeated_ptr_field.h"

#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// Which checkpoints are retired:
//
//   need not stay ──► being logged ──► logged ──► (deleted)
//
// Invariant: none is to be deleted before the log has it as retired. A chief
// that was replaced is told so by its append, and deletes nothing; what it
// deletes late is retired for its successor too.
//
// Not thread-safe: lives inside the coordinator's core.
class RetiredCheckpoints {
 public:
  // So many are logged at once, so that other entries need not wait for long;
  // the next commit names the others again.
  static constexpr size_t kMostAtOnce = 8;

  // The log that was read has it.
  void Read(const v1::SnapshotNumber& retired) { logged_.push_back(retired); }

  struct Work {
    std::vector<v1::SnapshotNumber> to_log;  // In this order.
    // They are there though long retired.
    std::vector<v1::SnapshotNumber> to_delete;
  };
  // What to do about checkpoints that need not stay. Those that are being
  // logged are left alone.
  Work Begin(const google::protobuf::RepeatedPtrField<v1::SnapshotNumber>& old);
  // The log has the first of those that are being logged: it may be deleted.
  // REQUIRES: there is one.
  v1::SnapshotNumber Logged();

  // All that the log has. Bound: the log.
  const std::vector<v1::SnapshotNumber>& logged() const { return logged_; }

 private:
  std::vector<v1::SnapshotNumber> logged_;
  std::deque<v1::SnapshotNumber> logging_;  // Bound: kMostAtOnce.
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_RETIRED_CHECKPOINTS_H_
