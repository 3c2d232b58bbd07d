#include "server/core/watched_place.h"

#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/testing/shard_bench.h"

namespace paramd {
namespace {

using ::paramd::testing::ShardBench;

class WatchedPlaceTest : public ::testing::Test {
 protected:
  void Keep(CallId call) {
    bench_.Do([&](Turn* turn) { watched_.Keep(call, request_, turn); });
  }
  // Whether the call is answered now.
  bool Answers() {
    bench_.Do([&](Turn* turn) { watched_.Advance(turn); });
    return bench_.out.replies.size() == 1;
  }
  const v1::WatchReply& Said() {
    return static_cast<const v1::WatchReply&>(*bench_.out.replies[0].head);
  }

  using Turn = ShardTurn;
  ShardBench bench_;
  WatchedPlace watched_{bench_.view};
  v1::WatchRequest request_;
};

TEST_F(WatchedPlaceTest, ACallIsAnsweredAfterAWhileOrWhenThereIsNews) {
  bench_.options.incarnation = 7;
  request_.set_wait_ms(100);
  Keep(1);
  EXPECT_FALSE(Answers());
  bench_.now = watched_.next_tick();
  ASSERT_TRUE(Answers());
  EXPECT_EQ(Said().incarnation(), 7u);
  EXPECT_FALSE(Said().leaving());
  EXPECT_EQ(watched_.next_tick(), Time::Never());
  EXPECT_FALSE(Answers()) << "once";
  Keep(2);
  EXPECT_FALSE(Answers());
  bench_.draining = true;
  ASSERT_TRUE(Answers());
  EXPECT_TRUE(Said().leaving());
  // It is known now.
  request_.set_leaving(true);
  Keep(3);
  EXPECT_FALSE(Answers());
}

TEST_F(WatchedPlaceTest, OneCallIsKept) {
  request_.set_wait_ms(100);
  Keep(1);
  Keep(2);
  ASSERT_EQ(bench_.out.replies.size(), 1u);
  EXPECT_EQ(bench_.out.replies[0].call, 1u);
}

TEST_F(WatchedPlaceTest, IsWatchedUntilNobodyHasAskedForAWhile) {
  EXPECT_FALSE(watched_.IsWatched(bench_.now));
  Keep(1);
  EXPECT_TRUE(watched_.IsWatched(bench_.now));
  bench_.now = watched_.watched_until();
  EXPECT_FALSE(watched_.IsWatched(bench_.now));
}

TEST_F(WatchedPlaceTest, WhatIsMeantForAnotherProcessIsRefused) {
  bench_.options.incarnation = 7;
  EXPECT_TRUE(watched_.Check(request_).ok());
  request_.mutable_header()->set_server_incarnation(7);
  EXPECT_TRUE(watched_.Check(request_).ok());
  request_.mutable_header()->set_server_incarnation(8);
  EXPECT_EQ(RefusalOf(watched_.Check(request_)).reason(),
            v1::Refusal::NOT_READY);
}

}  // namespace
}  // namespace paramd
