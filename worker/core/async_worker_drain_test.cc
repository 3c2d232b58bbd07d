// A worker that is told to stop.
#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "worker/core/async_worker.h"
#include "worker/core/testing/joined_worker.h"

namespace paramd {
namespace {

using testing::CoreDriver;
using testing::JoinedWorker;
using testing::WorkerOptions;

class AsyncWorkerDrainTest : public ::testing::Test {
 protected:
  AsyncWorkerDrainTest() : joined_(WorkerOptions()) {}
  CoreDriver& driver() { return joined_.driver(); }

  // Push 1 of portion 1 is under way, the gradient of step 2 is computed.
  void TrainToTheSecondStep() {
    joined_.Join();
    joined_.GivePortion(1, 0, 16);
    joined_.AnswerPull(*joined_.TakePull(), 5);
    joined_.AnswerPull(*joined_.TakePull(), 6);
    joined_.AnswerCompute(*driver().TakeIo<v1::ComputeGradient>());
    push_ = joined_.TakePush();
    ASSERT_TRUE(push_.has_value());
    compute_ = driver().TakeIo<v1::ComputeGradient>();
    ASSERT_TRUE(compute_.has_value());
    driver().TakeSend<v1::HeartbeatRequest>();  // The first one stays open.
  }
  void RefuseBeat(v1::Refusal::Reason reason, const std::string& entity) {
    driver().Fail(*driver().TakeSend<v1::HeartbeatRequest>(),
                  Refuse(reason, entity, "so says the coordinator"));
  }

  JoinedWorker joined_;
  absl::optional<Outbox::SendItem> push_;
  absl::optional<std::pair<IoId, v1::ComputeGradient>> compute_;
};

TEST_F(AsyncWorkerDrainTest, OneThatHasNotJoinedLeavesAtOnce) {
  driver().Drain();
  EXPECT_TRUE(driver().exited);
  EXPECT_TRUE(driver().exit_status.ok());
}

TEST_F(AsyncWorkerDrainTest, Promise1_ThePushUnderWayIsWaitedFor) {
  TrainToTheSecondStep();
  driver().Drain();
  EXPECT_FALSE(driver().TakeSend<v1::HeartbeatRequest>().has_value());
  EXPECT_EQ(joined_.core().waiting_for(),
            "ps-0 generation 1.1 to answer a push of worker-3 generation 1.7");
  joined_.AnswerPush(*push_);
  EXPECT_TRUE(joined_.TakeBeat().leaving());
}

TEST_F(AsyncWorkerDrainTest, Promise1_APushThatSomebodyElseMadeIsLeftToOthers) {
  TrainToTheSecondStep();
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

TEST_F(AsyncWorkerDrainTest, NothingNewIsBegun) {
  TrainToTheSecondStep();
  driver().Drain();
  joined_.AnswerCompute(*compute_);
  joined_.AnswerPush(*push_);
  EXPECT_FALSE(joined_.TakePush().has_value());
  EXPECT_FALSE(joined_.TakePull().has_value());
  EXPECT_FALSE(driver().TakeIo<v1::ComputeGradient>().has_value());
}

TEST_F(AsyncWorkerDrainTest, Promise1_ItSaysHowFarItsInputIsUsed) {
  TrainToTheSecondStep();
  driver().Drain();
  joined_.AnswerPush(*push_);
  const v1::WorkerCut cut = joined_.TakeBeat().cut();
  EXPECT_EQ(cut.last_portion(), 1u);
  ASSERT_EQ(cut.remaining_size(), 1);
  EXPECT_EQ(cut.remaining(0).begin(), 2u);  // Step 2 was dropped.
  EXPECT_EQ(cut.remaining(0).end(), 16u);
}

TEST_F(AsyncWorkerDrainTest, ItIsGoneWhenTheCoordinatorKnows) {
  TrainToTheSecondStep();
  driver().Drain();
  joined_.AnswerPush(*push_);
  EXPECT_FALSE(driver().exited);
  RefuseBeat(v1::Refusal::FENCED, "worker-3");
  EXPECT_TRUE(driver().exited);
  EXPECT_TRUE(driver().exit_status.ok());
}

TEST_F(AsyncWorkerDrainTest, AnAnswerThatWasLostIsAskedForAgain) {
  TrainToTheSecondStep();
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
