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
        const uint32_t home = places[s].home;
        const uint32_t away = places[s].away;
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

TEST(ServerPlacesTest, AScalableServerHasOnePlaceInEachTask) {
  for (uint32_t tasks = 2; tasks <= 6; ++tasks) {
    for (uint32_t shards = 1; shards <= 3; ++shards) {
      const std::vector<ServerPlaces> places = ScalablePlacesOf(tasks, shards);
      ASSERT_EQ(places.size(), tasks * shards);
      EXPECT_EQ(TasksOf(places), tasks);
      std::set<uint32_t> all;
      for (uint32_t s = 0; s < places.size(); ++s) {
        std::set<uint32_t> its_tasks;
        for (const uint32_t peer : AllOf(places[s])) {
          all.insert(peer);
          its_tasks.insert(TaskOfPlace(places, peer));
          EXPECT_EQ(ServerOfPlace(places, peer), s);
        }
        EXPECT_EQ(its_tasks.size(), tasks);
        EXPECT_EQ(TaskOfPlace(places, places[s].home), s / shards);
      }
      EXPECT_EQ(all.size(), tasks * tasks * shards);
      EXPECT_EQ(*all.rbegin(), tasks * tasks * shards - 1);
    }
  }
}

TEST(ServerPlacesTest, AmongAllTasksServersAreWhereTheyBegin) {
  for (uint32_t tasks = 2; tasks <= 5; ++tasks) {
    for (uint32_t shards = 1; shards <= 5; ++shards) {
      for (const auto& places :
           {PlacesOf(tasks, shards), ScalablePlacesOf(tasks, shards)}) {
        for (uint32_t s = 0; s < places.size(); ++s) {
          const ServerPlaces among = PlacesAmong(places, s, tasks);
          EXPECT_EQ(among.home, places[s].home);
          EXPECT_EQ(among.away, places[s].away);
        }
      }
    }
  }
}

TEST(ServerPlacesTest, FewerTasksHoldEqualSharesAndNoServerTwice) {
  const uint32_t tasks = 6;
  const std::vector<ServerPlaces> places = ScalablePlacesOf(tasks, 2);
  for (uint32_t left = 2; left <= tasks; ++left) {
    std::map<uint32_t, uint32_t> servers;
    for (uint32_t s = 0; s < places.size(); ++s) {
      const ServerPlaces among = PlacesAmong(places, s, left);
      const uint32_t home = TaskOfPlace(places, among.home);
      const uint32_t away = TaskOfPlace(places, among.away);
      EXPECT_LT(home, left);
      EXPECT_LT(away, left);
      EXPECT_NE(home, away);
      if (s / 2 < left) {
        EXPECT_EQ(home, s / 2) << "its own stay";
      }
      ++servers[home];
    }
    EXPECT_EQ(servers.size(), left);
    const uint32_t share = static_cast<uint32_t>(places.size()) / left;
    for (const auto& [task, count] : servers) {
      EXPECT_LE(count, share + 2) << task << " of " << left;
    }
  }
}

}  // namespace
}  // namespace paramd
