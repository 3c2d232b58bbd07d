#ifndef PARAMD_COORDINATOR_CORE_ENLISTMENTS_H_
#define PARAMD_COORDINATOR_CORE_ENLISTMENTS_H_

#include <cstdint>
#include <map>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "coordinator/core/turn.h"

namespace paramd {

// Gives an index to each process that is on no list and asks to be a worker:
// one of the max_joined_workers indices behind those of the list. The process
// then joins as every worker does.
//
// Invariant: an index is kept for one process at a time, until the process has
// a session, is refused one or gives the index up, or start_timeout_ms is over.
// The index may be used again at once, because it is the generation that says
// which life of a worker a session is.
//
// Not thread-safe: a part of the coordinator's core.
class Enlistments {
 public:
  // Whether a process asks for a session as this worker.
  using IsJoining = absl::FunctionRef<bool(uint32_t worker)>;

  // Answers with the index that the caller's certificate names, or else with
  // that which this process has already, one that nobody has, or one whose
  // session is silent for half a lease (two heartbeats, if that is longer): its
  // join waits until the lease of that is over. Refuses with INVALID where the
  // job takes no such worker or the certificate's index is not one of theirs,
  // with OVER_LIMIT where all are taken (for now, if one of those that have
  // them has no session yet), NOT_READY before the sessions are known, and
  // JOB_FINISHED. One that gives up is answered in any case.
  void OnEnlist(const Message& message, const v1::EnlistRequest& request,
                IsJoining is_joining, Turn* turn);
  // This process does not join: the index that is kept for it is free.
  void GiveUp(uint64_t incarnation);
  // All sessions are about to end, and their processes join again with the
  // index that they have: it is kept for them, for as long as a lease.
  void KeepSessions(const Turn& turn);

 private:
  struct Kept {
    uint64_t incarnation = 0;
    Time until;
  };

  absl::StatusOr<uint32_t> Choose(PeerId from, uint64_t incarnation,
                                  IsJoining is_joining, const Turn& turn);
  // Of those that are not kept for others: the best for this process.
  absl::StatusOr<uint32_t> ChooseAny(uint64_t incarnation, IsJoining is_joining,
                                     const Turn& turn) const;
  // Who has joined, can't any more, or has not come in time.
  void Forget(const Turn& turn);

  std::map<uint32_t, Kept> kept_;  // By index. Bound: max_joined_workers.
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_ENLISTMENTS_H_
