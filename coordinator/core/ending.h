#ifndef PARAMD_COORDINATOR_CORE_ENDING_H_
#define PARAMD_COORDINATOR_CORE_ENDING_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"

#include "coordinator/core/turn.h"

namespace paramd {

// Ends the job when its input is used up: the last checkpoint, the result, the
// entry of the log, and then everybody is told.
//
// Invariant: nobody is told of the end before the log has it.
//
// Not thread-safe: a part of the coordinator's core.
class Ending {
 public:
  // ---- the last checkpoint
  // Whether the next attempt may begin: the last one may have failed.
  bool MaySave(Time now) const { return now >= next_attempt_; }
  // An attempt failed. It is tried for long; then the process ends.
  void OnSaveFailed(const absl::Status& why, Turn* turn);
  int failures() const { return failures_; }
  // All servers go back to a checkpoint: whatever failed may be right then.
  void OnRewind(Time now) {
    failures_ = 0;
    next_attempt_ = now;
  }

  // ---- the result and the log
  // Raises Reached as either is written.
  void Write(std::unique_ptr<v1::WriteResult> result, Turn* turn);

  // ---- telling
  // The log has it: who has no session is to hear of it too.
  void BeginTelling(Turn* turn);
  // The worker has been told without a session.
  void OnHeard(uint32_t worker) { yet_to_hear_.erase(worker); }
  // Servers may leave: everybody else has heard, or has had the time to.
  bool everybody_knows() const { return everybody_knows_; }
  // Raises Reached when this process may end. `idle`: no work is under way.
  void Advance(bool idle, Turn* turn);

 private:
  void OnResultWritten(const IoResult& result, Turn* turn);
  void OnLogged(const IoResult& result, Turn* turn);

  int failures_ = 0;
  Time failing_since_;
  Time next_attempt_;
  bool everybody_knows_ = false;
  // Workers without a session that have not asked since the end.
  std::set<uint32_t> yet_to_hear_;
  Time deadline_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_ENDING_H_
