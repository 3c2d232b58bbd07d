#include "net/busy_poll.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

constexpr absl::Duration kShort = absl::Microseconds(30);

Time At(absl::Duration since_zero) { return Time() + since_zero; }

// Asks in vain until it is to sleep; what that cost.
absl::Duration LoseAll(Time now, BusyPoll* poll) {
  absl::Duration lost;
  for (absl::Duration patience;
       (patience = poll->Patience(now)) > absl::ZeroDuration();) {
    poll->Asked(patience, /*came=*/false);
    lost += patience;
  }
  return lost;
}

TEST(BusyPollTest, WhatComesSoonIsAskedForWithoutEnd) {
  BusyPoll poll;
  for (int i = 0; i < 100'000; ++i) {
    ASSERT_EQ(poll.Patience(At(absl::Seconds(1))), BusyPoll::kPatience);
    poll.Asked(kShort, /*came=*/true);
  }
}

TEST(BusyPollTest, WhatIsLostInAPeriodIsBounded) {
  BusyPoll poll;
  for (int period = 4; period < 8; ++period) {
    const absl::Duration lost = LoseAll(At(period * BusyPoll::kPeriod), &poll);
    EXPECT_GE(lost, BusyPoll::kMostLost);
    EXPECT_LE(lost, BusyPoll::kMostLost + BusyPoll::kPatience);
    const Time late =
        At((period + 1) * BusyPoll::kPeriod) + absl::Nanoseconds(-1);
    EXPECT_EQ(poll.Patience(late), absl::ZeroDuration());
  }
}

TEST(BusyPollTest, AnEventThatComesLateCostsMoreThanASleep) {
  BusyPoll poll;
  const Time now = At(absl::Seconds(1));
  int times = 0;
  for (; poll.Patience(now) > absl::ZeroDuration(); ++times) {
    poll.Asked(BusyPoll::kPatience, /*came=*/true);
  }
  EXPECT_EQ(times, 9);  // Of 120 us each beyond the sleep.
}

TEST(BusyPollTest, WhatWasSavedIsNotSpentLater) {
  BusyPoll poll;
  const Time now = At(absl::Seconds(1));
  for (int i = 0; i < 1000; ++i) poll.Asked(kShort, /*came=*/true);
  EXPECT_LE(LoseAll(now, &poll), BusyPoll::kMostLost + BusyPoll::kPatience);
}

TEST(BusyPollTest, ShortWaitsEarnBackWhatAHiccupCost) {
  BusyPoll poll;
  const Time now = At(absl::Seconds(1));
  for (int i = 0; i < 1000; ++i) {
    ASSERT_GT(poll.Patience(now), absl::ZeroDuration());
    poll.Asked(BusyPoll::kPatience, /*came=*/false);
    for (int good = 0; good < 10; ++good) poll.Asked(kShort, /*came=*/true);
  }
}

TEST(BusyPollTest, AThreadThatDidNotRunLosesNoMoreThanItsPatience) {
  BusyPoll poll;
  const Time now = At(absl::Seconds(1));
  ASSERT_GT(poll.Patience(now), absl::ZeroDuration());
  poll.Asked(absl::Milliseconds(4), /*came=*/false);
  EXPECT_GT(poll.Patience(now), absl::ZeroDuration());
}

TEST(BusyPollTest, AllThatSleepTryAgainAtTheSameMoment) {
  BusyPoll one, other;
  LoseAll(At(absl::Milliseconds(1010)), &one);
  LoseAll(At(absl::Milliseconds(1100)), &other);
  const Time before = At(absl::Milliseconds(1124));
  EXPECT_EQ(one.Patience(before), absl::ZeroDuration());
  EXPECT_EQ(other.Patience(before), absl::ZeroDuration());
  const Time begin = At(absl::Milliseconds(1125));
  EXPECT_GT(one.Patience(begin), absl::ZeroDuration());
  EXPECT_GT(other.Patience(begin), absl::ZeroDuration());
}

}  // namespace
}  // namespace paramd
