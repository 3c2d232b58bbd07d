// The pipeline: what overlaps with what. Joining, the coordinator and the end
// are in worker_session_test.cc.
#include "worker/core/worker.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "worker/core/testing/joined_worker.h"

namespace paramd {
namespace {

using testing::CoreDriver;
using ::testing::ElementsAre;
using testing::Floats;
using ::testing::HasSubstr;
using testing::JoinedWorker;
using testing::Pair;
using testing::WorkerOptions;

// A worker with a portion of 8 batches of 2 examples, its first pull under way.
class WorkerTest : public ::testing::Test {
 protected:
  WorkerTest() : joined_(WorkerOptions()) {
    joined_.Join();
    joined_.GivePortion(1, 0, 16);
  }
  CoreDriver& driver() { return joined_.driver(); }
  absl::optional<Outbox::SendItem> Pull() { return joined_.TakePull(); }
  absl::optional<Outbox::SendItem> Push() { return joined_.TakePush(); }
  absl::optional<std::pair<IoId, v1::ComputeGradient>> Compute() {
    return driver().TakeIo<v1::ComputeGradient>();
  }

  JoinedWorker joined_;
};

// ---- the order of a step ----------------------------------------------------

TEST_F(WorkerTest, TheFirstBatchIsComputedOnTheFirstPull) {
  const auto pull = Pull();
  ASSERT_TRUE(pull.has_value());
  EXPECT_FALSE(Compute().has_value());
  joined_.AnswerPull(*pull, 5);
  EXPECT_THAT(joined_.WeightsFor<v1::ComputeGradient>(), ElementsAre(5, 5));
  const auto compute = Compute();
  ASSERT_TRUE(compute.has_value());
  EXPECT_EQ(compute->second.epoch(), 1u);
  EXPECT_EQ(compute->second.portion(), 1u);
  EXPECT_EQ(compute->second.begin(), 0u);
  EXPECT_EQ(compute->second.end(), 2u);
}

TEST_F(WorkerTest, APullFollowsTheAcknowledgedPush) {
  joined_.AnswerPull(*Pull(), 5);
  const auto compute = Compute();
  EXPECT_FALSE(Pull().has_value());
  joined_.AnswerCompute(*compute);
  const auto push = Push();
  ASSERT_TRUE(push.has_value());
  driver().Advance(absl::Milliseconds(900));
  EXPECT_FALSE(Pull().has_value());
  EXPECT_FALSE(Compute().has_value());
  joined_.AnswerPush(*push);
  const auto pull = Pull();
  ASSERT_TRUE(pull.has_value());
  EXPECT_EQ(joined_.PullOf(*pull).clock(), 1u);
}

TEST_F(WorkerTest, APushSaysWhereInTheInputItWasMade) {
  joined_.AnswerPull(*Pull(), 5);
  joined_.AnswerCompute(*Compute());
  const auto sent = Push();
  const v1::PushRequest& push = joined_.PushOf(*sent);
  EXPECT_EQ(push.epoch(), 1u);
  EXPECT_EQ(push.input_begin(), 0u);
  EXPECT_EQ(push.input_end(), 2u);
  EXPECT_EQ(push.header().generation(), Pair(1, 7));
}

TEST_F(WorkerTest, APushOfWhichTheInputLeftNothingHasNoNumbers) {
  joined_.AnswerPull(*Pull(), 5);
  driver().Complete(Compute()->first, v1::ComputeGradientResult(),
                    {Floats({0, 0})});
  const auto sent = Push();
  ASSERT_TRUE(sent.has_value());
  const v1::PushRequest& push = joined_.PushOf(*sent);
  EXPECT_TRUE(push.empty());
  ASSERT_EQ(push.blocks_size(), 1);
  EXPECT_EQ(push.blocks(0).elements(), 0u);
  EXPECT_EQ(ChainSize(sent->payload), 0u);
  joined_.AnswerPush(*sent);
  joined_.AnswerPull(*Pull(), 5);
  joined_.AnswerCompute(*Compute());
  const auto next = Push();
  ASSERT_TRUE(next.has_value());
  EXPECT_FALSE(joined_.PushOf(*next).empty());
  EXPECT_EQ(joined_.PushOf(*next).header().sequence(), 2u);
}

TEST_F(WorkerTest, APushOfWhichTheInputLeftSomeHasItsNumbers) {
  joined_.AnswerPull(*Pull(), 5);
  v1::ComputeGradientResult result;
  result.set_examples(1);
  driver().Complete(Compute()->first, result, {Floats({1, 2})});
  const auto sent = Push();
  ASSERT_TRUE(sent.has_value());
  EXPECT_FALSE(joined_.PushOf(*sent).empty());
  EXPECT_EQ(ChainSize(sent->payload), 2 * sizeof(float));
}

// ---- weights that come with the answers to a push
// ----------------------------

class PullBehindPushTest : public ::testing::Test {
 protected:
  PullBehindPushTest() : joined_(WorkerOptions()) {}

  void Join() {
    joined_.Join();
    joined_.GivePortion(1, 0, 4);  // Two batches.
    joined_.AnswerPull(*joined_.TakePull(), 5);
  }
  absl::optional<std::pair<IoId, v1::ComputeGradient>> Compute() {
    return joined_.driver().TakeIo<v1::ComputeGradient>();
  }
  Outbox::SendItem ComputeAndPush() {
    joined_.AnswerCompute(*Compute());
    return *joined_.TakePush();
  }

  JoinedWorker joined_;
};

TEST_F(PullBehindPushTest, TheNextStepIsComputedOnThemWithoutAPull) {
  Join();
  const auto push = ComputeAndPush();
  EXPECT_TRUE(joined_.PushOf(push).has_pull());
  EXPECT_FALSE(Compute().has_value());
  joined_.AnswerPushWithWeights(push, 8);
  EXPECT_FALSE(joined_.TakePull().has_value());
  EXPECT_THAT(joined_.WeightsFor<v1::ComputeGradient>(), ElementsAre(8, 8));
}

TEST_F(PullBehindPushTest, APullFollowsWhereTheyDoNotCome) {
  Join();
  joined_.AnswerPush(ComputeAndPush());
  EXPECT_FALSE(Compute().has_value());
  const auto pull = joined_.TakePull();
  ASSERT_TRUE(pull.has_value());
  joined_.AnswerPull(*pull, 6);
  EXPECT_THAT(joined_.WeightsFor<v1::ComputeGradient>(), ElementsAre(6, 6));
}

TEST_F(PullBehindPushTest, TheLastPushAsksForNone) {
  Join();
  joined_.GiveNoMore();
  joined_.AnswerPushWithWeights(ComputeAndPush(), 8);
  EXPECT_FALSE(joined_.PushOf(ComputeAndPush()).has_pull());
}

TEST_F(PullBehindPushTest, WhereOthersAreWaitedForAPushAsksForNone) {
  joined_.SetMode(v1::Consistency::BOUNDED);
  Join();
  EXPECT_FALSE(joined_.PushOf(ComputeAndPush()).has_pull());
}

TEST_F(WorkerTest, Promise4_APullThatIsGivenUpIsNotedAndSentAgain) {
  driver().Advance(absl::Minutes(5));
  EXPECT_TRUE(driver().HasNote("pull given up after 5m; waiting for ps-0"));
  Pull();
  EXPECT_TRUE(Pull().has_value());
}

TEST_F(WorkerTest, Promise4_APushThatIsGivenUpIsCountedAndTheNextGoesOn) {
  joined_.AnswerPull(*Pull(), 5);
  joined_.AnswerCompute(*Compute());
  ASSERT_TRUE(Push().has_value());
  joined_.KeepBeating(absl::Minutes(5));
  EXPECT_TRUE(driver().HasNote("push given up after 5m; waiting for ps-0"));
  v1::StatusReply status;
  joined_.core().FillStatus(driver().now(), &status);
  EXPECT_EQ(status.worker().given_up(), 1u);
  while (Push().has_value()) {  // It was sent again and again.
  }
  joined_.AnswerPull(*Pull(), 7);
  joined_.AnswerCompute(*Compute());
  const auto next = Push();
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(joined_.PushOf(*next).header().sequence(), 2u);
  EXPECT_EQ(joined_.PushOf(*next).acknowledged(), 1u);
}

// ---- bad numbers ------------------------------------------------------------

TEST_F(WorkerTest, Promise9_ALossThatIsNotFiniteEndsWithASentence) {
  joined_.AnswerPull(*Pull(), 5);
  joined_.AnswerCompute(*Compute(), std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(absl::IsFailedPrecondition(driver().exit_status));
  EXPECT_THAT(std::string(driver().exit_status.message()),
              HasSubstr("the loss is nan at step 1 of worker-3 (epoch 1); "
                        "nothing of this step was pushed"));
  EXPECT_FALSE(Push().has_value());
}

TEST_F(WorkerTest, AGradientThatCannotBeComputedEndsTheProcess) {
  joined_.AnswerPull(*Pull(), 5);
  driver().End(Compute()->first, absl::DataLossError("truncated file"));
  EXPECT_EQ(driver().exit_status.message(), "truncated file");
}

TEST_F(WorkerTest, APortionThatCannotBeFetchedEndsTheProcess) {
  driver().End(driver().TakeIo<v1::FetchPortion>()->first,
               absl::DataLossError("truncated file"));
  EXPECT_EQ(driver().exit_status.message(), "truncated file");
}

// ---- quarantine -------------------------------------------------------------

class QuarantinedWorkerTest : public WorkerTest {
 protected:
  QuarantinedWorkerTest() {
    joined_.AnswerPull(*Pull(), 5);
    joined_.AnswerCompute(*Compute());
  }
  // The answer to the open push; then the next one is sent.
  void Refuse() {
    driver().Fail(*Push(), paramd::Refuse(v1::Refusal::QUARANTINED, "a",
                                          "gradient for 'a' is not finite"));
    Next();
  }
  void Accept() {
    joined_.AnswerPush(*Push());
    Next();
  }
  void Next() {
    if (driver().exited) return;
    if (const auto pull = Pull()) joined_.AnswerPull(*pull, 7);
    joined_.AnswerCompute(*Compute());
  }
};

TEST_F(QuarantinedWorkerTest, APushIsGivenUpAndTheNextOneFollows) {
  Refuse();
  EXPECT_FALSE(driver().exited);
  EXPECT_TRUE(driver().HasNote(
      "push 1 given up (1 so far): gradient for 'a' is not finite"));
  const auto push = Push();
  ASSERT_TRUE(push.has_value());
  EXPECT_EQ(JoinedWorker::PushOf(*push).header().sequence(), 2u);
  EXPECT_EQ(JoinedWorker::PushOf(*push).acknowledged(), 1u);
  v1::StatusReply status;
  joined_.core().FillStatus(driver().now(), &status);
  EXPECT_EQ(status.worker().quarantined(), 1u);
  EXPECT_EQ(status.worker().given_up(), 0u);
}

TEST_F(QuarantinedWorkerTest, SoManyInARowEndTheProcess) {
  Refuse();
  Refuse();
  EXPECT_FALSE(driver().exited);
  Refuse();
  EXPECT_TRUE(absl::IsFailedPrecondition(driver().exit_status));
  EXPECT_THAT(std::string(driver().exit_status.message()),
              HasSubstr("3 of worker-3's pushes in a row were refused for "
                        "their numbers; the last: gradient for 'a' is not "
                        "finite"));
}

TEST_F(QuarantinedWorkerTest, AGoodPushInBetweenBeginsTheRowAnew) {
  Refuse();
  Refuse();
  Accept();
  Refuse();
  Refuse();
  EXPECT_FALSE(driver().exited);
}

// ---- told to stop -----------------------------------------------------------

TEST_F(WorkerTest, ToldToStopItOpensNoPushAndSaysHowFarItGot) {
  joined_.AnswerPull(*Pull(), 5);
  v1::HeartbeatReply news;
  news.set_state(v1::RUNNING);
  news.set_stop(true);
  joined_.AnswerBeat(news);
  const v1::HeartbeatRequest beat = joined_.TakeBeat();
  EXPECT_TRUE(beat.stop());
  EXPECT_EQ(beat.cut().snapshot(), Pair(0, 0));
  EXPECT_TRUE(beat.cut().acknowledged());
  EXPECT_EQ(beat.cut().last_portion(), 1u);
  joined_.AnswerCompute(*Compute());
  EXPECT_FALSE(Push().has_value());
  news.set_stop(false);
  joined_.AnswerBeat(news);
  EXPECT_TRUE(Push().has_value());
}

// ---- evaluation -------------------------------------------------------------

TEST_F(WorkerTest, AnEvaluationPullsItsOwnCopyAndReports) {
  const auto training = Pull();
  v1::HeartbeatReply news;
  news.set_state(v1::RUNNING);
  news.set_evaluate_epoch(1);
  joined_.AnswerBeat(news);
  const auto pull = Pull();
  ASSERT_TRUE(pull.has_value());
  EXPECT_FALSE(joined_.PullOf(*pull).has_clock());
  EXPECT_FALSE(driver().TakeIo<v1::EvaluateWeights>().has_value());
  joined_.AnswerPull(*pull, 9);
  EXPECT_THAT(joined_.WeightsFor<v1::EvaluateWeights>(), ElementsAre(9, 9));
  const auto evaluate = driver().TakeIo<v1::EvaluateWeights>();
  ASSERT_TRUE(evaluate.has_value());
  EXPECT_EQ(evaluate->second.epoch(), 1u);
  EXPECT_FALSE(evaluate->second.final());
  joined_.TakeBeat();
  v1::EvaluateWeightsResult result;
  result.mutable_evaluation()->set_epoch(1);
  result.mutable_evaluation()->set_examples(10);
  (*result.mutable_evaluation()->mutable_metrics())["accuracy"] = 0.8;
  driver().Complete(evaluate->first, result);
  EXPECT_EQ(joined_.TakeBeat().evaluation().metrics().at("accuracy"),
            0.8);  // At once.
  EXPECT_TRUE(driver().HasNote("evaluation after epoch 1: accuracy 0.8"));
  EXPECT_FALSE(Pull().has_value());  // Once is enough.
}

TEST_F(WorkerTest, TheFinalEvaluationIsOfTheLastEpoch) {
  v1::HeartbeatReply news;
  news.set_evaluate_final(true);
  Pull();
  joined_.AnswerBeat(news);
  joined_.AnswerPull(*Pull(), 9);
  const auto evaluate = driver().TakeIo<v1::EvaluateWeights>();
  ASSERT_TRUE(evaluate.has_value());
  EXPECT_EQ(evaluate->second.epoch(), 2u);
  EXPECT_TRUE(evaluate->second.final());
}

TEST_F(WorkerTest, TheFinalEvaluationFollowsOneThatIsStillUnderWay) {
  v1::HeartbeatReply news;
  news.set_evaluate_epoch(1);
  Pull();
  joined_.AnswerBeat(news);
  joined_.AnswerPull(*Pull(), 9);
  const auto first = driver().TakeIo<v1::EvaluateWeights>();
  news.set_evaluate_epoch(0);
  news.set_evaluate_final(true);
  joined_.AnswerBeat(news);
  EXPECT_FALSE(Pull().has_value());
  v1::EvaluateWeightsResult result;
  result.mutable_evaluation()->set_epoch(2);
  driver().Complete(first->first, result);
  joined_.AnswerPull(*Pull(), 9);
  const auto last = driver().TakeIo<v1::EvaluateWeights>();
  ASSERT_TRUE(last.has_value());
  EXPECT_TRUE(last->second.final());
}

TEST_F(WorkerTest, AnEvaluationThatFailsEndsTheProcess) {
  v1::HeartbeatReply news;
  news.set_evaluate_epoch(1);
  Pull();
  joined_.AnswerBeat(news);
  joined_.AnswerPull(*Pull(), 9);
  driver().End(driver().TakeIo<v1::EvaluateWeights>()->first,
               absl::DataLossError("truncated file"));
  EXPECT_EQ(driver().exit_status.message(), "truncated file");
}

// ---- parts of the test set --------------------------------------------------

v1::HeartbeatReply WithPart(uint64_t evaluation, uint64_t begin, uint64_t end) {
  v1::HeartbeatReply news;
  news.set_state(v1::FINISHING);
  v1::TestPart* const part = news.mutable_test_part();
  part->set_term(1);
  part->set_evaluation(evaluation);
  part->set_begin(begin);
  part->set_end(end);
  return news;
}

// Of so many batches; each has so many scores, and says which it is.
v1::EvaluateWeightsResult Counted(uint64_t batches, int scores) {
  v1::EvaluateWeightsResult result;
  for (uint64_t i = 0; i < batches; ++i) {
    v1::BatchMetrics* const batch = result.add_batches();
    batch->set_examples(i + 1);
    batch->mutable_scores()->Resize(scores, 0.5f);
  }
  return result;
}

TEST_F(WorkerTest, APartOfTheTestSetIsCountedOnFreshWeightsAndTold) {
  Pull();
  joined_.AnswerBeat(WithPart(1, 4, 6));
  EXPECT_EQ(joined_.TakeBeat().test_part().begin(), 4u);
  joined_.AnswerPull(*Pull(), 9);
  EXPECT_THAT(joined_.WeightsFor<v1::EvaluateWeights>(), ElementsAre(9, 9));
  const auto evaluate = driver().TakeIo<v1::EvaluateWeights>();
  ASSERT_TRUE(evaluate.has_value());
  EXPECT_EQ(evaluate->second.part().begin(), 4u);
  EXPECT_EQ(evaluate->second.part().end(), 6u);
  driver().Complete(evaluate->first, Counted(2, 1));
  const v1::HeartbeatRequest told = joined_.TakeBeat();  // At once.
  EXPECT_EQ(told.tested().part().begin(), 4u);
  ASSERT_EQ(told.tested().batches_size(), 2);
  EXPECT_EQ(told.tested().batches(1).examples(), 2u);
  EXPECT_EQ(told.evaluation().epoch(), 0u);
  v1::HeartbeatReply none;
  none.set_state(v1::FINISHING);
  joined_.AnswerBeat(none);
  EXPECT_FALSE(joined_.TakeBeat().has_tested());
  EXPECT_FALSE(Pull().has_value());
}

TEST_F(WorkerTest, WhatWasCountedGoesInMessagesBelowAMebibyte) {
  Pull();
  joined_.AnswerBeat(WithPart(1, 10, 18));
  joined_.AnswerPull(*Pull(), 9);
  // 400 KB each: two do not fit.
  driver().Complete(driver().TakeIo<v1::EvaluateWeights>()->first,
                    Counted(8, 100'000));
  for (uint64_t next = 10; next < 18; ++next) {
    const v1::HeartbeatRequest told = joined_.TakeBeat();
    EXPECT_LT(told.ByteSizeLong(), size_t{1} << 20);
    EXPECT_EQ(told.tested().part().begin(), next);
    ASSERT_EQ(told.tested().batches_size(), 1);
    EXPECT_EQ(told.tested().batches(0).examples(), next - 9);
    joined_.AnswerBeat(WithPart(1, next + 1, 18));
  }
  EXPECT_FALSE(driver().TakeIo<v1::EvaluateWeights>().has_value());
}

TEST_F(WorkerTest, APartOfAnotherEvaluationIsCountedAnew) {
  Pull();
  joined_.AnswerBeat(WithPart(1, 0, 2));
  joined_.AnswerPull(*Pull(), 9);
  driver().Complete(driver().TakeIo<v1::EvaluateWeights>()->first,
                    Counted(2, 1));
  joined_.AnswerBeat(WithPart(2, 0, 2));
  EXPECT_FALSE(joined_.TakeBeat().has_tested());
  joined_.AnswerPull(*Pull(), 3);
  EXPECT_THAT(joined_.WeightsFor<v1::EvaluateWeights>(), ElementsAre(3, 3));
}

}  // namespace
}  // namespace paramd
