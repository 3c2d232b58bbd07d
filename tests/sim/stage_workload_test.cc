#include "tests/sim/stage_workload.h"

#include "gtest/gtest.h"

#include "tests/sim/few_seeds.h"

namespace paramd {
namespace {

uint64_t StageSeeds() { return FewSeeds() ? 20 : 200; }

TEST(StageWorkloadTest, EveryAnswerIsThatOfOneProcess) {
  StagesReport all;
  for (uint64_t seed = 1; seed <= StageSeeds(); ++seed) {
    const StagesReport report = RunStageWorkload(seed);
    ASSERT_TRUE(report.status.ok()) << report.status;
    all.trained += report.trained;
    all.evaluated += report.evaluated;
    all.begun_again += report.begun_again;
    all.struck += report.struck;
    all.owners += report.owners;
    all.fenced += report.fenced;
    all.busy += report.busy;
    all.pieces += report.pieces;
    all.fetched += report.fetched;
    all.weights_kept += report.weights_kept;
    all.weights_lost += report.weights_lost;
  }
  EXPECT_GE(all.trained, 3 * StageSeeds());
  if (FewSeeds()) return;
  EXPECT_GT(all.struck, StageSeeds());
  EXPECT_GT(all.begun_again, StageSeeds());
  EXPECT_GT(all.evaluated, StageSeeds());
  EXPECT_GT(all.pieces, StageSeeds());
  EXPECT_GT(all.fetched, StageSeeds());
  EXPECT_GT(all.weights_kept, StageSeeds() / 2);
  // Of rare branches, that they were reached.
  EXPECT_GT(all.owners, 0u);
  EXPECT_GT(all.fenced, 0u);
  EXPECT_GT(all.busy, 0u);
  EXPECT_GT(all.weights_lost, 0u);
}

TEST(StageWorkloadTest, ASeedIsTheSameAgain) {
  for (const uint64_t seed : {3, 4, 5}) {
    EXPECT_EQ(RunStageWorkload(seed).trace_hash,
              RunStageWorkload(seed).trace_hash);
  }
}

}  // namespace
}  // namespace paramd
