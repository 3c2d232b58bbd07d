#include <cstdint>

#include "gtest/gtest.h"

#include "tests/sim/few_seeds.h"
#include "tests/sim/replica_workload.h"

namespace paramd {
namespace {

uint64_t ScalingSeeds() { return FewSeeds() ? 10 : 100; }

TEST(ScalingWorkloadTest, Promise1_WhoeverHoldsServersNoPushIsLostOrDoubled) {
  ReplicaReport all;
  for (uint64_t seed = 1; seed <= ScalingSeeds(); ++seed) {
    const ReplicaReport report = RunScalingWorkload(seed, false);
    EXPECT_TRUE(report.status.ok()) << report.status;
    all.kills += report.kills;
    all.chief_kills += report.chief_kills;
    all.of_steps += report.of_steps;
    all.scales_asked += report.scales_asked;
    all.scales += report.scales;
    all.moves += report.moves;
    all.forgotten += report.forgotten;
    all.balanced += report.balanced;
    all.balanced_done += report.balanced_done;
  }
  if (FewSeeds()) return;
  // A case that was never met proves nothing.
  EXPECT_GT(all.kills, 0u);
  EXPECT_GT(all.chief_kills, 0u);
  EXPECT_GT(all.of_steps, 0u);
  EXPECT_GT(all.scales_asked, ScalingSeeds() / 2);
  EXPECT_GT(all.scales, ScalingSeeds() / 4);
  EXPECT_GT(all.moves, ScalingSeeds() / 4);
  EXPECT_GT(all.forgotten, 0u);
  EXPECT_GT(all.balanced, ScalingSeeds() / 10);
  EXPECT_GT(all.balanced_done, 0u);
}

TEST(ScalingWorkloadTest, OneSeedGivesOneTrace) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    EXPECT_EQ(RunScalingWorkload(seed, false).trace_hash,
              RunScalingWorkload(seed, false).trace_hash);
  }
}

}  // namespace
}  // namespace paramd
