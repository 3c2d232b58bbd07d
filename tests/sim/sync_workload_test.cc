#include "tests/sim/sync_workload.h"

#include "gtest/gtest.h"

#include "tests/sim/few_seeds.h"

namespace paramd {
namespace {

uint64_t Seeds() { return FewSeeds() ? 20 : 150; }

TEST(SyncWorkloadTest, Promise6_EveryBatchIsInOnceWhoeverDies) {
  WorkloadReport all;
  for (uint64_t seed = 1; seed <= Seeds(); ++seed) {
    const WorkloadReport report = RunSyncWorkload(seed, false);
    EXPECT_TRUE(report.status.ok()) << report.status;
    all.faults.Add(report.faults);
    all.probes.Add(report.probes);
    all.checkpoints += report.checkpoints;
    all.hits += report.hits;
  }
  if (FewSeeds()) return;
  EXPECT_GE(all.checkpoints, 2 * Seeds());
  EXPECT_GE(all.hits, 2 * Seeds());
  // What was never met proves nothing.
  for (const char* probe :
       {"sync: the bits of one process", "sync: a block comes packed",
        "sync: an empty share", "sync: a share is late",
        "sync: a share comes again when its step is in",
        "sync: a share comes too early or too late",
        "sync: a worker hears that it is left out",
        "sync: one threshold for all servers"}) {
    EXPECT_GT(all.probes.Of(probe), 0u) << probe;
  }
}

TEST(SyncWorkloadTest, OneSeedGivesOneTrace) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    EXPECT_EQ(RunSyncWorkload(seed, false).trace_hash,
              RunSyncWorkload(seed, false).trace_hash);
  }
}

}  // namespace
}  // namespace paramd
