#include "process/trace/clock_offset.h"

#include "gtest/gtest.h"

#include "base/random.h"

namespace paramd {
namespace {

Time At(int64_t ns) { return Time::FromNanoseconds(ns); }

TEST(ClockOffsetTest, TheMiddleOfTheRoundTripIsWhenItAnswered) {
  ClockOffset clock;
  EXPECT_FALSE(clock.is_known());
  clock.Add(At(1000), At(1400), 5200);
  EXPECT_TRUE(clock.is_known());
  EXPECT_EQ(clock.offset(), absl::Nanoseconds(4000));
  EXPECT_EQ(clock.error(), absl::Nanoseconds(200));
  EXPECT_EQ(clock.ToOurs(5200), At(1200));
}

TEST(ClockOffsetTest, TheShortestRoundTripCounts) {
  ClockOffset clock;
  clock.Add(At(0), At(1000), 10);
  clock.Add(At(2000), At(2100), 50);
  clock.Add(At(3000), At(9000), 999999);
  EXPECT_EQ(clock.offset(), absl::Nanoseconds(50 - 2050));
  EXPECT_EQ(clock.error(), absl::Nanoseconds(50));
  EXPECT_EQ(clock.calls(), 3);
}

TEST(ClockOffsetTest, TheirClockMayBeBehindOurs) {
  ClockOffset clock;
  clock.Add(At(1'000'000'000'000), At(1'000'000'000'100), -5);
  EXPECT_EQ(clock.ToOurs(-5), At(1'000'000'000'050));
}

TEST(ClockOffsetTest, WhatWasReceivedBeforeItWasSentIsIgnored) {
  ClockOffset clock;
  clock.Add(At(1000), At(900), 5);
  EXPECT_FALSE(clock.is_known());
  EXPECT_EQ(clock.offset(), absl::ZeroDuration());
}

// However long there and back take, each within the round trip.
TEST(ClockOffsetTest, ItIsNeverWrongByMoreThanItSays) {
  RandomStream random(7);
  for (int run = 0; run < 200; ++run) {
    const auto truth =
        static_cast<int64_t>(random.Below(1'000'000'000)) - 500'000'000;
    ClockOffset clock;
    int64_t now = 1'000'000'000;
    for (int call = 0; call < 10; ++call) {
      const auto there = static_cast<int64_t>(random.Below(3'000'000));
      const auto back = static_cast<int64_t>(random.Below(3'000'000));
      clock.Add(At(now), At(now + there + back), now + there + truth);
      now += 5'000'000;
    }
    const absl::Duration wrong =
        absl::AbsDuration(clock.offset() - absl::Nanoseconds(truth));
    // A half of a nanosecond is rounded.
    EXPECT_LE(wrong, clock.error() + absl::Nanoseconds(1));
  }
}

}  // namespace
}  // namespace paramd
