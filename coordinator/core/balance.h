#ifndef PARAMD_COORDINATOR_CORE_BALANCE_H_
#define PARAMD_COORDINATOR_CORE_BALANCE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/types/optional.h"

#include "coordinator/core/balance_plan.h"
#include "coordinator/core/place_watch.h"
#include "coordinator/core/replicas.h"
#include "coordinator/core/turn.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// Which server belongs in which ps: where its number puts it (PlacesAmong),
// unless it was moved. With rebalance this moves servers, by the processor time
// that servers and backups report:
//
//             a window is over, and a move clearly helps
//   measures ───────────────────────────────────────────► logging ──► moves
//      ▲                                                                │
//      └── logged that it is there, or that it is given up ◄────────────┘
//
// A window is a minute in which each server has a backup that has everything,
// all ps are there, and no server changes its place; anything else restarts it.
// A checkpoint does not, but a move begins only after it.
// Another number of ps takes the place of a move that is under way; without
// rebalance, which an operator may set at any time, the move is given up.
//
// Invariants: no server is moved before the log has it; one server is moved at
// a time, and only while all others have a backup; one that was moved is not
// moved again for `balance_rest`, nor for that long after a coordinator has
// found it moved.
//
// Not thread-safe: a part of the coordinator's core.
class Balance {
 public:
  // What the rest of the coordinator is doing.
  struct Present {
    uint32_t tasks = 0;  // How many ps hold everything.
    // That number is being changed, or has not been reached yet.
    bool is_scaling = false;
    // The job runs, and nobody leaves or changes anything.
    bool may_begin = false;
    // Nobody is about to leave with a checkpoint.
    bool may_move = false;
    // A checkpoint is being written, which a hand-over would end.
    bool is_saving = false;
  };

  // Both outlive it.
  Balance(const CoordinatorOptions& options, PlaceWatch* watch,
          Replicas* replicas);

  // ---- the log has this; the last one counts
  void Read(const v1::Move& logged);
  // The job is scaled, which ends a move that is under way.
  void ReadScale() { moving_.reset(); }
  // All of it was read.
  void OnLogRead(const Turn& turn);

  // Where this server and its backup belong, in so many ps.
  ServerPlaces PlacesOf(uint32_t server, uint32_t tasks) const;
  bool IsUnderWay() const { return logging_ || moving_.has_value(); }

  // Whoever is in this place has answered its configuration.
  void OnConfigured(uint32_t peer, const v1::ConfigureReply& reply, Time now);
  // Measures, begins a move, or goes on with one.
  void Advance(const Present& present, Turn* turn);

  void FillStatus(Time now, v1::JobStats* status) const;

 private:
  // What was heard of a place.
  struct Heard {
    uint64_t incarnation = 0;
    uint64_t processor_us = 0;
    Time at;
  };
  // Where a server and its backup are, and which they are.
  struct Placed {
    uint32_t peer = 0;
    uint64_t incarnation = 0;
    uint32_t backup_peer = 0;
    uint64_t backup_incarnation = 0;
    v1::ConfigurationVersion since;
    bool operator==(const Placed& other) const {
      return peer == other.peer && incarnation == other.incarnation &&
             backup_peer == other.backup_peer &&
             backup_incarnation == other.backup_incarnation &&
             since == other.since;
    }
  };
  struct Past {
    v1::Move move;
    absl::optional<Time> at;  // Unset: with an earlier coordinator.
  };

  bool IsOn(const JobView& job) const;
  // Whether the move fits the job as it is now.
  bool IsOfThis(const v1::Move& move) const;
  // Empty: now is no time to measure.
  std::vector<Placed> PlacedNow(const Present& present, const Turn& turn) const;
  // Whether each of them has reported its processor time.
  bool AllAreHeard(const std::vector<Placed>& placed) const;
  void Measure(const Present& present, Turn* turn);
  // Processors, since the window began. Unset: the place has not reported for
  // long enough.
  absl::optional<double> Spent(uint32_t peer, uint64_t incarnation,
                               absl::Duration window) const;
  absl::optional<std::vector<ServerLoad>> Loads(absl::Duration window) const;
  void Decide(const std::vector<ServerLoad>& servers, uint32_t tasks,
              Turn* turn);
  void Begin(const PlannedMove& planned, const ServerLoad& now, uint32_t tasks,
             Turn* turn);
  void GoOn(const Present& present, Turn* turn);
  // Why the move can't go on; empty: it can.
  std::string MissingFor(const ServerPlaces& places, const Turn& turn) const;
  // Another server that has no backup; unset: none is.
  static absl::optional<uint32_t> AloneBeside(uint32_t server,
                                              const JobView& job);
  ServerPlaces PlacesIn(const v1::Move& move) const;
  void GiveUp(const std::string& why, Turn* turn);
  void Log(v1::Move move, Turn* turn);
  void OnLogged(const v1::Move& move, const IoResult& result, Turn* turn);
  void Remember(Past past);

  const std::vector<ServerPlaces> places_;
  bool rebalances_;
  PlaceWatch& watch_;
  Replicas& replicas_;
  // By server, of those that were moved.
  std::map<uint32_t, v1::Move> moved_;
  std::map<uint32_t, Time> rests_until_;
  absl::optional<v1::Move> moving_;
  bool logging_ = false;
  Time began_;       // Of that one.
  Time last_there_;  // When all that it needs was.
  Time looked_;      // When that was last looked for.
  std::string waits_for_;
  std::map<uint32_t, Heard> heard_;  // By place. Bound: all of them.
  // The window: empty where none has begun.
  std::vector<Placed> placed_;
  std::map<uint32_t, Heard> heard_first_;
  Time window_began_;
  Time next_look_;
  // ---- for people
  std::deque<Past> past_;  // Bound: kMostPast.
  uint64_t moves_ = 0;
  uint64_t given_up_ = 0;
  std::vector<double> loads_;
  std::string hot_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_BALANCE_H_
