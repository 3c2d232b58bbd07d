#include "server/core/pull_gate.h"

#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/testing/configurations.h"

namespace paramd {
namespace {

using testing::MakeConfiguration;
using testing::Pair;

Time At(int64_t seconds) {
  return Time::FromNanoseconds(seconds * 1'000'000'000);
}

// Workers 0 to 2, bound 2.
class PullGateTest : public ::testing::Test {
 protected:
  PullGateTest() {
    SetMode(v1::Consistency::BOUNDED, 2);
    gate_.Wake(At(0));
    gate_.Configure(configuration_, At(0));
  }

  void SetMode(v1::Consistency::Mode mode, uint64_t bound) {
    configuration_.mutable_consistency()->set_mode(mode);
    configuration_.mutable_consistency()->set_bound(bound);
  }
  static v1::Header HeaderOf(uint32_t worker) {
    v1::Header header;
    header.set_worker(worker);
    *header.mutable_generation() = Pair(1, 10 + worker);
    return header;
  }
  static v1::PullRequest PullOf(uint32_t worker, uint64_t clock) {
    v1::PullRequest pull;
    *pull.mutable_header() = HeaderOf(worker);
    pull.set_clock(clock);
    return pull;
  }
  void Hear(uint32_t worker, uint64_t clock, Time now) {
    gate_.Wake(now);
    gate_.Hear(HeaderOf(worker), clock, now);
  }
  std::vector<PullGate::Parked> TakeFree(Time now) {
    return gate_.TakeFree([](const auto&) { return false; }, now);
  }

  v1::Configuration configuration_ = MakeConfiguration({});
  PullGate gate_{"ps-0"};
};

TEST_F(PullGateTest, AReaderMayBeAsFarAheadAsTheBoundAndNoFurther) {
  EXPECT_FALSE(gate_.MustWait(PullOf(1, 2), At(0)));
  EXPECT_TRUE(gate_.MustWait(PullOf(1, 3), At(0)));
  Hear(0, 1, At(1));
  Hear(1, 3, At(1));
  EXPECT_TRUE(gate_.MustWait(PullOf(1, 3), At(1))) << "worker-2 is at 0";
  Hear(2, 1, At(1));
  EXPECT_FALSE(gate_.MustWait(PullOf(1, 3), At(1)));
}

TEST_F(PullGateTest, APullWithoutAClockNeverWaits) {
  v1::PullRequest pull = PullOf(1, 100);
  EXPECT_TRUE(gate_.MustWait(pull, At(0)));
  pull.clear_clock();
  EXPECT_FALSE(gate_.MustWait(pull, At(0)));
}

TEST_F(PullGateTest, InTheOtherModesNobodyWaits) {
  for (const auto mode : {v1::Consistency::ASYNC, v1::Consistency::SYNC,
                          v1::Consistency::MODE_UNSPECIFIED}) {
    SetMode(mode, 0);
    gate_.Configure(configuration_, At(0));
    EXPECT_FALSE(gate_.Watches(PullOf(1, 100)));
    EXPECT_FALSE(gate_.MustWait(PullOf(1, 100), At(0)));
  }
}

TEST_F(PullGateTest, WithNobodyThatCountsNobodyWaits) {
  configuration_.clear_workers();
  gate_.Configure(configuration_, At(0));
  EXPECT_FALSE(gate_.MustWait(PullOf(1, 100), At(0)));
}

TEST_F(PullGateTest, AllPullsOfAStepAreFreeWhenTheLowestClockRises) {
  for (CallId call = 1; call <= 3; ++call) {
    ASSERT_TRUE(gate_.Park(call, PullOf(1, 3), At(1)).ok());
  }
  Hear(1, 3, At(2));
  Hear(0, 1, At(2));
  EXPECT_TRUE(TakeFree(At(2)).empty());
  Hear(2, 1, At(2));
  const auto taken = TakeFree(At(2));
  ASSERT_EQ(taken.size(), 3u);
  for (CallId call = 1; call <= 3; ++call) {
    EXPECT_EQ(taken[call - 1].call, call);
  }
  EXPECT_EQ(gate_.next_tick(), Time::Never());
}

TEST_F(PullGateTest, ALargerBoundFreesAndSoDoesAnotherMode) {
  ASSERT_TRUE(gate_.Park(1, PullOf(1, 3), At(1)).ok());
  ASSERT_TRUE(gate_.Park(2, PullOf(1, 9), At(1)).ok());
  SetMode(v1::Consistency::BOUNDED, 3);
  gate_.Configure(configuration_, At(1));
  ASSERT_EQ(TakeFree(At(1)).size(), 1u);
  SetMode(v1::Consistency::ASYNC, 0);
  gate_.Configure(configuration_, At(1));
  EXPECT_EQ(TakeFree(At(1)).size(), 1u);
}

TEST_F(PullGateTest, WhatWouldBeRefusedDoesNotWait) {
  ASSERT_TRUE(gate_.Park(1, PullOf(1, 3), At(1)).ok());
  ASSERT_TRUE(gate_.Park(2, PullOf(2, 3), At(1)).ok());
  const auto taken = gate_.TakeFree(
      [](const v1::PullRequest& pull) { return pull.header().worker() == 2; },
      At(1));
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].call, 2u);
}

TEST_F(PullGateTest, Promise4_AWaitEndsAndNamesWhomItWasFor) {
  Hear(0, 1, At(1));
  Hear(2, 7, At(1));
  Hear(1, 7, At(1));
  ASSERT_TRUE(gate_.Park(1, PullOf(1, 7), At(1)).ok());
  EXPECT_EQ(gate_.next_tick(), At(6));
  Hear(0, 2, At(3));
  EXPECT_TRUE(gate_.TakeLate(At(5)).empty());
  const auto late = gate_.TakeLate(At(6));
  ASSERT_EQ(late.size(), 1u);
  const absl::Status why = gate_.WhyWait(late[0].request, At(6));
  EXPECT_EQ(RefusalOf(why).reason(), v1::Refusal::WAIT);
  EXPECT_EQ(RefusalOf(why).entity(), "worker-1 generation 1.11");
  EXPECT_EQ(RefusalOf(why).waiting_for(), "worker-0 generation 1.10");
  EXPECT_EQ(why.message(),
            "worker-1 generation 1.11 is at clock 7, more than 2 ahead of "
            "worker-0 generation 1.10, which is at clock 2 and was heard 3s "
            "ago by ps-0");
}

TEST_F(PullGateTest, ASilentWorkerIsNotWaitedForBeyondItsLease) {
  ASSERT_TRUE(gate_.Park(1, PullOf(1, 3), At(0)).ok());
  for (int second = 1; second <= 10; ++second) {
    Hear(1, 3, At(second));
    Hear(2, 3, At(second));
    EXPECT_TRUE(TakeFree(At(second)).empty());
  }
  const Time expiry = At(10) + absl::Nanoseconds(1);
  EXPECT_EQ(TakeFree(expiry).size(), 1u);
}

TEST_F(PullGateTest, TheTickComesWhenAWorkerStopsToCount) {
  PullGate gate("ps-0");
  configuration_.mutable_server_settings()->set_lease_ms(2000);
  gate.Wake(At(0));
  gate.Configure(configuration_, At(0));
  ASSERT_TRUE(gate.Park(1, PullOf(1, 3), At(0)).ok());
  EXPECT_EQ(gate.next_tick(), At(2) + absl::Nanoseconds(1));
}

TEST_F(PullGateTest, WhereTheServerStoodStillNobodyWasSilent) {
  ASSERT_TRUE(gate_.Park(1, PullOf(1, 3), At(1)).ok());
  gate_.Wake(At(60));
  EXPECT_TRUE(TakeFree(At(60)).empty());
}

TEST_F(PullGateTest, Promise8_OverTheLimitAPullIsRefusedAndNotKept) {
  const size_t most = 3 * PullGate::kMostParkedEach;
  for (size_t call = 1; call <= most; ++call) {
    ASSERT_TRUE(gate_.Park(call, PullOf(1, 3), At(1)).ok());
  }
  const absl::Status refused = gate_.Park(most + 1, PullOf(1, 3), At(1));
  EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::OVER_LIMIT);
  EXPECT_GT(RefusalOf(refused).retry_after_ms(), 0u);
  EXPECT_EQ(refused.message(),
            "192 pulls wait for slower workers at ps-0, which is the limit");
  EXPECT_EQ(gate_.TakeLate(At(6)).size(), most);
}

TEST_F(PullGateTest, WaitsAreCountedAndMeasured) {
  ASSERT_TRUE(gate_.Park(1, PullOf(1, 3), At(1)).ok());
  ASSERT_TRUE(gate_.Park(2, PullOf(1, 9), At(2)).ok());
  Hear(0, 1, At(3));
  Hear(1, 3, At(3));
  Hear(2, 1, At(3));
  ASSERT_EQ(TakeFree(At(3)).size(), 1u);
  gate_.Wake(At(4));
  v1::ServerStats stats;
  gate_.FillStatus(&stats);
  EXPECT_EQ(stats.pulls_parked(), 2u);
  EXPECT_EQ(stats.pulls_waiting(), 1u);
  EXPECT_EQ(stats.pull_wait_seconds(), 2 + 2);
}

TEST_F(PullGateTest, PeopleAreToldWhomPullsWaitFor) {
  ASSERT_TRUE(gate_.Park(1, PullOf(1, 3), At(1)).ok());
  EXPECT_EQ(gate_.overdue(At(2), absl::Seconds(3)), "");
  EXPECT_EQ(gate_.overdue(At(5), absl::Seconds(3)),
            "worker-0 generation 1.10, the slowest: others may be 2 pushes "
            "ahead of it at most");
}

}  // namespace
}  // namespace paramd
