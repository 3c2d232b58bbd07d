#ifndef PARAMD_COORDINATOR_CORE_SCALING_H_
#define PARAMD_COORDINATOR_CORE_SCALING_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "coordinator/core/balance.h"
#include "coordinator/core/place_watch.h"
#include "coordinator/core/replicas.h"
#include "coordinator/core/turn.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// How many ps hold everything: the first ones of those that the cluster names.
// An operator changes it while the job runs, if each server has a place in
// every ps.
//
//   asked ──► logging ──► moving, a server at a time ──► ends those that hold
//                ▲            nothing ──► logging that it is done ──► done
//                └──────────── asked for another number (from any)
//
// A ps beyond the number that comes later, or comes back, stays and holds
// nothing, until the number grows.
//
// Invariants: no server is moved before the log has the number. One server is
// moved at a time, so at most one has no backup because of it. A request is
// answered within 2 s, whatever is waited for, and is then made again. At most
// 64 wait.
//
// Not thread-safe: a part of the coordinator's core.
class Scaling {
 public:
  // All outlive it. `balance`: where servers belong.
  Scaling(const CoordinatorOptions& options, const Balance& balance,
          PlaceWatch* watch, Replicas* replicas);

  // The log has this; the last one counts.
  void Read(const v1::Scale& logged);
  // All of it was read, and servers are where it says.
  void OnLogRead(const JobView& job);

  // Of all ps that the cluster names, the first ones.
  uint32_t servers() const { return wanted_; }
  bool IsUnderWay() const { return logging_ || !done_; }

  // Begins it, or waits with whoever began it. `obstacle`: what forbids it now,
  // in a sentence; empty: nothing.
  void OnRequest(const Message& message, const v1::ScaleRequest& request,
                 const std::string& obstacle, Turn* turn);
  // Has servers moved, and answers those who have waited for long. `may_move`:
  // nobody is about to leave with a checkpoint.
  void Advance(bool may_move, Turn* turn);

  // Members that it has are the servers, by index.
  void FillStatus(v1::JobStats* status) const;

 private:
  struct Waiting {
    CallId call = 0;
    Time until;
  };
  bool IsScalable() const;
  absl::Status Check(uint32_t servers, const JobView& job) const;
  void Begin(const v1::ScaleRequest& request, Turn* turn);
  // This request counts now; earlier ones may not begin theirs again.
  void Replace(uint64_t nonce);
  // This request is for the number that is there, or under way, already.
  void Join(uint64_t nonce);
  void Log(bool done, const v1::Origin* origin, Turn* turn);
  void OnLogged(bool done, const IoResult& result, Turn* turn);
  // True if all are where they belong.
  bool Move(Turn* turn);
  // A ps that has to be there for the server to be moved; empty: none.
  std::string MissingFor(const ServerPlaces& places, const Turn& turn) const;
  // True if the ps that hold nothing have left.
  bool EndOthers(const Turn& turn);
  // The same of this ps, which is told to leave once it is known which process
  // is in its places.
  bool HasLeft(uint32_t task, const Turn& turn);
  std::vector<uint32_t> PlacesOfTask(uint32_t task) const;
  void Answer(Turn* turn);

  const std::vector<ServerPlaces> places_;
  const Balance& balance_;
  PlaceWatch& watch_;
  Replicas& replicas_;
  const uint32_t tasks_;  // Of ps; 0 without replication.
  uint32_t wanted_;
  bool done_ = true;
  uint32_t asked_ = 0;  // What is being logged.
  bool logging_ = false;
  uint64_t nonce_ = 0;             // Of the request that began it; 0: none.
  std::deque<uint64_t> joined_;    // Those that ask for the same, and
  std::deque<uint64_t> replaced_;  // by later ones. Bound: kMostReplaced each.
  // Processes that are to end, by task and place.
  std::map<uint32_t, std::map<uint32_t, uint64_t>> leaving_;
  std::vector<Waiting> waiting_;
  std::string waits_for_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_SCALING_H_
