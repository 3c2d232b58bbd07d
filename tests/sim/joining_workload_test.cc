#include <cstdint>

#include "gtest/gtest.h"

#include "tests/sim/few_seeds.h"
#include "tests/sim/integer_workload.h"

namespace paramd {
namespace {

TEST(JoiningWorkloadTest, Promise1_PushesOfWorkersBeyondTheListAreInOnce) {
  const uint64_t seeds = FewSeeds() ? 8 : 60;
  WorkloadReport all;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const WorkloadReport report = RunJoiningWorkload(seed, /*verbose=*/false);
    ASSERT_TRUE(report.status.ok()) << report.status;
    all.faults.Add(report.faults);
    all.probes.Add(report.probes);
    all.checkpoints += report.checkpoints;
    if (IsGentle(seed)) {
      EXPECT_EQ(report.lost + report.doubled, 0u) << "seed " << seed;
    }
  }
  if (FewSeeds()) return;
  EXPECT_GE(all.checkpoints, seeds);
  EXPECT_GT(all.probes.Of("a worker leaves in good order"), 0u);
  EXPECT_GT(all.probes.Of("servers are taken over"), 0u);
  for (const char* fault : {"kill server", "kill worker", "kill chief",
                            "drain worker", "pause worker"}) {
    EXPECT_GT(all.faults.Of(fault, "open push"), 0u) << fault;
  }
}

}  // namespace
}  // namespace paramd
