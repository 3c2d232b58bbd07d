#include <cstdint>

#include "gtest/gtest.h"

#include "tests/sim/few_seeds.h"
#include "tests/sim/integer_workload.h"

namespace paramd {
namespace {

TEST(OverlappingWorkloadTest, Promise1_EachBlockIsExplainedWhereStepsOverlap) {
  const uint64_t seeds = FewSeeds() ? 8 : 60;
  WorkloadReport all;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const WorkloadReport report = RunOverlappingWorkload(seed, false);
    ASSERT_TRUE(report.status.ok()) << report.status;
    all.faults.Add(report.faults);
    all.checkpoints += report.checkpoints;
    if (IsGentle(seed)) {
      EXPECT_EQ(report.lost + report.doubled, 0u) << "seed " << seed;
    }
  }
  if (FewSeeds()) return;
  EXPECT_GE(all.checkpoints, seeds);
  for (const char* fault : {"kill server", "kill worker", "kill chief",
                            "drain worker", "pause worker"}) {
    EXPECT_GT(all.faults.Of(fault, "open push"), 0u) << fault;
  }
}

}  // namespace
}  // namespace paramd
