#include "tests/sim/stop_workload.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"

#include "tests/sim/few_seeds.h"

namespace paramd {
namespace {

uint64_t Seeds() { return FewSeeds() ? 12 : 150; }

TEST(StopWorkloadTest, AStoppedJobLosesNothingAndGoesOn) {
  Probes probes;
  for (uint64_t seed = 1; seed <= Seeds(); ++seed) {
    const WorkloadReport report = RunStopWorkload(seed, /*verbose=*/false);
    EXPECT_TRUE(report.status.ok()) << report.status;
    probes.Add(report.probes);
  }
  if (FewSeeds()) return;
  for (const char* const mode : {"async", "2", "sync"}) {
    EXPECT_GE(probes.Of(std::string("stop: in mode ") + mode), Seeds() / 12)
        << mode;
  }
}

TEST(StopWorkloadTest, ASeedIsTheSameEventsAgain) {
  for (const uint64_t seed : {1, 2, 3}) {
    const WorkloadReport first = RunStopWorkload(seed, false);
    EXPECT_EQ(RunStopWorkload(seed, false).trace_hash, first.trace_hash);
  }
}

}  // namespace
}  // namespace paramd
