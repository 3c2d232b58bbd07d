#ifndef PARAMD_COORDINATOR_CORE_SERVER_PLACES_H_
#define PARAMD_COORDINATOR_CORE_SERVER_PLACES_H_

#include <cstdint>
#include <vector>

namespace paramd {

// The places of a server that has a backup, each in another process, by the
// numbers under which they are called. It is in one of the first two, and its
// backup in the other one.
struct ServerPlaces {
  uint32_t home = 0;  // Where it begins.
  uint32_t away = 0;
  // Where it may be when the job is scaled to fewer tasks, and back.
  std::vector<uint32_t> others = {};
};

// Of all servers of so many tasks, of which each has `shards` servers at home
// and as many away: place p is of task p / (2 * shards). The servers of one
// task are away in all other tasks in turn. REQUIRES: tasks > 1.
std::vector<ServerPlaces> PlacesOf(uint32_t tasks, uint32_t shards);
// The same where each server has a place in every task: place p is of task
// p / (tasks * shards).
std::vector<ServerPlaces> ScalablePlacesOf(uint32_t tasks, uint32_t shards);

// How many tasks they are of. REQUIRES: one of the above made `places`.
uint32_t TasksOf(const std::vector<ServerPlaces>& places);

// Where the server and its backup belong when the first `tasks` of all tasks
// hold everything: at home if that is one of them. `others` is empty.
// REQUIRES: 1 < tasks, and tasks == TasksOf(places) or places are scalable.
ServerPlaces PlacesAmong(const std::vector<ServerPlaces>& places,
                         uint32_t server, uint32_t tasks);

// The place that the server has in this task. REQUIRES: it has one.
uint32_t PlaceInTask(const std::vector<ServerPlaces>& places, uint32_t server,
                     uint32_t task);

// All places of a server.
std::vector<uint32_t> AllOf(const ServerPlaces& server);

// Of which task this place is. REQUIRES: one of the above made `places`.
uint32_t TaskOfPlace(const std::vector<ServerPlaces>& places, uint32_t peer);

// Which server has this place. REQUIRES: one has.
uint32_t ServerOfPlace(const std::vector<ServerPlaces>& places, uint32_t peer);

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_SERVER_PLACES_H_
