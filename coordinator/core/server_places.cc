#include "coordinator/core/server_places.h"

#include "base/check.h"

namespace paramd {

std::vector<ServerPlaces> PlacesOf(uint32_t tasks, uint32_t shards) {
  std::vector<ServerPlaces> places;
  for (uint32_t task = 0; task < tasks; ++task) {
    for (uint32_t shard = 0; shard < shards; ++shard) {
      const uint32_t other = (task + 1 + shard % (tasks - 1)) % tasks;
      places.push_back({.home = 2 * shards * task + shard,
                        .away = 2 * shards * other + shards + shard});
    }
  }
  return places;
}

uint32_t TaskOfPlace(const std::vector<ServerPlaces>& places, uint32_t peer) {
  // The first task's servers are at home in its first places.
  uint32_t shards = 0;
  while (shards < places.size() && places[shards].home == shards) ++shards;
  return peer / (2 * shards);
}

uint32_t ServerOfPlace(const std::vector<ServerPlaces>& places, uint32_t peer) {
  for (uint32_t s = 0; s < places.size(); ++s) {
    if (places[s].home == peer || places[s].away == peer) return s;
  }
  CHECK(false, "each place is of a server");
  return 0;
}

}  // namespace paramd
