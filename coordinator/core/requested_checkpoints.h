#ifndef PARAMD_COORDINATOR_CORE_REQUESTED_CHECKPOINTS_H_
#define PARAMD_COORDINATOR_CORE_REQUESTED_CHECKPOINTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "coordinator/core/turn.h"
#include "proto/refusal.h"

namespace paramd {

// Checkpoints that operators ask for: who waits for which, and whether a
// snapshot is to be opened for them.
//
// A request is for any checkpoint from a number on, which is chosen such that
// each of them has what was acknowledged before the request came. So one that
// is given up is followed by another, and a coordinator that takes over knows
// by the number alone what is there already.
//
// Invariants: a call is answered once, within kPatience; at most kMostWaiting
// wait. A snapshot is wanted only while no checkpoint and none under way has
// the number.
//
// Not thread-safe: a part of the coordinator's core.
class RequestedCheckpoints {
 public:
  static constexpr absl::Duration kPatience = absl::Seconds(2);
  static constexpr size_t kMostWaiting = 64;

  // What there is of checkpoints.
  struct Present {
    v1::SnapshotNumber committed;  // The newest one. Zero: none.
    absl::string_view path;
    uint64_t step = 0;
    v1::SnapshotNumber under_way;  // The snapshot. Zero: none.
    // All that is acknowledged by now will be in it.
    bool has_all = false;
    // Those to be opened have this number or a higher one.
    v1::SnapshotNumber next;
  };

  // Answers at once if it is there, or if nobody may ask: JOB_FINISHED when the
  // job is; RETRY before it runs; INVALID if such a number was never named;
  // NOT_READY, saying why, if it could not be written. Else by Advance.
  void OnRequest(const Message& message, const v1::CheckpointRequest& request,
                 const Present& present, Turn* turn);
  // This snapshot can't be written: whoever waits for it is told.
  void OnFailed(const v1::SnapshotNumber& snapshot, const absl::Status& why,
                Turn* turn);
  // Answers those whose checkpoint is there, and, with the number to ask again,
  // those who have waited long.
  void Advance(const Present& present, Turn* turn);
  // A snapshot is to be opened as soon as one may be.
  bool WantsOne() const { return !IsZero(wanted_); }

 private:
  struct Waiting {
    CallId call = 0;
    v1::SnapshotNumber number;
    Time until;
  };

  // Why nobody may ask for this one; zero: for a new one.
  absl::Status CheckMayAsk(const v1::SnapshotNumber& number,
                           const Present& present, const JobView& job) const;
  absl::Status Failure() const;
  void Want(const v1::SnapshotNumber& number, const Present& present);

  std::vector<Waiting> waiting_;
  v1::SnapshotNumber wanted_;  // From this number on. Zero: none.
  v1::SnapshotNumber failed_;  // The newest that could not be written.
  std::string why_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_REQUESTED_CHECKPOINTS_H_
