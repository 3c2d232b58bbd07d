// What a worker says of its clock.
#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "worker/core/testing/joined_worker.h"
#include "worker/core/worker.h"

namespace paramd {
namespace {

using testing::JoinedWorker;
using testing::Pair;

class WorkerClockTest : public ::testing::Test {
 protected:
  // With a start clock of 40.
  void Join(v1::Consistency::Mode mode) {
    v1::JoinReply reply = joined_.MakeJoinReply();
    configuration_ = reply.configuration();
    configuration_.mutable_consistency()->set_mode(mode);
    v1::WorkerMember* const self = configuration_.add_workers();
    self->set_index(3);
    *self->mutable_generation() = reply.generation();
    self->set_start_clock(40);
    *reply.mutable_configuration() = configuration_;
    reply.set_start_clock(40);
    driver().Reply(*driver().TakeSend<v1::JoinRequest>(), reply);
  }
  void Reconfigure() {
    auto* version = configuration_.mutable_version();
    version->set_counter(version->counter() + 1);
    v1::HeartbeatReply news;
    *news.mutable_configuration() = configuration_;
    news.set_state(v1::RUNNING);
    joined_.AnswerBeat(news);
  }
  void TrainOneBatch() {
    joined_.AnswerPull(*joined_.TakePull(), 5);
    joined_.AnswerCompute(*driver().TakeIo<v1::ComputeGradient>());
    const auto push = joined_.TakePush();
    EXPECT_EQ(joined_.PushOf(*push).clock(), 40u);
    joined_.AnswerPush(*push);
  }
  absl::optional<v1::TellClockRequest> Told() {
    const auto sent = driver().TakeSend<v1::TellClockRequest>();
    if (!sent.has_value()) return absl::nullopt;
    return static_cast<const v1::TellClockRequest&>(*sent->head);
  }
  testing::CoreDriver& driver() { return joined_.driver(); }

  JoinedWorker joined_{testing::WorkerOptions()};
  v1::Configuration configuration_;
};

TEST_F(WorkerClockTest, TheClockIsTheStartClockAndThePushes) {
  Join(v1::Consistency::BOUNDED);
  const auto first = Told();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->clock(), 40u);
  EXPECT_EQ(first->header().generation(), Pair(1, 7));
  EXPECT_EQ(joined_.TakeBeat().clock(), 40u);
  joined_.GivePortion(1, 0, 16);
  TrainOneBatch();
  EXPECT_EQ(joined_.PullOf(*joined_.TakePull()).clock(), 41u);
  driver().Advance(absl::Seconds(1));
  const auto second = Told();
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->clock(), 41u);
  EXPECT_EQ(second->number(), 2u);
}

TEST_F(WorkerClockTest, WhoHasNothingToDoSaysSoAtOnce) {
  Join(v1::Consistency::BOUNDED);
  EXPECT_FALSE(Told()->no_input()) << "it has asked for some";
  v1::PortionReply none;
  none.set_term(1);
  driver().Reply(*driver().TakeSend<v1::PortionRequest>(), none);
  EXPECT_TRUE(Told()->no_input());
  driver().Advance(absl::Milliseconds(50));
  EXPECT_FALSE(Told().has_value());
  joined_.GivePortion(1, 0, 2);
  EXPECT_FALSE(Told()->no_input());
  joined_.GiveNoMore();
  EXPECT_FALSE(Told().has_value()) << "a batch is left";
  TrainOneBatch();
  EXPECT_TRUE(Told()->no_input());
}

TEST_F(WorkerClockTest, InAsyncModeClocksAreNotTold) {
  Join(v1::Consistency::ASYNC);
  joined_.GivePortion(1, 0, 16);
  TrainOneBatch();
  EXPECT_FALSE(Told().has_value());
  joined_.KeepBeating(absl::Seconds(5));
  EXPECT_FALSE(Told().has_value());
}

TEST_F(WorkerClockTest, AModeThatChangesIsFollowedAtOnce) {
  Join(v1::Consistency::ASYNC);
  configuration_.mutable_consistency()->set_mode(v1::Consistency::BOUNDED);
  Reconfigure();
  EXPECT_TRUE(Told().has_value());
  configuration_.mutable_consistency()->set_mode(v1::Consistency::ASYNC);
  Reconfigure();
  joined_.KeepBeating(absl::Seconds(3));
  EXPECT_FALSE(Told().has_value());
}

TEST_F(WorkerClockTest, ARaisedStartClockRaisesTheClock) {
  Join(v1::Consistency::BOUNDED);
  Told();
  configuration_.mutable_workers(0)->set_start_clock(50);
  Reconfigure();
  EXPECT_EQ(joined_.TakeBeat().clock(), 50u);
  driver().Advance(absl::Seconds(1));
  EXPECT_EQ(Told()->clock(), 50u);
  configuration_.mutable_workers(0)->set_start_clock(45);
  Reconfigure();
  EXPECT_EQ(joined_.TakeBeat().clock(), 50u) << "it never falls";
}

}  // namespace
}  // namespace paramd
