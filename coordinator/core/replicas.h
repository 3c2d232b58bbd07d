#ifndef PARAMD_COORDINATOR_CORE_REPLICAS_H_
#define PARAMD_COORDINATOR_CORE_REPLICAS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"

#include "coordinator/core/place_watch.h"
#include "coordinator/core/snapshot_calls.h"
#include "coordinator/core/turn.h"

namespace paramd {

// With replication: the other place of each server, who is there, and whether
// it is the server's backup and may take it over.
//
//            recalled, server filled       whole: logged
//   idle ───────────────────────────► told ─────────────► member
//     ▲                                │                    │
//     ├──── lost, or another process ◄─┘◄── logged ─────────┤
//     │                                                     ▼
//     └── the server's last place ◄── server gone: logged ── it is the server
//
// Where the server's process leaves, its backup takes over as if it were gone,
// once it says that it has stopped. A backup whose process leaves is dropped as
// soon as its server has answered since then, and so does not need it.
// To be moved, a server gets a backup in its new place, is handed over to it,
// and then gets a backup elsewhere; meanwhile it may have none.
//
// Invariants: only a member of the newest configuration in the log takes over,
// and nobody is told of that, nor that a member is none any more, before the
// log has it: else a server might acknowledge what nobody has. Each server has
// one such entry under way at most, and each place one call.
//
// Not thread-safe: a part of the coordinator's core.
class Replicas {
 public:
  // Both outlive it.
  Replicas(const CoordinatorOptions& options, const SnapshotCalls& snapshots,
           PlaceWatch* watch);

  // Whether servers have other places at all.
  bool active() const { return !places_.empty(); }
  // In which of its places the server is said to be by an entry of the log;
  // unset: none of those it has now.
  static absl::optional<uint32_t> PeerIn(const v1::ServerMember& logged,
                                         const CoordinatorOptions& options);
  // The server is there, as the log says or after a take-over.
  void GoOnAt(uint32_t server, uint32_t peer);
  // It belongs in these two places from now on, and its backup too: a backup
  // elsewhere is dropped. If it `settles` it is handed over until it is in
  // `home`.
  void Aim(uint32_t server, const ServerPlaces& places, bool settles);
  // It is not handed over to be in its home.
  void Stay(uint32_t server) { targets_[server].settles = false; }
  // It is in `home`, and its backup, which has everything, in `away`.
  static bool IsSettled(uint32_t server, const ServerPlaces& places,
                        const JobView& job);
  // Which server's other place is called so; unset: of none.
  absl::optional<uint32_t> ServerAt(uint32_t peer) const;
  bool IsAt(uint32_t server, uint32_t peer) const {
    return places_[server].peer == peer;
  }

  // ---- what is heard
  // A server has answered its configuration.
  void OnConfigured(uint32_t server, const v1::ConfigureReply& reply);
  // It is gone, as is known for certain, and comes back with nothing. True if
  // its backup takes over.
  bool TakesOver(uint32_t server, Turn* turn);
  // An answer of its other place.
  void OnReply(uint32_t server, const Message& message, Turn* turn);
  // This process leaves, and everything with it: nobody begins to hand over.
  void OnChiefLeaves() { chief_leaves_ = true; }
  // All servers begin anew: nobody is a backup of what they hold.
  void OnRestoreAll();

  // ---- what is due
  void Advance(bool everybody_knows, Turn* turn);
  // The same for one server, and when its other place is to be called.
  void AdvanceOne(uint32_t server, Turn* turn);
  Time due(uint32_t server, const JobView& job) const;
  Time next_tick(const JobView& job) const;
  // Its other place is to be called as soon as nothing else is under way.
  void KeepAlive(uint32_t server, Time now) {
    places_[server].next_keepalive = now;
  }
  // Those that were heard: how they are called, and which processes they are.
  std::vector<std::pair<uint32_t, uint64_t>> others() const;
  // All other places know that everybody knows of the end.
  bool all_know() const;

  // Why the server can't be handed over now, to somebody who asks for that;
  // empty: it can.
  std::string WhyNotHandedOver(uint32_t server, const JobView& job) const;

  // ---- for people
  // A server that has no backup, and why; empty: each has one.
  std::string Missing(const JobView& job) const;

 private:
  using Call = ServerRecord::Call;
  // What the log is being told of a server.
  enum class Logging { kNothing, kMember, kDrop, kTakeOver };
  // Where the server is not.
  struct Place {
    uint32_t peer = 0;
    uint32_t other = 0;        // Where the server is.
    uint64_t incarnation = 0;  // 0: not heard of yet.
    std::string build;         // Of that process. Empty: not known.
    bool suspected = true;
    bool ended = false;  // The process last heard of, for certain.
    v1::ConfigurationVersion acknowledged;
    // This and the next as in ServerRecord.
    v1::ConfigurationVersion told_since;
    bool told_changes = false;
    Call call = Call::kNone;
    CallId call_id = 0;
    Time next_call;
    Time next_keepalive;
    Time again;  // Not told anything before that.
    int end_told = 0;
    int end_asked = 0;
    Logging logging = Logging::kNothing;
    bool gone = false;        // The server, for certain.
    v1::BackupReport report;  // What the server says of it.
    std::string why;          // It is no backup; for people.
  };
  // Where a server and its backup belong.
  struct Target {
    ServerPlaces places;
    bool settles = false;
  };

  void Decide(uint32_t server, Turn* turn);
  // What follows from that their processes leave.
  void HandOver(uint32_t server, Turn* turn);
  // Where its backup belongs.
  uint32_t Wanted(uint32_t server) const;
  // Its process stays, and the server is to leave it.
  bool MovesFrom(uint32_t server, uint32_t peer) const;
  void BeginElsewhere(uint32_t server);
  void LetGo(uint32_t server, const JobView& job);
  // The place of the server is neither it nor its backup, which the log has,
  // and the server is where it is said to be, or nowhere.
  bool IsFree(uint32_t server, uint32_t peer, const JobView& job) const;
  // How the server has come to answer nobody in its last place.
  enum class Last { kSilent, kEnded, kStopped, kMoved };
  void LogTakeOver(uint32_t server, Last last, Turn* turn);
  // They are of two builds: numbers might differ.
  bool IsOfAnotherBuild(uint32_t server, Turn* turn);
  void Tell(uint32_t server, Turn* turn);
  void LogMember(uint32_t server, Turn* turn);
  void Drop(uint32_t server, const std::string& why, Turn* turn);
  // Has the change told when the log has it.
  void Log(uint32_t server, Logging what, ReplicaChanged change, Turn* turn);
  void OnLogged(uint32_t server, const ReplicaChanged& change, Turn* turn);
  // Its backup has all that was acknowledged, and can be reached.
  bool HasEverything(uint32_t server, const JobView& job) const;
  // The server as the configuration has it.
  static v1::ServerMember MemberOf(uint32_t server, const Turn& turn);
  struct Due {
    Call call = Call::kNone;
    Time at = Time::Never();
  };
  Due NextCall(uint32_t server, const JobView& job) const;
  void CallOne(uint32_t server, Call call, Turn* turn);
  void OnFailed(uint32_t server, const absl::Status& status, Turn* turn);

  const SnapshotCalls& snapshots_;
  PlaceWatch& watch_;
  const std::vector<ServerPlaces> all_;  // By server, as the next two.
  std::vector<Place> places_;            // Empty without replication.
  std::vector<Target> targets_;
  bool everybody_knows_ = false;
  bool chief_leaves_ = false;
  uint64_t era_ = 0;  // Raised when what is being logged is of no use.
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_REPLICAS_H_
