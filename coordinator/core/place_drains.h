#ifndef PARAMD_COORDINATOR_CORE_PLACE_DRAINS_H_
#define PARAMD_COORDINATOR_CORE_PLACE_DRAINS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"

#include "coordinator/core/place_watch.h"
#include "coordinator/core/replicas.h"
#include "coordinator/core/turn.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// Has the process of a ps leave when an operator asks for it, as SIGTERM would:
// only if each of its servers can be handed over right away. Nothing of this is
// logged but what Replicas log because of it.
//
// Invariants: who asks is answered within 2 s, whatever is waited for, and asks
// again. At most 64 wait.
//
// Not thread-safe: a part of the coordinator's core.
class PlaceDrains {
 public:
  // Begins it, or waits with whoever began it. `ends`: the chief leaves, or the
  // job is being stopped.
  void OnRequest(const Message& message, const v1::DrainRequest& request,
                 const Replicas& replicas, const PlaceWatch& watch, bool ends,
                 Turn* turn);
  // A ps that is being drained; empty: none.
  std::string UnderWay() const;
  // Tells the processes to leave. Answers operators whose process may leave, or
  // who have waited for long. If a server lost its backup before that, its
  // process leaves as on SIGTERM, with a checkpoint: the answer is NOT_READY,
  // as the job waits for that process.
  void Advance(PlaceWatch* watch, Turn* turn);

 private:
  struct Waiting {
    CallId call = 0;
    Time until;
  };
  struct Drain {
    uint64_t nonce = 0;
    // Of the ps: a place, and which process is there.
    std::vector<std::pair<uint32_t, uint64_t>> places;
    std::vector<Waiting> waiting;
    bool left = false;
    // Then: a server that it held and nobody holds now.
    absl::optional<uint32_t> missed;
  };

  static absl::Status Check(uint32_t ps, const Replicas& replicas,
                            const PlaceWatch& watch, const JobView& job);
  static void SeeWhoLeft(const PlaceWatch& watch, const JobView& job, Time now,
                         Drain* drain);
  static std::string WaitsFor(const Drain& drain, const PlaceWatch& watch,
                              const JobView& job, Time now);
  void Answer(uint32_t ps, const std::string& waiting_for, Drain* drain,
              Turn* turn);

  std::map<uint32_t, Drain> drains_;  // By ps: the newest.
  size_t waiting_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_PLACE_DRAINS_H_
