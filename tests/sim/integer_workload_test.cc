#include "tests/sim/integer_workload.h"

#include <cstdint>
#include <cstdlib>

#include "gtest/gtest.h"

namespace paramd {
namespace {

// Fewer where every instruction costs ten.
uint64_t Seeds() {
  return std::getenv("PARAMD_SANITIZER") == nullptr ? 200 : 30;
}

TEST(IntegerWorkloadTest, Promise1_EveryBatchIsInExactlyOnceOn200Networks) {
  FaultCounts faults;
  uint64_t checkpoints = 0;
  uint64_t resumed = 0;
  uint64_t drained = 0;
  for (uint64_t seed = 1; seed <= Seeds(); ++seed) {
    const WorkloadReport report = RunIntegerWorkload(seed, false);
    EXPECT_TRUE(report.status.ok()) << report.status;
    faults.Add(report.faults);
    checkpoints += report.checkpoints;
    resumed += report.resumed ? 1 : 0;
    drained += report.drained;
  }
  // One in the middle and one at the end, at least.
  EXPECT_GE(checkpoints, 2 * Seeds());
  EXPECT_GE(resumed, Seeds() / 20);
  EXPECT_GE(drained, Seeds() / 10);
  if (Seeds() < 200) return;
  // A fault that was never met proves nothing.
  for (const char* fault : {"lose_request", "lose_reply", "duplicate", "ghost",
                            "second_reply", "deadline"}) {
    for (const char* type : {"PushRequest", "PullRequest", "PortionRequest",
                             "HeartbeatRequest", "ConfigureRequest"}) {
      EXPECT_GT(faults.Of(fault, type), 20u) << fault << " of " << type;
    }
    for (const char* type : {"JoinRequest", "RecallRequest", "SealRequest",
                             "WrittenRequest", "FinishRequest"}) {
      EXPECT_GT(faults.Of(fault, type), 0u) << fault << " of " << type;
    }
  }
  EXPECT_GT(faults.Of("cut_off", "PushRequest"), 0u);
}

TEST(IntegerWorkloadTest, OneSeedGivesOneTrace) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const WorkloadReport once = RunIntegerWorkload(seed, false);
    const WorkloadReport again = RunIntegerWorkload(seed, false);
    EXPECT_EQ(once.trace_hash, again.trace_hash) << "seed " << seed;
    EXPECT_EQ(once.events, again.events);
    EXPECT_NE(once.trace_hash, RunIntegerWorkload(seed + 8, false).trace_hash);
  }
}

}  // namespace
}  // namespace paramd
