#include "tests/sim/bounded_workload.h"

#include <cstdint>
#include <cstdlib>

#include "gtest/gtest.h"

namespace paramd {
namespace {

// Fewer where every instruction costs ten.
uint64_t Seeds() {
  return std::getenv("PARAMD_SANITIZER") == nullptr ? 100 : 10;
}

TEST(BoundedWorkloadTest, NobodyReadsTooFarAheadAndNobodyWaitsForEver) {
  BoundWitness::Counts bound;
  uint64_t crashes = 0;
  uint64_t joins = 0;
  uint64_t settings = 0;
  for (uint64_t seed = 1; seed <= Seeds(); ++seed) {
    const BoundedReport report = RunBoundedWorkload(seed, false);
    EXPECT_TRUE(report.status.ok()) << report.status;
    bound.Add(report.bound);
    crashes += report.crashes;
    joins += report.joins;
    settings += report.settings;
  }
  // A case that was never met proves nothing.
  EXPECT_GT(bound.pulls, 100 * Seeds());
  EXPECT_GT(bound.parked, 10 * Seeds());
  EXPECT_GT(bound.told, Seeds());
  EXPECT_GT(bound.freed_by_clock, 10 * Seeds());
  EXPECT_GT(crashes, Seeds() / 2);
  EXPECT_GT(joins, Seeds() / 4);
  EXPECT_GT(settings, Seeds() / 2);
  if (Seeds() < 100) return;
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
