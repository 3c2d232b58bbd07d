#ifndef PARAMD_COORDINATOR_CORE_SERVERS_H_
#define PARAMD_COORDINATOR_CORE_SERVERS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"

#include "coordinator/core/fill_relay.h"
#include "coordinator/core/snapshot_calls.h"
#include "coordinator/core/turn.h"

namespace paramd {

// The servers: who is there, what each holds, and what it is asked next.
//
//   recalled ──► configured ──► filled ──► calls of the snapshot, or kept alive
//      ▲                                                  │
//      └──────────────── suspected ───────────────────────┘
//
// One that is not ready for a call of the snapshot is configured before it is
// asked again: it may not have heard of the number, or be another process.
// A server that does not see its checkpoint gets the slices through here. When
// the job has ended each is told, and once more when everybody knows.
//
// Invariants: each has at most one call under way. A new life of a server has a
// generation of its own before it is asked to hold anything.
//
// Not thread-safe: a part of the coordinator's core.
class Servers {
 public:
  // `snapshots` outlives it.
  Servers(const CoordinatorOptions& options, const SnapshotCalls& snapshots);

  const std::vector<ServerRecord>& all() const { return servers_; }

  // ---- what they are to hold
  // This, which they hold already. In the order of the servers.
  void TakeOver(const std::vector<ServerRecord>& known, Turn* turn);
  // All of them this checkpoint, or if empty initial values.
  void RestoreAll(const std::string& checkpoint, Turn* turn);
  // One that comes back alone.
  void Restore(uint32_t server, const std::string& checkpoint, Turn* turn);
  // The log says that it was there, before anybody is called.
  void GoOnAt(uint32_t server, uint32_t peer) { servers_[server].peer = peer; }
  // Which server is called so now; unset: none.
  absl::optional<uint32_t> ServerAt(uint32_t peer) const;
  bool IsAt(uint32_t server, uint32_t peer) const {
    return servers_[server].peer.value_or(server) == peer;
  }
  // Nothing is asked of it until it is in its other place.
  void AwaitTakeOver(uint32_t server) { servers_[server].taken_over = true; }
  // Everybody is to know this of it. False: it is of what it held before, and
  // nothing has changed.
  bool Change(const ReplicaChanged& change, Turn* turn);
  // What it holds is of no use any more. Raises ServerReborn.
  void BeginAnew(uint32_t server, Turn* turn);
  // The checkpoint is damaged: what servers still say of it is of no account.
  void PassOver(const std::string& checkpoint);

  // ---- calls
  // Calls those that are due, and reads what they do not see.
  void Advance(Turn* turn);
  // The same for one of them, and when it is due.
  void AdvanceOne(uint32_t server, Turn* turn);
  Time due(uint32_t server, const JobView& job) const;
  // Raises what was heard: ServerRecalled, ServerReborn, ServerConfigured,
  // SnapshotAnswered, or what OnFailed does.
  void OnReply(uint32_t server, const Message& message, Turn* turn);
  // Of another call than these: it was answered, or not as it should be.
  void OnHeard(uint32_t server, const absl::Status& status, Turn* turn);
  // It applies nothing behind this snapshot, if it drains.
  void OnSealedToLeave(uint32_t server, const v1::SnapshotNumber& snapshot);
  // This process leaves too: nothing is handed over any more, all is saved.
  void OnChiefLeaves() { chief_leaves_ = true; }
  // Everybody else has heard of the end.
  void OnEverybodyKnows() { everybody_knows_ = true; }
  // All are to be called at once, or as soon as nothing else is under way: all
  // of them, or those that drain.
  void CallAll(Time now);
  void KeepAliveAll(Time now);
  void KeepAlive(uint32_t server, Time now) {
    servers_[server].next_keepalive = now;
  }
  void KeepAliveDraining(Time now);
  Time next_tick(const JobView& job) const;

  // ---- for people
  // Those that are not there, or one that is not filled; empty: none.
  std::string waiting_for(const JobView& job) const;
  void FillStatus(Time now, v1::JobStats* status) const;

 private:
  using Call = ServerRecord::Call;
  // What a server is to be asked next, and when.
  struct Due {
    Call call = Call::kNone;
    Time at = Time::Never();
  };

  Due NextCall(uint32_t server, const JobView& job) const;
  void CallOne(uint32_t server, Call call, Turn* turn);
  Outbox::Head MakeConfigure(uint32_t server, const v1::Header& header,
                             const Turn& turn) const;
  Outbox::Head MakeCall(uint32_t server, Call call, const Turn& turn,
                        BufferChain* payload) const;
  void OnRecalled(uint32_t server, const v1::RecallReply& reply, Turn* turn);
  void OnConfigured(uint32_t server, const v1::ConfigureReply& reply,
                    Turn* turn);
  // One that drains is waited for until its backup takes over.
  bool MayHandOver(const ServerRecord& server, const Turn& turn) const;
  // Raises SnapshotCallFailed or NotRestored if it is of either.
  void OnFailed(uint32_t server, Call call, const absl::Status& status,
                Turn* turn);
  void CallIfDue(uint32_t server, Turn* turn);
  void ReadSlices(uint32_t server, Turn* turn);
  void OnSlicesRead(uint32_t server, const v1::ServerLife& generation,
                    const IoResult& result, Turn* turn);

  const SnapshotCalls& snapshots_;
  std::vector<ServerRecord> servers_;
  FillRelay fills_;
  std::set<std::string> passed_over_;  // Bound: checkpoints of the directory.
  bool everybody_knows_ = false;
  bool chief_leaves_ = false;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_SERVERS_H_
