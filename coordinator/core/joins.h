#ifndef PARAMD_COORDINATOR_CORE_JOINS_H_
#define PARAMD_COORDINATOR_CORE_JOINS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/types/optional.h"

#include "coordinator/core/turn.h"

namespace paramd {

// Processes that ask to join: who of them gets a session, and what ends that of
// another process of the same worker.
//
// Invariants: at most one call of a worker is kept. A process learns its
// generation only when every server has it in its configuration.
//
// Not thread-safe: a part of the coordinator's core.
class Joins {
 public:
  // Raises WorkerHeard, and HeardOfEnd. False: refused, as it would be again,
  // by what the process is.
  bool OnJoin(const Message& message, const v1::JoinRequest& request,
              Turn* turn);
  // Raises Admitted and SessionOver. `held`: nobody gets a session now.
  void Advance(bool held, Turn* turn);
  // Those whose session every server has. REQUIRES: what Advance raised is
  // delivered.
  void Answer(Turn* turn);
  // Refuses what was kept for long.
  void RefuseLate(Turn* turn);

  // The job is finished. Raises HeardOfEnd.
  void TellEnd(Turn* turn);
  // Nobody was heard for so long, since this process stood still.
  void OnPause(absl::Duration pause);
  // Who asks instead of a session that was taken over waits for its lease.
  void BeginAnew(Time now);

  // Its process asks, or has asked lately.
  bool IsJoining(uint32_t worker) const { return joining_.contains(worker); }
  const std::map<uint32_t, JoiningRecord>& all() const { return joining_; }

 private:
  // `told`: the newest configuration that every server has, if there is one.
  void AdvanceOne(uint32_t index, bool held,
                  const absl::optional<v1::ConfigurationVersion>& told,
                  Turn* turn);
  // Whom no list names, and who asks no more.
  void ForgetJoined(const Turn& turn);

  // Bound: the job's workers, and max_joined_workers.
  std::map<uint32_t, JoiningRecord> joining_;
  std::vector<uint32_t> to_answer_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_JOINS_H_
