#include <cstdint>

#include "gtest/gtest.h"

#include "tests/sim/few_seeds.h"
#include "tests/sim/replica_workload.h"

namespace paramd {
namespace {

uint64_t ElectionSeeds() { return FewSeeds() ? 10 : 100; }

TEST(ElectionWorkloadTest, Promise1_WhoeverIsElectedNoPushIsLostOrDoubled) {
  ReplicaReport all;
  for (uint64_t seed = 1; seed <= ElectionSeeds(); ++seed) {
    const ReplicaReport report = RunElectionWorkload(seed, false);
    EXPECT_TRUE(report.status.ok()) << report.status;
    all.kills += report.kills;
    all.chief_kills += report.chief_kills;
    all.kept += report.kept;
    all.elected += report.elected;
    all.found_out += report.found_out;
    all.resigned += report.resigned;
    all.refused += report.refused;
    all.went_back += report.went_back;
  }
  if (FewSeeds()) return;
  // A case that was never met proves nothing.
  EXPECT_GT(all.kills, ElectionSeeds() / 2);
  EXPECT_GT(all.chief_kills, ElectionSeeds());
  EXPECT_GT(all.elected, 3 * ElectionSeeds() / 2);
  EXPECT_GT(all.kept, ElectionSeeds() / 2);
  EXPECT_GT(all.found_out, ElectionSeeds() / 10);
  EXPECT_GT(all.resigned, ElectionSeeds() / 20);
  EXPECT_GT(all.refused, 0u);
  EXPECT_GT(all.went_back, 0u);
}

TEST(ElectionWorkloadTest, OneSeedGivesOneTrace) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    EXPECT_EQ(RunElectionWorkload(seed, false).trace_hash,
              RunElectionWorkload(seed, false).trace_hash);
  }
}

}  // namespace
}  // namespace paramd
