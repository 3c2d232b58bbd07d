#ifndef PARAMD_COORDINATOR_CORE_SERVER_PLACES_H_
#define PARAMD_COORDINATOR_CORE_SERVER_PLACES_H_

#include <cstdint>
#include <vector>

namespace paramd {

// The two places of a server that has a backup, in two processes, by the
// numbers under which they are called.
struct ServerPlaces {
  uint32_t home = 0;  // Where it begins.
  uint32_t away = 0;
};

// Of all servers of so many tasks, of which each has `shards` servers at home
// and as many away: place p is of task p / (2 * shards). The servers of one
// task are away in all other tasks in turn. REQUIRES: tasks > 1.
std::vector<ServerPlaces> PlacesOf(uint32_t tasks, uint32_t shards);

// Of which task this place is. REQUIRES: PlacesOf made `places`.
uint32_t TaskOfPlace(const std::vector<ServerPlaces>& places, uint32_t peer);

// Which server has this place. REQUIRES: one has.
uint32_t ServerOfPlace(const std::vector<ServerPlaces>& places, uint32_t peer);

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_SERVER_PLACES_H_
