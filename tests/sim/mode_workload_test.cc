#include "tests/sim/mode_workload.h"

#include <cstdint>

#include "gtest/gtest.h"

#include "tests/sim/few_seeds.h"

namespace paramd {
namespace {

uint64_t Seeds() { return FewSeeds() ? 12 : 150; }

TEST(ModeWorkloadTest, Promise1_NoChangeOfTheModeSkipsOrRepeatsABatch) {
  Probes probes;
  for (uint64_t seed = 1; seed <= Seeds(); ++seed) {
    const WorkloadReport report = RunModeWorkload(seed, /*verbose=*/false);
    EXPECT_TRUE(report.status.ok()) << report.status;
    probes.Add(report.probes);
  }
  if (FewSeeds()) return;
  EXPECT_GE(probes.Of("mode: to sync"), Seeds() / 6);
  EXPECT_GE(probes.Of("mode: an operator has a checkpoint"), Seeds() / 2);
  EXPECT_GE(probes.Of("mode: from sync"), Seeds() / 6);
  EXPECT_GT(probes.Of("mode: the chief dies during a change"), 0u);
  EXPECT_GT(probes.Of("mode: the chief dies around the entry"), 0u);
  EXPECT_GT(probes.Of("mode: a server dies before the steps are saved"), 0u);
}

TEST(ModeWorkloadTest, ASeedIsTheSameEventsAgain) {
  for (const uint64_t seed : {1, 2, 3}) {
    const WorkloadReport first = RunModeWorkload(seed, false);
    EXPECT_EQ(RunModeWorkload(seed, false).trace_hash, first.trace_hash);
  }
}

}  // namespace
}  // namespace paramd
