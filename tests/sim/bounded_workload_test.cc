#include "tests/sim/bounded_workload.h"

#include <cstdint>

#include "gtest/gtest.h"

#include "tests/sim/few_seeds.h"

namespace paramd {
namespace {

uint64_t Seeds() { return FewSeeds() ? 10 : 100; }

TEST(BoundedWorkloadTest, NobodyReadsTooFarAheadAndNobodyWaitsForEver) {
  BoundWitness::Counts bound;
  uint64_t crashes = 0;
  uint64_t chief_crashes = 0;
  uint64_t joins = 0;
  uint64_t settings = 0;
  for (uint64_t seed = 1; seed <= Seeds(); ++seed) {
    const BoundedReport report = RunBoundedWorkload(seed, false);
    EXPECT_TRUE(report.status.ok()) << report.status;
    bound.Add(report.bound);
    crashes += report.crashes;
    chief_crashes += report.chief_crashes;
    joins += report.joins;
    settings += report.settings;
  }
  if (FewSeeds()) return;
  // A case that was never met proves nothing.
  EXPECT_GT(bound.pulls, 100 * Seeds());
  EXPECT_GT(bound.parked, 10 * Seeds());
  EXPECT_GT(bound.told, Seeds());
  EXPECT_GT(bound.freed_by_clock, 10 * Seeds());
  EXPECT_GT(crashes, Seeds() / 2);
  EXPECT_GT(chief_crashes, Seeds() / 10);
  EXPECT_GT(joins, Seeds() / 4);
  EXPECT_GT(settings, Seeds() / 2);
  EXPECT_GT(bound.freed_by_silence, 10u);
  EXPECT_GT(bound.freed_by_configuration, 50u);
}

TEST(BoundedWorkloadTest, OneSeedGivesOneTrace) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    EXPECT_EQ(RunBoundedWorkload(seed, false).trace_hash,
              RunBoundedWorkload(seed, false).trace_hash);
  }
}

}  // namespace
}  // namespace paramd
