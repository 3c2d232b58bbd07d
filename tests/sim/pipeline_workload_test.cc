#include "tests/sim/pipeline_workload.h"

#include "gtest/gtest.h"

#include "tests/sim/few_seeds.h"

namespace paramd {
namespace {

uint64_t Seeds() { return FewSeeds() ? 100 : 3000; }

TEST(PipelineWorkloadTest, EveryUpdateHasTheGradientOfTheWitness) {
  PipelineReport all;
  uint64_t skips = 0, ties = 0, overlaps = 0, versions = 0;
  for (uint64_t seed = 1; seed <= Seeds(); ++seed) {
    const PipelineReport report = RunPipelineWorkload(seed);
    ASSERT_TRUE(report.status.ok()) << report.status;
    EXPECT_TRUE(report.complete);
    all.pauses += report.pauses;
    all.failures += report.failures;
    all.short_batches += report.short_batches;
    all.updates += report.updates;
    skips += report.skips;
    ties += report.ties;
    overlaps += report.overlaps;
    versions += report.has_versions;
  }
  EXPECT_GT(all.updates, 10 * Seeds());
  if (FewSeeds()) return;
  EXPECT_GT(all.pauses, Seeds());
  EXPECT_GT(all.failures, Seeds() / 2);
  EXPECT_GT(all.short_batches, Seeds() / 2);
  EXPECT_GT(skips, Seeds() / 10);
  EXPECT_GT(ties, Seeds() / 10);
  EXPECT_GT(overlaps, Seeds() / 10);
  EXPECT_GT(versions, Seeds() / 10);
}

TEST(PipelineWorkloadTest, ASeedIsTheSameAgain) {
  for (const uint64_t seed : {3, 4, 5}) {
    EXPECT_EQ(RunPipelineWorkload(seed).trace_hash,
              RunPipelineWorkload(seed).trace_hash);
  }
}

}  // namespace
}  // namespace paramd
