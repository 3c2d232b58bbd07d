#ifndef PARAMD_COORDINATOR_CORE_SPARE_PLACES_H_
#define PARAMD_COORDINATOR_CORE_SPARE_PLACES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "coordinator/core/place_watch.h"
#include "coordinator/core/replicas.h"
#include "coordinator/core/turn.h"

namespace paramd {

// The places of a scalable job in which there is no server and no backup, and
// none is on its way there. They hear of the end of the job, as all others do.
// Until then they are only watched.
//
// Bound: one call for each.
//
// Not thread-safe: a part of the coordinator's core.
class SparePlaces {
 public:
  // Both outlive it.
  SparePlaces(const PlaceWatch& watch, const Replicas& replicas)
      : watch_(watch), replicas_(replicas) {}

  // How they are called, and which process was heard there last; 0: none.
  std::vector<std::pair<uint32_t, uint64_t>> all(const JobView& job) const;

  // While the end is told: tells those that are due.
  void Advance(bool everybody_knows, Turn* turn);
  // An answer to that. No change if it is none.
  void OnReply(const Message& message, Turn* turn);
  // All of them that were heard know that everybody knows.
  bool all_know() const;

 private:
  struct Place {
    uint32_t peer = 0;
    uint64_t process = 0;
    CallId call = 0;  // 0: none.
    Time next = {};
    int told = 0;  // As of a ServerRecord.
    int asked = 0;
  };

  const PlaceWatch& watch_;
  const Replicas& replicas_;
  bool begun_ = false;
  std::vector<Place> places_;  // When the end began to be told.
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_SPARE_PLACES_H_
