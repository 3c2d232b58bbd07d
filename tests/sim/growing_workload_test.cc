#include <cstdint>

#include "gtest/gtest.h"

#include "tests/sim/few_seeds.h"
#include "tests/sim/integer_workload.h"

namespace paramd {
namespace {

TEST(GrowingWorkloadTest, Promise1_EachFileIsTrainedOnOnceWhoeverDies) {
  const uint64_t seeds = FewSeeds() ? 4 : 30;
  WorkloadReport all;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const WorkloadReport report = RunGrowingWorkload(seed, /*verbose=*/false);
    ASSERT_TRUE(report.status.ok()) << report.status;
    all.faults.Add(report.faults);
    all.probes.Add(report.probes);
    EXPECT_GT(report.probes.Of("new files are found"), 1u) << "seed " << seed;
    if (IsGentle(seed)) {
      EXPECT_EQ(report.lost + report.doubled, 0u) << "seed " << seed;
    }
  }
  if (FewSeeds()) return;
  EXPECT_GT(all.probes.Of("new files are looked for in vain"), seeds);
  EXPECT_GT(all.probes.Of("a batch is handed out again"), 0u);
  for (const char* fault : {"kill server", "kill worker", "kill chief"}) {
    EXPECT_GT(all.faults.Of(fault, "open push"), 0u) << fault;
  }
}

}  // namespace
}  // namespace paramd
