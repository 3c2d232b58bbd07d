#include "tests/sim/cut_workload.h"

#include <cstdint>

#include "gtest/gtest.h"

#include "tests/sim/few_seeds.h"

namespace paramd {
namespace {

uint64_t Cuts() { return FewSeeds() ? 4 : 40; }

// 1,000 by: bazel run //tests/sim -- --workload=cut --seeds=1000
TEST(CutWorkloadTest, Promise3_RestoredAndContinuedItIsAsIfNeverStopped) {
  CutWorkload cuts;
  for (uint64_t seed = 1; seed <= Cuts(); ++seed) {
    const WorkloadReport report = cuts.Run(seed, /*verbose=*/false);
    ASSERT_TRUE(report.status.ok()) << report.status;
  }
  if (FewSeeds()) return;
  EXPECT_GE(cuts.restored(), Cuts() / 2);
  EXPECT_GE(cuts.moved(), Cuts() / 4);
  EXPECT_GT(cuts.recut(), 0u);
  EXPECT_GT(cuts.based(), 0u);
  EXPECT_GT(cuts.warm(), 0u);
}

}  // namespace
}  // namespace paramd
