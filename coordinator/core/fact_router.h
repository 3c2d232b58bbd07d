#ifndef PARAMD_COORDINATOR_CORE_FACT_ROUTER_H_
#define PARAMD_COORDINATOR_CORE_FACT_ROUTER_H_

#include "absl/strings/string_view.h"

#include "coordinator/core/coordinator_parts.h"

namespace paramd {

// Delivers what a part has raised to the parts that it is for: who is told of
// what, and in which order, is written here alone.
//
// Not thread-safe: lives inside a Dispatcher.
class FactRouter {
 public:
  // `parts` outlives it.
  explicit FactRouter(CoordinatorParts* parts) : parts_(*parts) {}

  // All facts of the turn, and those raised meanwhile, in their order.
  void Deliver(Turn* turn);

 private:
  // ---- the start
  void On(const LogRead& read, Turn* turn);
  void On(const RunFinished&, Turn* turn);
  void On(const CheckpointFound& found, Turn* turn);
  void On(const Reached& reached, Turn* turn);

  // ---- sessions
  void On(const Admitted& admitted, Turn* turn);
  void On(const WorkerHeard& heard, Turn* turn);
  void On(const HeardOfEnd& heard, Turn*);
  void On(const SessionOver& over, Turn* turn);
  void On(const HoldsUpStep& holds_up, Turn* turn);
  void On(const SessionFenced& fenced, Turn* turn);
  void On(const FenceIsDue& due, Turn* turn);
  void On(const SessionEnded& ended, Turn*);

  // ---- servers
  void On(const ServerHeard& heard, Turn* turn);
  void On(const ServerRecalled& recalled, Turn*);
  void On(const ServerConfigured& configured, Turn*);
  void On(const ServerReborn& reborn, Turn* turn);
  void On(const ReplicaChanged& changed, Turn* turn);
  void On(const NotRestored& not_restored, Turn* turn);
  void On(const BackToCheckpoint&, Turn* turn);

  // ---- snapshots, the mode, the input
  void On(const SnapshotAnswered& answered, Turn* turn);
  void On(const SnapshotCallFailed& failed, Turn* turn);
  void On(const SnapshotToLeaveWith&, Turn* turn);
  void On(const AllIsSaved&, Turn* turn);
  void On(const CheckpointCommitted& committed, Turn* turn);
  void On(const CheckpointFailed& failed, Turn* turn);
  void On(const SettingChanged& changed, Turn* turn);
  void On(const ModeLogged&, Turn* turn);
  void On(const InputUsed& used, Turn*);
  void On(const Evaluated&, Turn*);

  // Where servers are.
  void ReadPlace(const v1::ServerMember& logged);
  // Servers and workers begin as it says.
  void Follow(const StartPlan& plan, Turn* turn);
  // Nobody's session goes on: all workers join again, as the sentence says.
  void EndSessions(absl::string_view why, Turn* turn);
  void WriteResult(Turn* turn);

  CoordinatorParts& parts_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_FACT_ROUTER_H_
