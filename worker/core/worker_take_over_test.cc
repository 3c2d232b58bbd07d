// A worker whose coordinator is followed by another one.
#include <cstdint>

#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "worker/core/testing/joined_worker.h"
#include "worker/core/worker.h"

namespace paramd {
namespace {

using testing::CoreDriver;
using testing::JoinedWorker;
using testing::Pair;
using testing::WorkerOptions;

class WorkerTakeOverTest : public ::testing::Test {
 protected:
  WorkerTakeOverTest() : joined_(WorkerOptions()) { joined_.Join(); }
  CoreDriver& driver() { return joined_.driver(); }
  absl::optional<Outbox::SendItem> Portion() {
    return driver().TakeSend<v1::PortionRequest>();
  }
  static v1::HeartbeatReply Ask(uint64_t term) {
    v1::HeartbeatReply ask;
    ask.set_term(term);
    ask.set_tell_held(true);
    ask.set_state(v1::RUNNING);
    return ask;
  }
  // What follows when the coordinator of this term has heard it.
  v1::HeartbeatReply Told(uint64_t term) {
    v1::HeartbeatReply told;
    told.set_term(term);
    told.set_state(v1::RUNNING);
    *told.mutable_configuration() = joined_.MakeJoinReply().configuration();
    *told.mutable_configuration()->mutable_version() = Pair(term, 1);
    return told;
  }
  static v1::PortionReply Given(uint64_t term, uint64_t id, uint64_t begin) {
    v1::PortionReply reply;
    reply.set_term(term);
    reply.mutable_portion()->set_id(id);
    reply.mutable_portion()->set_epoch(1);
    reply.mutable_portion()->set_begin(begin);
    reply.mutable_portion()->set_end(begin + 16);
    return reply;
  }

  JoinedWorker joined_;
};

TEST_F(WorkerTakeOverTest, AskedItTellsWhatItHolds) {
  joined_.GivePortion(7, 0, 16);
  joined_.AnswerPull(*joined_.TakePull(), 5);
  joined_.AnswerCompute(*driver().TakeIo<v1::ComputeGradient>());
  joined_.AnswerPush(*joined_.TakePush());
  EXPECT_FALSE(joined_.TakeBeat().has_held());
  joined_.AnswerBeat(Ask(2));
  const v1::HeartbeatRequest beat = joined_.TakeBeat();
  EXPECT_EQ(beat.header().generation(), Pair(1, 7)) << "the session goes on";
  ASSERT_TRUE(beat.has_held());
  EXPECT_EQ(beat.held().term(), 2u);
  EXPECT_EQ(beat.held().last_portion(), 7u);
  EXPECT_EQ(beat.held().answered(), 1u);
  ASSERT_EQ(beat.held().parts_size(), 1);
  EXPECT_EQ(beat.held().parts(0).portion().end(), 16u);
  EXPECT_EQ(beat.held().parts(0).used_to(), 2u);
  joined_.AnswerBeat(Told(2));
  EXPECT_FALSE(joined_.TakeBeat().has_held());
}

TEST_F(WorkerTakeOverTest, Promise1_AskedItTakesNoPortionOfAnEarlierOne) {
  const auto open = Portion();
  joined_.AnswerBeat(Ask(2));
  driver().Reply(*open, Given(1, 7, 0));
  const v1::HeartbeatRequest beat = joined_.TakeBeat();
  EXPECT_EQ(beat.held().parts_size(), 0);
  EXPECT_EQ(beat.held().answered(), 0u);
  EXPECT_FALSE(Portion().has_value()) << "it has not been heard yet";
  EXPECT_TRUE(driver().ios.empty());

  joined_.AnswerBeat(Told(2));
  const auto again = Portion();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(static_cast<const v1::PortionRequest&>(*again->head).number(), 1u);
  driver().Reply(*again, Given(1, 7, 0));  // By who was there before.
  EXPECT_TRUE(driver().ios.empty());
  driver().Advance(absl::Milliseconds(200));
  const auto third = Portion();
  ASSERT_TRUE(third.has_value());
  driver().Reply(*third, Given(2, 8, 16));
  EXPECT_TRUE(driver().TakeIo<v1::FetchPortion>().has_value());
}

TEST_F(WorkerTakeOverTest, Promise1_WhatAnEarlierCoordinatorSaysIsNoNews) {
  joined_.AnswerBeat(Ask(3));
  v1::HeartbeatReply earlier;
  earlier.set_term(2);
  earlier.set_stop(true);
  joined_.AnswerBeat(earlier);
  driver().Advance(absl::Milliseconds(200));
  const v1::HeartbeatRequest beat = joined_.TakeBeat();
  EXPECT_FALSE(beat.stop());
  EXPECT_EQ(beat.held().term(), 3u);
}

TEST_F(WorkerTakeOverTest, ThePushUnderWayGoesOn) {
  joined_.GivePortion(7, 0, 16);
  joined_.AnswerPull(*joined_.TakePull(), 5);
  joined_.AnswerCompute(*driver().TakeIo<v1::ComputeGradient>());
  const auto push = joined_.TakePush();
  ASSERT_TRUE(push.has_value());
  EXPECT_EQ(JoinedWorker::PushOf(*push).header().term(), 1u);
  driver().Fail(*push, RefuseForNow(v1::Refusal::NOT_READY, "coordinator",
                                    absl::Milliseconds(20), "taken over"));
  joined_.AnswerBeat(Ask(2));
  joined_.AnswerBeat(Told(2));
  driver().Advance(absl::Milliseconds(100));
  const auto again = joined_.TakePush();
  ASSERT_TRUE(again.has_value());
  const v1::Header& header = JoinedWorker::PushOf(*again).header();
  EXPECT_EQ(header.term(), 2u);
  EXPECT_EQ(header.generation(), Pair(1, 7));
  EXPECT_EQ(header.sequence(), 1u);
}

}  // namespace
}  // namespace paramd
