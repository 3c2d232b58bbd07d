#include "tests/sim/replica_workload.h"

#include <cstdint>

#include "gtest/gtest.h"

#include "tests/sim/few_seeds.h"

namespace paramd {
namespace {

uint64_t ReplicaSeeds() { return FewSeeds() ? 10 : 100; }

TEST(ReplicaWorkloadTest, Promise1_ALostServerTakesNothingAlong) {
  ReplicaReport all;
  for (uint64_t seed = 1; seed <= ReplicaSeeds(); ++seed) {
    const ReplicaReport report = RunReplicaWorkload(seed, false);
    EXPECT_TRUE(report.status.ok()) << report.status;
    all.kills += report.kills;
    all.at_a_push += report.at_a_push;
    all.pauses += report.pauses;
    all.cuts += report.cuts;
    all.take_overs += report.take_overs;
    all.of_steps += report.of_steps;
    all.members += report.members;
    all.settings += report.settings;
    all.keyed += report.keyed;
    all.compared += report.compared;
    all.drains += report.drains;
    all.hand_overs += report.hand_overs;
    all.chief_kills += report.chief_kills;
    all.kept += report.kept;
  }
  if (FewSeeds()) return;
  // A case that was never met proves nothing.
  EXPECT_GT(all.kills, ReplicaSeeds());
  EXPECT_GT(all.at_a_push, ReplicaSeeds() / 2);
  EXPECT_GT(all.pauses, ReplicaSeeds() / 10);
  EXPECT_GT(all.cuts, ReplicaSeeds() / 20);
  EXPECT_GT(all.take_overs, ReplicaSeeds());
  EXPECT_GT(all.of_steps, ReplicaSeeds() / 5);
  EXPECT_GT(all.members, 3 * ReplicaSeeds());
  EXPECT_GT(all.settings, ReplicaSeeds() / 20);
  EXPECT_GT(all.keyed, ReplicaSeeds() / 5);
  EXPECT_GT(all.compared, 2 * ReplicaSeeds());
  EXPECT_GT(all.drains, ReplicaSeeds() / 2);
  EXPECT_GT(all.hand_overs, ReplicaSeeds() / 4);
  EXPECT_GT(all.chief_kills, ReplicaSeeds() / 10);
  EXPECT_GT(all.kept, ReplicaSeeds() / 10);
}

TEST(ReplicaWorkloadTest, OneSeedGivesOneTrace) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    EXPECT_EQ(RunReplicaWorkload(seed, false).trace_hash,
              RunReplicaWorkload(seed, false).trace_hash);
  }
}

}  // namespace
}  // namespace paramd
