#include "coordinator/core/server_places.h"

#include <map>
#include <set>

#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(ServerPlacesTest, EachServerHasTwoTasksAndEachPlaceOneServer) {
  for (uint32_t tasks = 2; tasks <= 7; ++tasks) {
    for (uint32_t shards = 1; shards <= 5; ++shards) {
      const std::vector<ServerPlaces> places = PlacesOf(tasks, shards);
      ASSERT_EQ(places.size(), tasks * shards);
      std::set<uint32_t> all;
      for (uint32_t s = 0; s < places.size(); ++s) {
        const auto& [home, away] = places[s];
        EXPECT_EQ(home / (2 * shards), s / shards);
        EXPECT_NE(home / (2 * shards), away / (2 * shards));
        all.insert({home, away});
        EXPECT_EQ(ServerOfPlace(places, home), s);
        EXPECT_EQ(ServerOfPlace(places, away), s);
        EXPECT_EQ(TaskOfPlace(places, home), home / (2 * shards));
        EXPECT_EQ(TaskOfPlace(places, away), away / (2 * shards));
      }
      EXPECT_EQ(all.size(), 2 * tasks * shards);
      EXPECT_EQ(*all.rbegin(), 2 * tasks * shards - 1);
    }
  }
}

// A task that is lost is no other one's to take over alone.
TEST(ServerPlacesTest, TheServersOfATaskAreAwayInAllOthersInTurn) {
  const std::vector<ServerPlaces> places = PlacesOf(4, 6);
  std::map<uint32_t, int> servers;
  for (uint32_t s = 6; s < 12; ++s) ++servers[places[s].away / 12];
  EXPECT_EQ(servers, (std::map<uint32_t, int>{{0, 2}, {2, 2}, {3, 2}}));
}

}  // namespace
}  // namespace paramd
