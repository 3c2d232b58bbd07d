// A worker that is told to stop.
#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "worker/core/testing/joined_worker.h"
#include "worker/core/worker.h"

namespace paramd {
namespace {

using testing::CoreDriver;
using testing::JoinedWorker;
using testing::WorkerOptions;

class WorkerDrainTest : public ::testing::Test {
 protected:
  WorkerDrainTest() : joined_(WorkerOptions()) {}
  CoreDriver& driver() { return joined_.driver(); }

  // Push 1 of portion 1 is under way.
  void TrainToThePush() {
    joined_.Join();
    joined_.GivePortion(1, 0, 16);
    joined_.AnswerPull(*joined_.TakePull(), 5);
    joined_.AnswerCompute(*driver().TakeIo<v1::ComputeGradient>());
    push_ = joined_.TakePush();
    ASSERT_TRUE(push_.has_value());
    driver().TakeSend<v1::HeartbeatRequest>();  // The first one stays open.
  }
  void RefuseBeat(v1::Refusal::Reason reason, const std::string& entity) {
    driver().Fail(*driver().TakeSend<v1::HeartbeatRequest>(),
                  Refuse(reason, entity, "so says the coordinator"));
  }

  JoinedWorker joined_;
  absl::optional<Outbox::SendItem> push_;
};

TEST_F(WorkerDrainTest, OneThatHasNotJoinedLeavesAtOnce) {
  driver().Drain();
  EXPECT_TRUE(driver().exited);
  EXPECT_TRUE(driver().exit_status.ok());
}

TEST_F(WorkerDrainTest, Promise1_ThePushUnderWayIsWaitedFor) {
  TrainToThePush();
  driver().Drain();
  EXPECT_FALSE(driver().TakeSend<v1::HeartbeatRequest>().has_value());
  EXPECT_EQ(joined_.core().waiting_for(),
            "ps-0 generation 1.1 to answer a push of worker-3 generation 1.7");
  joined_.AnswerPush(*push_);
  EXPECT_TRUE(joined_.TakeBeat().leaving());
}

TEST_F(WorkerDrainTest, Promise1_APushThatSomebodyElseMadeIsLeftToOthers) {
  TrainToThePush();
  driver().Drain();
  v1::PushReply reply = joined_.PushReplyTo(*push_);
  reply.mutable_blocks(0)->set_result(v1::PushedBlock::ALREADY_APPLIED);
  driver().Reply(*push_, reply);
  EXPECT_FALSE(driver().exited);
  EXPECT_TRUE(driver().HasNote("another process pushes as this session"));
  const auto sent = driver().TakeSend<v1::HeartbeatRequest>();
  ASSERT_TRUE(sent.has_value());
  const auto& beat = static_cast<const v1::HeartbeatRequest&>(*sent->head);
  EXPECT_TRUE(beat.leaving());
  ASSERT_EQ(beat.cut().remaining_size(), 1);
  EXPECT_EQ(beat.cut().remaining(0).begin(), 0u);
  driver().Fail(*sent, Refuse(v1::Refusal::FENCED, "worker-3", "it has left"));
  EXPECT_TRUE(driver().exit_status.ok());
}

TEST_F(WorkerDrainTest, NothingNewIsBegun) {
  TrainToThePush();
  driver().Drain();
  joined_.AnswerPush(*push_);
  EXPECT_FALSE(joined_.TakePush().has_value());
  EXPECT_FALSE(joined_.TakePull().has_value());
  EXPECT_FALSE(driver().TakeIo<v1::ComputeGradient>().has_value());
}

TEST_F(WorkerDrainTest, WhatIsComputedIsDropped) {
  joined_.Join();
  joined_.GivePortion(1, 0, 16);
  joined_.AnswerPull(*joined_.TakePull(), 5);
  const auto compute = driver().TakeIo<v1::ComputeGradient>();
  driver().Drain();
  joined_.AnswerCompute(*compute);
  EXPECT_FALSE(joined_.TakePush().has_value());
  EXPECT_EQ(joined_.TakeBeat().cut().remaining(0).begin(), 0u);
}

TEST_F(WorkerDrainTest, Promise1_ItSaysHowFarItsInputIsUsed) {
  TrainToThePush();
  driver().Drain();
  joined_.AnswerPush(*push_);
  const v1::WorkerCut cut = joined_.TakeBeat().cut();
  EXPECT_EQ(cut.last_portion(), 1u);
  ASSERT_EQ(cut.remaining_size(), 1);
  EXPECT_EQ(cut.remaining(0).begin(), 2u);
  EXPECT_EQ(cut.remaining(0).end(), 16u);
}

TEST_F(WorkerDrainTest, ItIsGoneWhenTheCoordinatorKnows) {
  TrainToThePush();
  driver().Drain();
  joined_.AnswerPush(*push_);
  EXPECT_FALSE(driver().exited);
  RefuseBeat(v1::Refusal::FENCED, "worker-3");
  EXPECT_TRUE(driver().exited);
  EXPECT_TRUE(driver().exit_status.ok());
}

TEST_F(WorkerDrainTest, AnAnswerThatWasLostIsAskedForAgain) {
  TrainToThePush();
  driver().Drain();
  joined_.AnswerPush(*push_);
  driver().Fail(*driver().TakeSend<v1::HeartbeatRequest>(),
                absl::DeadlineExceededError("lost"));
  driver().Advance(absl::Milliseconds(200));
  RefuseBeat(v1::Refusal::NOT_READY, "session");
  EXPECT_TRUE(driver().exited);
  EXPECT_TRUE(driver().exit_status.ok());
}

}  // namespace
}  // namespace paramd
