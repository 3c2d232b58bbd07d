#include "coordinator/core/evaluations.h"

#include "gtest/gtest.h"

#include "coordinator/core/testing/part_bench.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

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

// ---- the final one, by several ----------------------------------------------

constexpr uint64_t kTestSet = 77;

// Two workers that have the chief's test set of 16 batches, and nothing left to
// train on.
class SharedEvaluationTest : public ::testing::Test {
 protected:
  SharedEvaluationTest() : bench_(Shared()) {
    bench_.phase = JobPhase::kEvaluating;
    AddWorker(0, kTestSet);
    AddWorker(1, kTestSet);
  }
  static CoordinatorOptions Shared() {
    CoordinatorOptions options = EveryEpoch();
    options.workers = 2;
    options.test_set = kTestSet;
    options.test_batches = 16;
    return options;
  }
  void AddWorker(uint32_t index, uint64_t test_set) {
    WorkerRecord worker;
    worker.generation = MakeNumber<v1::SessionId>(1, ++sessions_);
    worker.heard = bench_.now;
    worker.last.set_test_set(test_set);
    bench_.workers[index] = worker;
  }
  void Advance() {
    bench_.Do([&](Turn* turn) { evaluations_.AdvanceShared(3, turn); });
  }
  // Of all that this worker has now; how many batches.
  uint64_t Count(uint32_t worker) {
    v1::TestedBatches tested;
    *tested.mutable_part() = *evaluations_.PartOf(worker);
    const uint64_t count = tested.part().end() - tested.part().begin();
    for (uint64_t i = 0; i < count; ++i) tested.add_batches()->set_examples(1);
    evaluations_.OnTested(worker, tested);
    return count;
  }
  // By whoever has one; then they are put together.
  void CountAll() {
    for (int i = 0; i < 100 && bench_.out.ios.empty(); ++i) {
      Advance();
      for (const auto& [index, worker] : bench_.workers) {
        if (evaluations_.PartOf(index).has_value()) Count(index);
      }
    }
    ASSERT_EQ(bench_.out.ios.size(), 1u);
    merge_ = bench_.out.ios[0].io;
  }
  void Merged() {
    v1::EvaluateWeightsResult result;
    result.mutable_evaluation()->set_epoch(3);
    result.mutable_evaluation()->set_final(true);
    result.mutable_evaluation()->set_examples(16);
    bench_.End(merge_, absl::OkStatus(), result);
  }

  PartBench bench_;
  Evaluations evaluations_;
  uint64_t sessions_ = 0;
  IoId merge_ = 0;
};

TEST_F(SharedEvaluationTest, WhatAllHaveCountedIsPutTogetherOnce) {
  CountAll();
  EXPECT_EQ(
      static_cast<const v1::MergeBatches&>(*bench_.out.ios[0].head).epoch(),
      3u);
  EXPECT_EQ(static_cast<const v1::MergeBatches&>(*bench_.out.ios[0].head)
                .batches_size(),
            16);
  Advance();
  EXPECT_TRUE(bench_.out.ios.empty());
  EXPECT_FALSE(evaluations_.newest().final());
  Merged();
  EXPECT_TRUE(evaluations_.newest().final());
  EXPECT_NE(bench_.Raised<Evaluated>(), nullptr);
  Advance();
  EXPECT_FALSE(evaluations_.PartOf(0).has_value());
}

TEST_F(SharedEvaluationTest, ASilentWorkersPartIsLeasedAgain) {
  Advance();
  const v1::TestPart lost = *evaluations_.PartOf(1);
  bench_.now = bench_.now + bench_.job.lease() + absl::Seconds(1);
  bench_.workers[0].heard = bench_.now;
  Count(0);
  Advance();
  EXPECT_EQ(evaluations_.PartOf(0)->begin(), lost.begin());
  EXPECT_FALSE(evaluations_.PartOf(1).has_value());
}

TEST_F(SharedEvaluationTest, AWorkerWithAnotherTestSetTakesNoPartAndIsNamed) {
  AddWorker(1, kTestSet + 1);
  Advance();
  EXPECT_TRUE(evaluations_.PartOf(0).has_value());
  EXPECT_FALSE(evaluations_.PartOf(1).has_value());
  ASSERT_EQ(bench_.out.notes.size(), 1u);
  Advance();
  EXPECT_TRUE(bench_.out.notes.empty()) << "once is enough";
}

TEST_F(SharedEvaluationTest, AWorkerOfAnEarlierVersionTakesNoPart) {
  AddWorker(1, 0);
  Advance();
  EXPECT_FALSE(evaluations_.PartOf(1).has_value());
  CountAll();
  Merged();
  EXPECT_TRUE(evaluations_.newest().final());
}

TEST_F(SharedEvaluationTest, WhereAServerLosesItsWeightsAllBatchesAreOfTheNew) {
  Advance();
  const v1::TestPart before = *evaluations_.PartOf(0);
  Count(1);
  evaluations_.BeginAgain();
  EXPECT_FALSE(evaluations_.PartOf(0).has_value());
  Advance();
  EXPECT_EQ(evaluations_.PartOf(0)->begin(), 0u);
  EXPECT_GT(evaluations_.PartOf(0)->evaluation(), before.evaluation());
  // Also where they are being put together.
  CountAll();
  evaluations_.BeginAgain();
  Merged();
  EXPECT_FALSE(evaluations_.newest().final());
  CountAll();
  Merged();
  EXPECT_TRUE(evaluations_.newest().final());
}

TEST_F(SharedEvaluationTest, AnEvaluationThatFailsEndsTheProcess) {
  CountAll();
  bench_.End(merge_, absl::InvalidArgumentError("no example"),
             v1::EvaluateWeightsResult());
  EXPECT_EQ(bench_.out.exit_status.message(), "no example");
}

TEST(EvaluationsTest, OneWorkerSharesNothing) {
  CoordinatorOptions options = EveryEpoch();
  options.workers = 1;
  options.test_set = kTestSet;
  EXPECT_FALSE(Evaluations::AreShared(PartBench(options).job));
  options.workers = 2;
  EXPECT_TRUE(Evaluations::AreShared(PartBench(options).job));
  options.test_set = 0;
  EXPECT_FALSE(Evaluations::AreShared(PartBench(options).job));
}

}  // namespace
}  // namespace paramd
