// A worker's steps in sync mode.
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "client/core/testing/configurations.h"
#include "proto/paramd/v1/compute.pb.h"
#include "proto/refusal.h"
#include "worker/core/testing/joined_worker.h"
#include "worker/core/worker.h"

namespace paramd {
namespace {

using ::paramd::testing::CoreDriver;
using ::paramd::testing::JoinedWorker;
using ::paramd::testing::WorkerOptions;

Worker::Options SyncOptions() {
  Worker::Options options = WorkerOptions();
  options.layers_from_bytes = 1;
  options.examples = 10;
  return options;
}

// Worker 3; contributions have 2 examples, an epoch 10.
class WorkerSyncTest : public ::testing::Test {
 protected:
  WorkerSyncTest() : worker_(SyncOptions()) {
    reply_ = worker_.MakeJoinReply();
    v1::Configuration* const configuration = reply_.mutable_configuration();
    configuration->mutable_consistency()->set_mode(v1::Consistency::SYNC);
    configuration->set_state(v1::RUNNING);
  }
  CoreDriver& driver() { return worker_.driver(); }
  v1::Configuration WithContributors(uint64_t counter, uint64_t first_step,
                                     const std::vector<uint32_t>& workers,
                                     uint64_t offset) {
    v1::Configuration configuration = reply_.configuration();
    configuration.mutable_version()->set_counter(
        configuration.version().counter() + counter);
    v1::Contributors* const told = configuration.mutable_contributors();
    told->mutable_version()->set_term(1);
    told->mutable_version()->set_counter(100 + counter);
    told->set_first_step(first_step);
    told->mutable_workers()->Assign(workers.begin(), workers.end());
    told->mutable_input()->set_next_epoch(1);
    told->mutable_input()->set_next_offset(offset);
    return configuration;
  }
  // Joins as one of workers 1 and 3, who begin with step 1.
  void Join() {
    *reply_.mutable_configuration() = WithContributors(1, 1, {1, 3}, 0);
    driver().Reply(*driver().TakeSend<v1::JoinRequest>(), reply_);
  }
  void Tell(const v1::Configuration& configuration) {
    v1::HeartbeatReply news;
    news.set_state(v1::RUNNING);
    *news.mutable_configuration() = configuration;
    worker_.AnswerBeat(news);
  }
  // Answers the open pull, which is after this step.
  void Pull(uint64_t after_step) {
    const auto pull = worker_.TakePull();
    ASSERT_TRUE(pull.has_value());
    EXPECT_EQ(JoinedWorker::PullOf(*pull).after_step(), after_step);
    worker_.AnswerPull(*pull, 1);
  }
  v1::ComputeGradient Compute() {
    const auto compute = driver().TakeIo<v1::ComputeGradient>();
    EXPECT_TRUE(compute.has_value());
    if (!compute.has_value()) return {};
    worker_.AnswerCompute(*compute);
    return compute->second;
  }
  v1::PushRequest Push() {
    const auto push = worker_.TakePush();
    EXPECT_TRUE(push.has_value());
    if (!push.has_value()) return {};
    const v1::PushRequest request = JoinedWorker::PushOf(*push);
    worker_.AnswerPush(*push);
    return request;
  }

  JoinedWorker worker_;
  v1::JoinReply reply_;
};

TEST_F(WorkerSyncTest, AStepIsAPullAShareAndAPushAndTheNextPullWaits) {
  Join();
  Pull(0);
  const v1::ComputeGradient compute = Compute();
  EXPECT_EQ(compute.begin(), 2u);
  EXPECT_EQ(compute.end(), 4u);
  EXPECT_EQ(compute.divide_by(), 4u);
  EXPECT_EQ(compute.portion(), 0u);
  const v1::PushRequest push = Push();
  EXPECT_EQ(push.step(), 1u);
  EXPECT_EQ(push.examples(), 2u);
  EXPECT_EQ(push.contributors().counter(), 101u);
  EXPECT_FALSE(driver().TakeIo<v1::ComputeGradient>().has_value());
  Pull(1);
  EXPECT_EQ(Compute().begin(), 6u);
  EXPECT_EQ(Push().step(), 2u);
  EXPECT_FALSE(driver().TakeSend<v1::PortionRequest>().has_value());
}

TEST_F(WorkerSyncTest, AShareIsComputedWhileTheNextIsFetched) {
  Join();
  Pull(0);
  const v1::ComputeGradient first = Compute();
  EXPECT_EQ(first.next().epoch(), 1u);
  EXPECT_EQ(first.next().begin(), 6u);
  EXPECT_EQ(first.next().end(), 8u);
  Push();
  Pull(1);
  // Step 3 has the examples 8 to 10, and worker 3 is the second.
  EXPECT_FALSE(Compute().has_next());
}

TEST_F(WorkerSyncTest, AShareWithoutExamplesIsPushedWithoutNumbers) {
  Join();
  for (const uint64_t step : {0, 1}) {
    Pull(step);
    Compute();
    Push();
  }
  // Step 3 has the examples 8 to 10, and worker 3 is the second.
  Pull(2);
  EXPECT_FALSE(driver().TakeIo<v1::ComputeGradient>().has_value());
  const v1::PushRequest push = Push();
  EXPECT_EQ(push.step(), 3u);
  EXPECT_EQ(push.examples(), 0u);
  ASSERT_EQ(push.blocks_size(), 1);
  EXPECT_EQ(push.blocks(0).elements(), 0u);
}

TEST_F(WorkerSyncTest, AShareIsOfTheExamplesThatTheInputLeft) {
  Join();
  Pull(0);
  const auto compute = driver().TakeIo<v1::ComputeGradient>();
  ASSERT_TRUE(compute.has_value());
  v1::ComputeGradientResult result;
  result.set_examples(1);
  driver().Complete(compute->first, result, {testing::Floats({1, 2})});
  EXPECT_EQ(Push().examples(), 1u);
}

TEST_F(WorkerSyncTest, AShareThatLeavesByLayersIsOfTheExamplesThatAreLeft) {
  Join();
  Pull(0);
  ASSERT_TRUE(driver().TakeIo<v1::ComputeGradient>().has_value());
  const auto take = driver().TakeIo<v1::TakeGradients>();
  ASSERT_TRUE(take.has_value());
  v1::TakeGradientsResult taken;
  taken.add_variables(0);
  taken.set_left_out(1);
  driver().Complete(take->first, taken, {testing::Floats({1, 2})});
  EXPECT_EQ(Push().examples(), 1u);
}

TEST_F(WorkerSyncTest, AShareOfWhichNothingIsLeftIsPushedWithoutNumbers) {
  Join();
  Pull(0);
  const auto compute = driver().TakeIo<v1::ComputeGradient>();
  ASSERT_TRUE(compute.has_value());
  driver().Complete(compute->first, v1::ComputeGradientResult(),
                    {testing::Floats({0, 0})});
  const v1::PushRequest push = Push();
  EXPECT_EQ(push.examples(), 0u);
  ASSERT_EQ(push.blocks_size(), 1);
  EXPECT_EQ(push.blocks(0).elements(), 0u);
  Pull(1);
}

TEST_F(WorkerSyncTest, OneThatDoesNotContributeYetWaits) {
  *reply_.mutable_configuration() = WithContributors(1, 1, {1}, 0);
  driver().Reply(*driver().TakeSend<v1::JoinRequest>(), reply_);
  EXPECT_FALSE(worker_.TakePull().has_value());
  Tell(WithContributors(2, 5, {1, 3}, 4));
  Pull(4);
  EXPECT_EQ(Compute().begin(), 6u);
}

TEST_F(WorkerSyncTest, AnUndecidedStepBeginsAnewWithOtherContributors) {
  Join();
  Pull(0);
  Compute();
  const auto open = worker_.TakePush();
  ASSERT_TRUE(open.has_value());
  Tell(WithContributors(2, 1, {3}, 0));
  // The weights are still those of before step 1.
  EXPECT_FALSE(worker_.TakePull().has_value());
  const v1::ComputeGradient compute = Compute();
  EXPECT_EQ(compute.begin(), 0u);
  EXPECT_EQ(compute.divide_by(), 2u);
  // What becomes of the push that was given up says nothing.
  worker_.AnswerPush(*open);
  const v1::PushRequest push = Push();
  EXPECT_EQ(push.step(), 1u);
  EXPECT_EQ(push.contributors().counter(), 102u);
  Pull(1);
}

TEST_F(WorkerSyncTest, APullThatWaitsForADroppedShareIsGivenUp) {
  Join();
  Pull(0);
  Compute();
  Push();
  const auto waiting = worker_.TakePull();
  ASSERT_TRUE(waiting.has_value());
  Tell(WithContributors(2, 1, {3}, 0));
  EXPECT_EQ(Compute().divide_by(), 2u);
  EXPECT_EQ(Push().step(), 1u);
  Pull(1);
}

TEST_F(WorkerSyncTest, AStepThatWasDecidedIsNotComputedAgain) {
  Join();
  Pull(0);
  Compute();
  Push();
  const auto waiting = worker_.TakePull();
  ASSERT_TRUE(waiting.has_value());
  // Step 1 was decided with both before worker 1 left.
  Tell(WithContributors(2, 2, {3}, 4));
  EXPECT_FALSE(driver().TakeIo<v1::ComputeGradient>().has_value());
  worker_.AnswerPull(*waiting, 2);
  EXPECT_EQ(Compute().begin(), 4u);
  EXPECT_EQ(Push().step(), 2u);
}

TEST_F(WorkerSyncTest, WhoIsLateGoesOnBehindTheNewestStep) {
  Join();
  Pull(0);
  Compute();
  v1::Refusal late;
  late.set_reason(v1::Refusal::LATE);
  late.set_step(2);
  driver().Fail(*worker_.TakePush(), Refuse(late, "decided without it"));
  Pull(2);
  EXPECT_FALSE(driver().exited);
  v1::StatusReply status;
  worker_.core().FillStatus(driver().now(), &status);
  EXPECT_EQ(status.worker().late(), 1u);
}

TEST_F(WorkerSyncTest, AShareThatIsOfNoUseAnyMoreIsAbandoned) {
  Join();
  Pull(0);
  const auto compute = driver().TakeIo<v1::ComputeGradient>();
  ASSERT_TRUE(compute.has_value());
  v1::HeartbeatReply news;
  news.set_state(v1::RUNNING);
  news.set_left_out_step(1);
  worker_.AnswerBeat(news);
  EXPECT_TRUE(driver().TakeIo<v1::AbandonGradient>().has_value());
  EXPECT_EQ(worker_.TakeBeat().left_out_step(), 1u);
  // Its buffer is read until the work has ended.
  EXPECT_FALSE(worker_.TakePull().has_value());
  driver().End(compute->first, absl::CancelledError("abandoned"), nullptr, {});
  EXPECT_FALSE(driver().exited);
  EXPECT_FALSE(worker_.TakePush().has_value());
  Pull(1);
  EXPECT_EQ(Compute().begin(), 6u);
  EXPECT_EQ(Push().step(), 2u);
  v1::StatusReply status;
  worker_.core().FillStatus(driver().now(), &status);
  EXPECT_EQ(status.worker().late(), 1u);
}

TEST_F(WorkerSyncTest, AShareThatHasBegunToLeaveIsAbandonedToo) {
  Join();
  Pull(0);
  const auto compute = driver().TakeIo<v1::ComputeGradient>();
  const auto take = driver().TakeIo<v1::TakeGradients>();
  ASSERT_TRUE(compute.has_value() && take.has_value());
  v1::TakeGradientsResult taken;
  taken.add_variables(0);
  driver().Complete(take->first, taken, {testing::Floats({1, 2})});
  ASSERT_TRUE(worker_.TakePush().has_value());
  v1::HeartbeatReply news;
  news.set_state(v1::RUNNING);
  news.set_left_out_step(1);
  worker_.AnswerBeat(news);
  EXPECT_TRUE(driver().TakeIo<v1::AbandonGradient>().has_value());
  driver().End(compute->first, absl::CancelledError("abandoned"), nullptr, {});
  EXPECT_FALSE(driver().exited);
  Pull(1);
  EXPECT_EQ(Compute().begin(), 6u);
  const v1::PushRequest push = Push();
  EXPECT_EQ(push.step(), 2u);
  EXPECT_EQ(push.header().sequence(), 2u);
}

TEST_F(WorkerSyncTest, AShareOfALaterStepIsNotAbandoned) {
  Join();
  Pull(0);
  Compute();
  Push();
  Pull(1);
  v1::HeartbeatReply news;
  news.set_state(v1::RUNNING);
  news.set_left_out_step(1);
  worker_.AnswerBeat(news);
  EXPECT_FALSE(driver().TakeIo<v1::AbandonGradient>().has_value());
  Compute();
  EXPECT_EQ(Push().step(), 2u);
}

TEST_F(WorkerSyncTest, WhatIsQuarantinedEndsTheWorker) {
  Join();
  Pull(0);
  Compute();
  driver().Fail(*worker_.TakePush(),
                Refuse(v1::Refusal::QUARANTINED, "a", "'a' is not finite"));
  EXPECT_TRUE(driver().exited);
  EXPECT_EQ(driver().exit_status.code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace paramd
