// A worker and snapshots.
#include "gtest/gtest.h"

#include "client/core/testing/configurations.h"
#include "proto/refusal.h"
#include "worker/core/testing/joined_worker.h"
#include "worker/core/worker.h"

namespace paramd {
namespace {

using testing::JoinedWorker;
using testing::Pair;
using testing::WorkerOptions;

// Has a portion of 16 examples, weights for two steps, and computes the first.
class WorkerCutTest : public ::testing::Test {
 protected:
  WorkerCutTest() : joined_(WorkerOptions()) {
    joined_.Join();
    joined_.GivePortion(1, 0, 16);
    joined_.AnswerPull(*joined_.TakePull(), 5);
  }

  void Compute() {
    joined_.AnswerCompute(*joined_.driver().TakeIo<v1::ComputeGradient>());
  }
  // The next push, which stays open.
  Outbox::SendItem Push() {
    Compute();
    return *joined_.TakePush();
  }
  // Acknowledges it and pulls for the step after the next.
  void Acknowledge(const Outbox::SendItem& push) {
    joined_.AnswerPush(push);
    joined_.AnswerPull(*joined_.TakePull(), 7);
  }
  static v1::SnapshotNumber StampOf(const Outbox::SendItem& push) {
    return JoinedWorker::PushOf(push).header().snapshot();
  }

  JoinedWorker joined_;
};

TEST_F(WorkerCutTest, TheCutIsToldAtOnceAndNothingStops) {
  joined_.AnswerSnapshot(Pair(1, 4));
  const v1::WorkerCut cut = joined_.TakeBeat().cut();
  EXPECT_EQ(cut.snapshot(), Pair(1, 4));
  EXPECT_EQ(cut.sequence(), 0u);
  EXPECT_TRUE(cut.acknowledged());
  EXPECT_EQ(cut.last_portion(), 1u);
  ASSERT_EQ(cut.remaining_size(), 1);
  EXPECT_EQ(cut.remaining(0).begin(), 0u);
  EXPECT_EQ(cut.remaining(0).end(), 16u);
  EXPECT_EQ(StampOf(Push()), Pair(1, 4));
}

TEST_F(WorkerCutTest, Promise3_AnOpenPushBelongsToTheSnapshot) {
  const auto push = Push();
  joined_.AnswerSnapshot(Pair(1, 4));
  v1::WorkerCut cut = joined_.TakeBeat().cut();
  EXPECT_EQ(cut.sequence(), 1u);
  EXPECT_FALSE(cut.acknowledged());
  EXPECT_EQ(cut.remaining(0).begin(), 2u) << "what it is of is used";
  Acknowledge(push);
  // Its heartbeat is with the coordinator; it doesn't wait for the answer.
  cut = joined_.TakeBeat().cut();
  EXPECT_EQ(cut.snapshot(), Pair(1, 4));
  EXPECT_EQ(cut.sequence(), 1u);
  EXPECT_TRUE(cut.acknowledged());
}

TEST_F(WorkerCutTest, Promise3_WhatComesBehindTheCutDoesNotMoveIt) {
  joined_.AnswerSnapshot(Pair(1, 4));
  Acknowledge(Push());
  joined_.AnswerSnapshot(Pair(1, 4));
  const v1::WorkerCut cut = joined_.TakeBeat().cut();
  EXPECT_EQ(cut.sequence(), 0u);
  EXPECT_EQ(cut.remaining(0).begin(), 0u);
}

TEST_F(WorkerCutTest, Promise3_AResentPushKeepsItsStamp) {
  const auto push = Push();
  joined_.AnswerSnapshot(Pair(1, 4));
  joined_.driver().Fail(push, absl::UnavailableError("reset"));
  joined_.driver().Advance(absl::Seconds(1));
  const auto again = joined_.TakePush();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(JoinedWorker::PushOf(*again).header().sequence(), 1u);
  EXPECT_EQ(StampOf(*again), Pair(0, 0));
}

TEST_F(WorkerCutTest, TheStampStaysWhenTheSnapshotHasEnded) {
  joined_.AnswerSnapshot(Pair(1, 4));
  joined_.AnswerSnapshot(Pair(0, 0));
  EXPECT_EQ(joined_.TakeBeat().cut().snapshot(), Pair(0, 0));
  EXPECT_EQ(StampOf(Push()), Pair(1, 4));
}

TEST_F(WorkerCutTest, ItsRequestsForInputSayWhichCutItHasMade) {
  const auto before = joined_.driver().TakeSend<v1::PortionRequest>();
  joined_.AnswerSnapshot(Pair(1, 4));
  joined_.driver().Fail(*before, absl::UnavailableError("reset"));
  joined_.driver().Advance(absl::Milliseconds(200));
  const auto asked = joined_.driver().TakeSend<v1::PortionRequest>();
  ASSERT_TRUE(asked.has_value());
  EXPECT_EQ(
      static_cast<const v1::PortionRequest&>(*asked->head).header().snapshot(),
      Pair(1, 4));
}

TEST_F(WorkerCutTest, AHoldStopsPushesUntilItIsOver) {
  joined_.AnswerHold(Pair(1, 4));
  EXPECT_EQ(joined_.TakeBeat().cut().snapshot(), Pair(1, 4));
  Compute();
  EXPECT_FALSE(joined_.TakePush().has_value());
  joined_.AnswerSnapshot(Pair(0, 0));
  EXPECT_EQ(StampOf(*joined_.TakePush()), Pair(1, 4));
}

TEST_F(WorkerCutTest, Promise3_ItDoesNotLeaveBeforeItsCutIsHeard) {
  joined_.AnswerSnapshot(Pair(1, 4));
  joined_.driver().Drain();
  v1::HeartbeatRequest beat = joined_.TakeBeat();
  EXPECT_EQ(beat.cut().snapshot(), Pair(1, 4));
  EXPECT_FALSE(beat.leaving());
  joined_.AnswerSnapshot(Pair(1, 4));
  beat = joined_.TakeBeat();
  EXPECT_TRUE(beat.leaving());
  EXPECT_EQ(beat.cut().snapshot(), Pair(0, 0)) << "this is how far it got";
}

}  // namespace
}  // namespace paramd
