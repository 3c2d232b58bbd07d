#include "coordinator/core/evaluations.h"

#include "gtest/gtest.h"

#include "coordinator/core/testing/part_bench.h"
#include "coordinator/core/testing/started_coordinator.h"

namespace paramd {
namespace {

using ::paramd::testing::JobOptions;
using ::paramd::testing::PartBench;

CoordinatorOptions EveryEpoch() {
  CoordinatorOptions options = JobOptions();
  options.job.set_epochs(3);
  options.job.set_evaluate_every_epochs(1);
  return options;
}

TEST(EvaluationsTest, AnEpochIsEvaluatedOnceAndTheLastOneAtTheEnd) {
  PartBench bench(EveryEpoch());
  Evaluations evaluations;
  EXPECT_EQ(0u, evaluations.EpochToEvaluate(bench.job));
  bench.progress.epochs = 1;
  EXPECT_EQ(1u, evaluations.EpochToEvaluate(bench.job));
  v1::Evaluation found;
  found.set_examples(8);
  found.set_epoch(1);
  EXPECT_TRUE(evaluations.OnHeartbeat(found));
  EXPECT_FALSE(evaluations.OnHeartbeat(found)) << "it says so again";
  EXPECT_EQ(0u, evaluations.EpochToEvaluate(bench.job));
  bench.progress.epochs = 3;
  EXPECT_EQ(0u, evaluations.EpochToEvaluate(bench.job));
}

TEST(EvaluationsTest, BehindACheckpointWhatCameAfterIsEvaluatedAgain) {
  PartBench bench(EveryEpoch());
  Evaluations evaluations;
  evaluations.GoOnBehind(1);
  bench.progress.epochs = 1;
  EXPECT_EQ(0u, evaluations.EpochToEvaluate(bench.job));
  evaluations.GoBackTo(0);
  EXPECT_EQ(1u, evaluations.EpochToEvaluate(bench.job));
  EXPECT_EQ(0u, evaluations.newest().examples());
}

}  // namespace
}  // namespace paramd
