#ifndef PARAMD_COORDINATOR_CORE_STEP_LEDGER_H_
#define PARAMD_COORDINATOR_CORE_STEP_LEDGER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "coordinator/core/sync_steps.h"
#include "coordinator/core/turn.h"

namespace paramd {

// Sync mode: who contributes, which step is decided, and whether all go back to
// the checkpoint.
//
// Invariants: sessions and contributors change only while every server has
// applied the newest decided step. Contributors are in the log before a step is
// decided of them. Every server has at most one Decide under way.
//
// Not thread-safe: a part of the coordinator's core.
class StepLedger {
 public:
  // What else is going on.
  struct Obstacles {
    bool snapshot_open = false;  // Servers are to freeze.
    bool committing = false;     // Or its directory is being prepared.
    bool logging_mode = false;   // With which sessions may end.
    bool changing_rate = false;  // Servers hear of it between two steps.
    bool stopping = false;       // The job: no further step.
  };

  explicit StepLedger(const CoordinatorOptions& options);

  const SyncSteps& steps() const { return steps_; }

  // ---- beginning
  // The job goes on after this step; nobody contributes yet.
  void GoOnFrom(uint64_t step, const v1::SavedInput& input) {
    steps_.Restore(step, input);
  }
  // The first step is kept for so many workers of the list, until then at most.
  void AwaitContributors(uint32_t workers, Time until);
  // What servers keep of steps under way is of no account any more.
  void ForgetCalls();
  void OnSessionsEnded() { contributing_.clear(); }
  // It is in its other place, which has all that the last one said.
  void OnTakenOver(uint32_t server, Time now) { calls_[server] = {0, now}; }
  // This process stood still until now.
  void OnPause(Time now) { kept_ = now; }

  // ---- going back
  // A server came back without what it had of the steps.
  void GoBack() { going_back_ = true; }
  bool going_back() const { return going_back_; }
  // From the writing of the result on the newest checkpoint is the job's last.
  bool MayGoBack(const Obstacles& obstacles, const JobView& job) const;

  // ---- steps
  // Raises BackToCheckpoint, FenceIsDue and HoldsUpStep.
  void Advance(const Obstacles& obstacles, Turn* turn);
  // Tells servers what is decided.
  void DriveServers(Turn* turn);
  // False if it answers something else. Raises ServerHeard.
  bool OnReply(uint32_t server, const Message& message, Turn* turn);
  Time next_tick(const JobView& job) const;
  bool logging_contributors() const { return logging_; }
  // Whom the next step waits for; empty: nobody.
  std::string waiting_for(const JobView& job) const;

 private:
  // The sessions that are to contribute, by worker.
  using Sessions = std::map<uint32_t, v1::SessionId>;
  // What a server is being told.
  struct Call {
    CallId id = 0;  // 0: nothing.
    Time next;
  };

  void AdvanceStep(const Obstacles& obstacles, Turn* turn);
  bool MayContribute(const Sessions& sessions, const JobView& job,
                     Time now) const;
  void LogContributors(const Sessions& sessions, Turn* turn);
  void OnContributorsLogged(const IoResult& result, Turn* turn);
  void FindWhoHoldsUp(Turn* turn);
  bool MayCall(uint32_t server, const JobView& job) const;

  SyncSteps steps_;
  std::vector<Call> calls_;  // By server.
  bool logging_ = false;
  v1::Contributors logged_;  // Or being logged.
  Sessions contributing_;    // Theirs.
  uint32_t awaited_;         // By the first step.
  // From when on the first step is not kept for them any more.
  Time begin_at_ = Time::Never();
  Time kept_;  // When something else than workers last kept the open step.
  bool going_back_ = false;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_STEP_LEDGER_H_
