#include "coordinator/election/chief_standing.h"

#include <cstdint>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using May = ChiefStanding::May;
using News = ChiefStanding::News;

// A lease of 9 s; asking in vain takes 2 s.
class ChiefStandingTest : public ::testing::Test {
 protected:
  ChiefStandingTest()
      : standing_({"etcd://e:1/j", absl::Seconds(9), absl::Seconds(2)}) {
    standing_.Elected(At(0));
  }
  static Time At(int64_t seconds) {
    return Time() + absl::Seconds(1000 + seconds);
  }
  News Hear(int64_t asked, int64_t now, const absl::StatusOr<bool>& answer) {
    return standing_.Hear(At(asked), At(now), answer);
  }

  const absl::Status away_ = absl::UnavailableError("etcd at e:1: refused");
  ChiefStanding standing_;
};

TEST_F(ChiefStandingTest, MayWriteUntilItsLeaseMayHaveEnded) {
  EXPECT_EQ(standing_.MayWrite(At(8)), May::kYes);
  EXPECT_EQ(standing_.MayWrite(At(9)), May::kAsk);
  EXPECT_EQ(Hear(3, 3, true), News::kNone);
  EXPECT_EQ(standing_.MayWrite(At(11)), May::kYes);
  EXPECT_EQ(standing_.MayWrite(At(12)), May::kAsk);
  EXPECT_TRUE(standing_.status().ok());
}

TEST_F(ChiefStandingTest, ALeaseLastsFromWhenItWasAskedFor) {
  EXPECT_EQ(Hear(1, 8, true), News::kNone);
  EXPECT_EQ(standing_.MayWrite(At(9)), May::kYes);
  EXPECT_EQ(standing_.MayWrite(At(10)), May::kAsk);
}

TEST_F(ChiefStandingTest, AnOlderAnswerThatComesLaterTakesNothingBack) {
  EXPECT_EQ(Hear(6, 6, true), News::kNone);
  EXPECT_EQ(Hear(1, 7, true), News::kNone);
  EXPECT_EQ(standing_.MayWrite(At(14)), May::kYes);
}

TEST_F(ChiefStandingTest, WhatWasLostIsLostForEver) {
  EXPECT_EQ(Hear(3, 3, false), News::kLost);
  EXPECT_EQ(standing_.MayWrite(At(3)), May::kNo);
  EXPECT_TRUE(absl::IsUnavailable(standing_.status()));
  EXPECT_THAT(std::string(standing_.status().message()),
              HasSubstr("is not the chief any more: its lease in "
                        "etcd://e:1/j has ended"));
  EXPECT_EQ(Hear(4, 4, true), News::kNone);
  EXPECT_EQ(standing_.MayWrite(At(4)), May::kNo);
}

TEST_F(ChiefStandingTest, WhileEtcdIsAwayAndAskedItGoesOn) {
  EXPECT_EQ(Hear(3, 4, away_), News::kAway);
  EXPECT_EQ(Hear(6, 7, away_), News::kNone) << "that is known";
  ASSERT_TRUE(standing_.away().has_value());
  EXPECT_EQ(standing_.away()->since, At(3));
  EXPECT_EQ(standing_.away()->why, "etcd at e:1: refused");
  EXPECT_EQ(standing_.MayWrite(At(17)), May::kYes);
  // Nothing was heard of for longer than it is asked again: a pause.
  EXPECT_EQ(standing_.MayWrite(At(18)), May::kAsk);
  EXPECT_EQ(Hear(18, 19, true), News::kNone);
  EXPECT_FALSE(standing_.away().has_value());
  EXPECT_EQ(standing_.MayWrite(At(26)), May::kYes);
}

TEST(WasPausedMeanwhileTest, WhatEndsLongAfterItsTimeWasPaused) {
  const Time asked = Time() + absl::Seconds(5);
  const absl::Duration longest = absl::Seconds(2);
  EXPECT_FALSE(WasPausedMeanwhile(asked, asked + longest, longest));
  EXPECT_FALSE(
      WasPausedMeanwhile(asked, asked + absl::Milliseconds(2900), longest))
      << "the machine is busy";
  EXPECT_TRUE(WasPausedMeanwhile(asked, asked + absl::Seconds(4), longest));
}

TEST_F(ChiefStandingTest, AnEtcdThatIsBackWithoutTheLeaseEndsIt) {
  EXPECT_EQ(Hear(3, 4, away_), News::kAway);
  EXPECT_EQ(Hear(6, 6, false), News::kLost);
  EXPECT_FALSE(standing_.away().has_value());
  EXPECT_EQ(standing_.MayWrite(At(7)), May::kNo);
}

}  // namespace
}  // namespace paramd
