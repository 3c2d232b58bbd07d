#include "server/core/worker_calls.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/testing/configurations.h"
#include "server/core/testing/shard_bench.h"

namespace paramd {
namespace {

using ::paramd::testing::Numbers;
using ::paramd::testing::Pair;
using ::paramd::testing::Payload;
using ::paramd::testing::ShardBench;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class WorkerCallsTest : public ::testing::Test {
 protected:
  WorkerCallsTest() {
    bench_.data.lost.Begin(0, bench_.generation);
    calls_.BeginLife();
    Configure();
  }

  void Configure() {
    calls_.Wake(bench_.now);
    calls_.OnConfiguration(bench_.now);
  }
  void Push(const v1::PushRequest& push) {
    bench_.Do([&](ShardTurn* turn) {
      calls_.OnPush(ShardBench::From(1, 7, push, Payload({1, 2})), push, turn);
    });
  }
  void Pull(uint64_t clock) {
    v1::PullRequest pull;
    *pull.mutable_header() = ShardBench::PushOf(1).header();
    pull.set_encoding(v1::FP32);
    pull.set_clock(clock);
    pull.add_blocks();
    bench_.Do([&](ShardTurn* turn) {
      calls_.OnPull(ShardBench::From(1, 8, pull), pull, turn);
    });
  }
  // Of the one call that was answered.
  const Outbox::ReplyItem& answer() const {
    EXPECT_EQ(bench_.out.replies.size(), 1u);
    return bench_.out.replies.at(0);
  }
  const v1::PushReply& pushed() const {
    EXPECT_TRUE(answer().status.ok()) << answer().status;
    return static_cast<const v1::PushReply&>(*answer().head);
  }

  ShardBench bench_;
  WorkerCalls calls_{bench_.options, bench_.view};
};

TEST_F(WorkerCallsTest, APushIsAppliedAndSaysByWhom) {
  Push(ShardBench::PushOf(1));
  EXPECT_EQ(pushed().blocks(0).result(), v1::PushedBlock::APPLIED);
  EXPECT_EQ(pushed().server_generation(), bench_.generation);
  EXPECT_EQ(pushed().incarnation(), bench_.options.incarnation);
  EXPECT_THAT(bench_.Values(), ElementsAre(-1, -2));
}

TEST_F(WorkerCallsTest, Promise1_ARefusedPushChangesNothing) {
  bench_.checks.answer = Refuse(v1::Refusal::FENCED, "worker-1", "fenced");
  Push(ShardBench::PushOf(1));
  const v1::Refusal refusal = RefusalOf(answer().status);
  EXPECT_EQ(refusal.reason(), v1::Refusal::FENCED);
  EXPECT_EQ(refusal.term(), bench_.term);
  EXPECT_EQ(refusal.version(), bench_.configuration.version());
  EXPECT_THAT(bench_.Values(), ElementsAre(0, 0));
}

TEST_F(WorkerCallsTest, WeightsComeBackWithAPushWithItInThem) {
  v1::PushRequest push = ShardBench::PushOf(1);
  push.mutable_pull()->set_encoding(v1::FP32);
  Push(push);
  EXPECT_TRUE(pushed().has_pulled());
  EXPECT_THAT(Numbers(answer().payload), ElementsAre(-1, -2));
}

TEST_F(WorkerCallsTest, NobodyReadsBeforeAllServersAreFilled) {
  bench_.configuration.set_state(v1::STARTING);
  Pull(0);
  EXPECT_EQ(RefusalOf(answer().status).reason(), v1::Refusal::NOT_READY);
}

TEST_F(WorkerCallsTest, Promise6_AReaderTooFarAheadWaitsForTheSlowest) {
  bench_.configuration.mutable_consistency()->set_mode(
      v1::Consistency::BOUNDED);
  bench_.configuration.mutable_consistency()->set_bound(1);
  Configure();
  Pull(1);
  EXPECT_TRUE(answer().status.ok());
  Pull(2);
  EXPECT_TRUE(bench_.out.replies.empty());
  bench_.now = calls_.next_tick();
  calls_.Wake(bench_.now);
  bench_.Do([&](ShardTurn* turn) { calls_.Advance(turn); });
  EXPECT_EQ(RefusalOf(answer().status).reason(), v1::Refusal::WAIT);
}

TEST_F(WorkerCallsTest, AClockLetsThoseGoWhoWaitedForIt) {
  bench_.configuration.mutable_consistency()->set_mode(
      v1::Consistency::BOUNDED);
  bench_.configuration.mutable_consistency()->set_bound(1);
  Configure();
  Pull(2);
  for (const uint32_t worker : {0, 2}) {
    v1::TellClockRequest told;
    told.mutable_header()->set_worker(worker);
    *told.mutable_header()->mutable_generation() = Pair(1, 10 + worker);
    told.set_clock(1);
    told.set_number(1);
    bench_.Do([&](ShardTurn* turn) {
      calls_.OnTellClock(ShardBench::From(worker, 9, told), told, turn);
    });
    EXPECT_TRUE(answer().status.ok());
  }
  bench_.Do([&](ShardTurn* turn) { calls_.Advance(turn); });
  EXPECT_EQ(answer().call, 8u);
  EXPECT_TRUE(answer().status.ok());
}

TEST_F(WorkerCallsTest, WhatASessionLostWithAnEarlierLifeIsSaid) {
  bench_.generation = Pair(1, 20);
  bench_.data.lost.Begin(0, bench_.generation);
  calls_.BeginLife();
  v1::PushRequest push = ShardBench::PushOf(6);
  push.set_acknowledged(5);
  Push(push);
  EXPECT_TRUE(answer().status.ok());
  ASSERT_EQ(bench_.out.notes.size(), 1u);
  EXPECT_THAT(bench_.out.notes[0].sentence,
              HasSubstr("lost: pushes 1 to 5 of worker-1"));
  EXPECT_EQ(bench_.data.lost.total(), 5u);
}

TEST_F(WorkerCallsTest, Promise9_APushKnowsOfNoLaterOne) {
  bench_.generation = Pair(1, 20);
  bench_.data.lost.Begin(0, bench_.generation);
  calls_.BeginLife();
  v1::PushRequest push = ShardBench::PushOf(6);
  push.set_acknowledged(6);
  Push(push);
  EXPECT_EQ(RefusalOf(answer().status).reason(), v1::Refusal::INVALID);
  EXPECT_THAT(std::string(answer().status.message()),
              HasSubstr("says that push 6 was acknowledged before it"));
  EXPECT_THAT(bench_.Values(), ElementsAre(0, 0));
  EXPECT_EQ(bench_.data.lost.total(), 0u);
}

TEST_F(WorkerCallsTest, ANewCoordinatorIsToldHowFarSessionsCame) {
  v1::RecallReply reply;
  Push(ShardBench::PushOf(1));
  Push(ShardBench::PushOf(2));
  calls_.FillRecalled(&reply);
  EXPECT_TRUE(reply.filled());
  ASSERT_EQ(reply.sessions_size(), 1);
  EXPECT_EQ(reply.sessions(0).sequence(), 2u);
  bench_.fill_state = FillState::kFilling;
  v1::RecallReply filling;
  calls_.FillRecalled(&filling);
  EXPECT_FALSE(filling.filled());
}

}  // namespace
}  // namespace paramd
