#ifndef PARAMD_COORDINATOR_CORE_JOB_STOP_H_
#define PARAMD_COORDINATOR_CORE_JOB_STOP_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "coordinator/core/checkpoints.h"
#include "coordinator/core/turn.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// An operator stops the job:
//
//   asked ──► workers and steps ──► last checkpoint ──► all are told
//     │       stand still           (Leaving)           (FailedJob)
//     │                                                      ▲
//     └── "now", or nothing that a checkpoint has not ───────┘
//
// Nothing of it is logged: the next start of the run goes on from its newest
// checkpoint. A job that comes to its end first is finished, not stopped.
//
// Invariants: who asks is answered within 2 s, whatever is waited for, and asks
// again. At most 64 wait.
//
// Not thread-safe: a part of the coordinator's core.
class JobStop {
 public:
  // What the other parts know.
  struct Present {
    const Checkpoints::Checkpoint* newest = nullptr;
    // Before the job runs: servers may hold pushes that no checkpoint has.
    bool may_hold_pushes = false;
    // The same of those that have not answered yet.
    bool may_any_hold_pushes = false;
  };

  // Begins it, or waits with whoever began it.
  void OnRequest(const Message& message, const v1::StopJobRequest& request,
                 Turn* turn);
  // Ends the job if nothing is to be saved first, and answers who has waited
  // for long.
  void Advance(const Present& present, Turn* turn);
  // The newest checkpoint has all there is: exits, with StoppedJob, and refuses
  // who waits with the same.
  void End(const Present& present, Turn* turn);

  bool is_asked() const { return asked_; }
  // "is being stopped by an operator (uid 1000)"; empty: it is not.
  std::string sentence() const;

 private:
  struct Waiting {
    CallId call = 0;
    bool already = false;
    Time until;
  };

  bool MayEndNow(const Present& present, const Turn& turn) const;
  std::string WhatIsLeft(const Present& present, const JobView& job) const;

  bool asked_ = false;
  bool now_ = false;
  Time unheard_until_;  // Servers that have not answered are waited for.
  uint64_t nonce_ = 0;  // Of who began it.
  std::string who_;
  std::vector<Waiting> waiting_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_JOB_STOP_H_
