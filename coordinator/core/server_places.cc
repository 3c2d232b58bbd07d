#include "coordinator/core/server_places.h"

#include <algorithm>

#include "base/check.h"

namespace paramd {
namespace {

// Servers that a task has at home: those of the first task have its first
// places.
uint32_t ShardsOf(const std::vector<ServerPlaces>& places) {
  uint32_t shards = 0;
  while (shards < places.size() && places[shards].home == shards) ++shards;
  return shards;
}

// Another task than `task`, of so many: in turn, as `turn` rises.
uint32_t OtherTask(uint32_t task, uint32_t turn, uint32_t tasks) {
  return (task + 1 + turn % (tasks - 1)) % tasks;
}

}  // namespace

std::vector<ServerPlaces> PlacesOf(uint32_t tasks, uint32_t shards) {
  std::vector<ServerPlaces> places;
  for (uint32_t task = 0; task < tasks; ++task) {
    for (uint32_t shard = 0; shard < shards; ++shard) {
      const uint32_t other = OtherTask(task, shard, tasks);
      places.push_back({.home = 2 * shards * task + shard,
                        .away = 2 * shards * other + shards + shard});
    }
  }
  return places;
}

std::vector<ServerPlaces> ScalablePlacesOf(uint32_t tasks, uint32_t shards) {
  const uint32_t servers = tasks * shards;
  std::vector<ServerPlaces> places;
  for (uint32_t server = 0; server < servers; ++server) {
    const uint32_t task = server / shards;
    const uint32_t away = OtherTask(task, server % shards, tasks);
    ServerPlaces& its = places.emplace_back();
    its.home = task * servers + server;
    its.away = away * servers + server;
    for (uint32_t other = 0; other < tasks; ++other) {
      if (other == task || other == away) continue;
      its.others.push_back(other * servers + server);
    }
  }
  return places;
}

uint32_t TasksOf(const std::vector<ServerPlaces>& places) {
  return static_cast<uint32_t>(places.size()) / ShardsOf(places);
}

ServerPlaces PlacesAmong(const std::vector<ServerPlaces>& places,
                         uint32_t server, uint32_t tasks) {
  const uint32_t shards = ShardsOf(places);
  const uint32_t own = server / shards;
  const uint32_t home = own < tasks ? own : server % tasks;
  const uint32_t away = OtherTask(home, server % shards + own / tasks, tasks);
  return {.home = PlaceInTask(places, server, home),
          .away = PlaceInTask(places, server, away)};
}

uint32_t PlaceInTask(const std::vector<ServerPlaces>& places, uint32_t server,
                     uint32_t task) {
  const std::vector<uint32_t> all = AllOf(places[server]);
  const auto place = std::find_if(all.begin(), all.end(), [&](uint32_t peer) {
    return TaskOfPlace(places, peer) == task;
  });
  CHECK(place != all.end(), "a server has a place in each task to scale to");
  return *place;
}

std::vector<uint32_t> AllOf(const ServerPlaces& server) {
  std::vector<uint32_t> all = {server.home, server.away};
  all.insert(all.end(), server.others.begin(), server.others.end());
  return all;
}

uint32_t TaskOfPlace(const std::vector<ServerPlaces>& places, uint32_t peer) {
  const auto each = static_cast<uint32_t>(2 + places[0].others.size());
  return peer / (each * ShardsOf(places));
}

uint32_t ServerOfPlace(const std::vector<ServerPlaces>& places, uint32_t peer) {
  for (uint32_t s = 0; s < places.size(); ++s) {
    const std::vector<uint32_t> all = AllOf(places[s]);
    if (std::find(all.begin(), all.end(), peer) != all.end()) return s;
  }
  CHECK(false, "each place is of a server");
  return 0;
}

}  // namespace paramd
