#include "coordinator/core/balance_plan.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/random.h"

namespace paramd {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<bool> NobodyRests(const std::vector<ServerLoad>& servers) {
  return std::vector<bool>(servers.size());
}

TEST(BalancePlanTest, APsCarriesItsServersAndItsBackups) {
  EXPECT_THAT(LoadsOfPs({{.home = 0, .away = 1, .server = 0.5, .backup = 0.25},
                         {.home = 0, .away = 2, .server = 1, .backup = 0.125}},
                        3),
              ElementsAre(1.5, 0.25, 0.125));
}

TEST(BalancePlanTest, OneIsTheHottestIfItCarriesClearlyMoreThanTheMean) {
  EXPECT_EQ(HottestPs({1, 1, 1}), absl::nullopt);
  EXPECT_EQ(HottestPs({1.2, 1, 0.8}), absl::nullopt);
  EXPECT_EQ(HottestPs({1, 1.5, 0.5}), 1u);
  EXPECT_EQ(HottestPs({0.01, 0.09, 0.01}), absl::nullopt)
      << "nobody gains anything";
  EXPECT_EQ(HottestPs({}), absl::nullopt);
}

TEST(BalancePlanTest, WhatMakesTheGreaterOfTheTwoLeastIsMoved) {
  const std::vector<ServerLoad> servers = {
      {.home = 0, .away = 1, .server = 0.5, .backup = 0.125},
      {.home = 1, .away = 2, .server = 0.125, .backup = 0.125},
      {.home = 2, .away = 0, .server = 0.25, .backup = 0.5},
  };
  const auto move = PlanMove(servers, NobodyRests(servers), 3);
  ASSERT_TRUE(move.has_value());
  // After it both carry 0.625; the backup of server 2 would leave 0.5 and 0.75.
  EXPECT_EQ(move->server, 0u);
  EXPECT_EQ(move->home, 1u);
  EXPECT_EQ(move->away, 0u);
  EXPECT_EQ(move->from, 0u);
  EXPECT_EQ(move->to, 1u);
  EXPECT_THAT(move->from_then, DoubleNear(0.625, 1e-12));
  EXPECT_THAT(move->to_then, DoubleNear(0.625, 1e-12));
}

TEST(BalancePlanTest, WhoHasNothingThereTakesTheServerOrTheBackup) {
  std::vector<ServerLoad> servers = {
      {.home = 0, .away = 1, .server = 1, .backup = 0.5},
      {.home = 0, .away = 1, .server = 1, .backup = 0.5},
      {.home = 0, .away = 1, .server = 0.25, .backup = 0.125},
  };
  auto move = PlanMove(servers, NobodyRests(servers), 3);
  ASSERT_TRUE(move.has_value());
  EXPECT_EQ(move->server, 0u) << "the first of equals";
  EXPECT_EQ(move->home, 2u);
  EXPECT_EQ(move->away, 1u) << "its backup stays";
  for (ServerLoad& server : servers) {
    std::swap(server.home, server.away);
    std::swap(server.server, server.backup);
  }
  move = PlanMove(servers, NobodyRests(servers), 3);
  ASSERT_TRUE(move.has_value());
  EXPECT_EQ(move->home, 1u) << "the server stays";
  EXPECT_EQ(move->away, 2u);
}

TEST(BalancePlanTest, OneThatRestsIsNotMoved) {
  const std::vector<ServerLoad> servers = {
      {.home = 0, .away = 1, .server = 1, .backup = 0},
      {.home = 0, .away = 1, .server = 0.75, .backup = 0},
  };
  EXPECT_EQ(PlanMove(servers, {false, false}, 2)->server, 0u);
  EXPECT_EQ(PlanMove(servers, {true, false}, 2)->server, 1u);
  EXPECT_FALSE(PlanMove(servers, {true, true}, 2).has_value());
}

TEST(BalancePlanTest, AServerThatIsHotAloneIsNotMovedInCirclesButNamed) {
  const std::vector<ServerLoad> servers = {
      {.home = 0, .away = 1, .server = 2, .backup = 0},
      {.home = 1, .away = 2, .server = 0.25, .backup = 0},
      {.home = 2, .away = 0, .server = 0.25, .backup = 0},
  };
  EXPECT_FALSE(PlanMove(servers, NobodyRests(servers), 3).has_value());
  const std::string why = WhyNoMoveHelps(servers, 3);
  EXPECT_THAT(why, HasSubstr("ps-0 spends 2.00 processors, all 3 ps 0.83 on "
                             "average, and no move lessens that: server 0 "
                             "alone is 80% of all load"));
  EXPECT_THAT(why, HasSubstr("shards_per_server"));
  EXPECT_EQ(
      WhyNoMoveHelps({{.home = 0, .away = 1, .server = 1, .backup = 1}}, 2),
      "");
}

// If what is measured holds, moves come to an end, and none makes the hottest
// hotter.
TEST(BalancePlanTest, MovesComeToAnEnd) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    RandomStream random(StableHash("moves", seed));
    const auto tasks = static_cast<uint32_t>(2 + random.Below(5));
    std::vector<ServerLoad> servers(1 + random.Below(20));
    for (ServerLoad& server : servers) {
      server.home = static_cast<uint32_t>(random.Below(tasks));
      server.away = static_cast<uint32_t>(
          (server.home + 1 + random.Below(tasks - 1)) % tasks);
      server.server = random.Uniform();
      server.backup = random.Uniform();
    }
    const auto hottest = [&] {
      const std::vector<double> loads = LoadsOfPs(servers, tasks);
      return *std::max_element(loads.begin(), loads.end());
    };
    int moves = 0;
    double before = hottest();
    while (const auto move = PlanMove(servers, NobodyRests(servers), tasks)) {
      ASSERT_LT(++moves, 200) << "seed " << seed;
      ASSERT_NE(move->home, move->away);
      servers[move->server].home = move->home;
      servers[move->server].away = move->away;
      const std::vector<double> loads = LoadsOfPs(servers, tasks);
      ASSERT_THAT(loads[move->from], DoubleNear(move->from_then, 1e-9));
      ASSERT_THAT(loads[move->to], DoubleNear(move->to_then, 1e-9));
      ASSERT_LE(hottest(), before + 1e-9) << "seed " << seed;
      before = hottest();
    }
  }
}

}  // namespace
}  // namespace paramd
