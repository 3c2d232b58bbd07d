#include "server/core/worker_clocks.h"

#include "gtest/gtest.h"

#include "server/core/testing/configurations.h"

namespace paramd {
namespace {

using testing::MakeConfiguration;
using testing::Pair;

constexpr absl::Duration kLease = absl::Seconds(10);

Time At(int64_t seconds) {
  return Time::FromNanoseconds(seconds * 1'000'000'000);
}

// Workers 0 to 2.
class WorkerClocksTest : public ::testing::Test {
 protected:
  WorkerClocksTest() {
    configuration_.mutable_server_settings()->set_lease_ms(
        absl::ToInt64Milliseconds(kLease));
    clocks_.Configure(configuration_, At(0));
  }

  static v1::Header HeaderOf(uint32_t worker) {
    v1::Header header;
    header.set_worker(worker);
    *header.mutable_generation() = Pair(1, 10 + worker);
    return header;
  }
  void Hear(uint32_t worker, uint64_t clock, Time now) {
    clocks_.Hear(HeaderOf(worker), clock, now);
  }
  void Tell(uint32_t worker, uint64_t number, bool no_input, Time now) {
    v1::TellClockRequest told;
    *told.mutable_header() = HeaderOf(worker);
    told.set_number(number);
    told.set_no_input(no_input);
    clocks_.Tell(told, now);
  }
  void HearAll(Time now) {
    for (uint32_t worker = 0; worker < 3; ++worker) Hear(worker, 0, now);
  }

  v1::Configuration configuration_ = MakeConfiguration({});
  WorkerClocks clocks_;
};

TEST_F(WorkerClocksTest, TheSlowestHasTheLowestClockTold) {
  Hear(0, 7, At(1));
  Hear(1, 5, At(2));
  Hear(2, 6, At(3));
  const auto slowest = clocks_.slowest(At(3));
  ASSERT_TRUE(slowest.has_value());
  EXPECT_EQ(slowest->worker, 1u);
  EXPECT_EQ(slowest->clock, 5u);
  EXPECT_EQ(slowest->heard, At(2));
}

TEST_F(WorkerClocksTest, AClockNeverFalls) {
  for (uint32_t worker = 0; worker < 3; ++worker) Hear(worker, 5, At(1));
  Hear(1, 3, At(2));
  EXPECT_EQ(clocks_.slowest(At(2))->clock, 5u);
}

TEST_F(WorkerClocksTest, AnotherGenerationIsNotHeard) {
  v1::Header header = HeaderOf(0);
  *header.mutable_generation() = Pair(1, 9);
  clocks_.Hear(header, 100, At(9));
  EXPECT_EQ(clocks_.slowest(At(9))->heard, At(0));
  header = HeaderOf(0);
  header.set_worker(7);
  clocks_.Hear(header, 100, At(9));
  EXPECT_EQ(clocks_.slowest(At(9))->clock, 0u);
}

TEST_F(WorkerClocksTest, ASilentWorkerCountsUntilItsLeaseHasRunOut) {
  Hear(0, 0, At(1));
  Hear(1, 8, At(2));
  Hear(2, 9, At(2));
  EXPECT_EQ(clocks_.next_expiry(At(2)), At(1) + kLease + absl::Nanoseconds(1));
  EXPECT_EQ(clocks_.slowest(At(11))->worker, 0u);
  EXPECT_EQ(clocks_.slowest(At(11) + absl::Nanoseconds(1))->worker, 1u);
  EXPECT_FALSE(clocks_.slowest(At(100)).has_value());
  EXPECT_EQ(clocks_.next_expiry(At(100)), Time::Never());
}

TEST_F(WorkerClocksTest, OneThatIsHeardAgainCountsWithTheClockItTells) {
  Hear(1, 8, At(20));
  Hear(2, 9, At(20));
  EXPECT_EQ(clocks_.slowest(At(20))->worker, 1u);
  Hear(0, 3, At(21));
  EXPECT_EQ(clocks_.slowest(At(21))->worker, 0u);
  EXPECT_EQ(clocks_.slowest(At(21))->clock, 3u);
}

TEST_F(WorkerClocksTest, OneWithoutInputDoesNotCountUntilItHasSome) {
  Hear(0, 2, At(1));
  Hear(1, 8, At(1));
  Hear(2, 9, At(1));
  Tell(0, 1, /*no_input=*/true, At(2));
  EXPECT_EQ(clocks_.slowest(At(2))->worker, 1u);
  Tell(0, 2, /*no_input=*/false, At(3));
  EXPECT_EQ(clocks_.slowest(At(3))->worker, 0u);
  EXPECT_EQ(clocks_.slowest(At(3))->clock, 2u);
}

TEST_F(WorkerClocksTest, ATellThatComesLateSaysNothingOfTheInput) {
  Hear(1, 8, At(1));
  Hear(2, 9, At(1));
  Tell(0, 2, /*no_input=*/false, At(2));
  Tell(0, 1, /*no_input=*/true, At(3));
  EXPECT_EQ(clocks_.slowest(At(3))->worker, 0u);
  EXPECT_EQ(clocks_.slowest(At(3))->heard, At(3));
}

TEST_F(WorkerClocksTest, OneThatLeftTheConfigurationIsForgotten) {
  Hear(1, 8, At(1));
  Hear(2, 9, At(1));
  configuration_.mutable_workers()->DeleteSubrange(0, 1);
  clocks_.Configure(configuration_, At(2));
  EXPECT_EQ(clocks_.slowest(At(2))->worker, 1u);
  configuration_.clear_workers();
  clocks_.Configure(configuration_, At(2));
  EXPECT_FALSE(clocks_.slowest(At(2)).has_value());
}

TEST_F(WorkerClocksTest, ANewSessionCountsFromItsStartClock) {
  for (uint32_t worker = 0; worker < 3; ++worker) Hear(worker, 9, At(1));
  v1::WorkerMember* const member = configuration_.mutable_workers(0);
  *member->mutable_generation() = Pair(1, 20);
  member->set_start_clock(7);
  clocks_.Configure(configuration_, At(5));
  EXPECT_EQ(clocks_.slowest(At(5))->worker, 0u);
  EXPECT_EQ(clocks_.slowest(At(5))->clock, 7u);
  EXPECT_EQ(clocks_.slowest(At(5))->heard, At(5));
}

TEST_F(WorkerClocksTest, ARaisedStartClockRaisesTheClockByAsMuch) {
  Hear(0, 2, At(1));
  Hear(1, 8, At(1));
  Hear(2, 8, At(1));
  configuration_.mutable_workers(0)->set_start_clock(5);
  clocks_.Configure(configuration_, At(2));
  EXPECT_EQ(clocks_.slowest(At(2))->clock, 7u);
  EXPECT_EQ(clocks_.slowest(At(2))->heard, At(1));
  clocks_.Configure(configuration_, At(3));
  EXPECT_EQ(clocks_.slowest(At(3))->clock, 7u) << "told again: no change";
}

TEST_F(WorkerClocksTest, WhoStoodStillForgivesTheSilence) {
  HearAll(At(1));
  clocks_.Forgive(absl::Seconds(30));
  EXPECT_TRUE(clocks_.slowest(At(41)).has_value());
  EXPECT_FALSE(clocks_.slowest(At(42)).has_value());
}

TEST_F(WorkerClocksTest, AllCountWhenListeningBegins) {
  Tell(0, 1, /*no_input=*/true, At(1));
  clocks_.CountAll(At(50));
  EXPECT_EQ(clocks_.slowest(At(60))->worker, 0u);
  EXPECT_EQ(clocks_.slowest(At(60))->heard, At(50));
}

}  // namespace
}  // namespace paramd
