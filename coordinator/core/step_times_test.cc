#include "coordinator/core/step_times.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

Time At(int64_t seconds) {
  return Time::FromNanoseconds(1) + absl::Seconds(seconds);
}

TEST(StepTimesTest, TheLongestStepOfAnyWorkerCounts) {
  StepTimes times;
  EXPECT_EQ(times.longest(), absl::ZeroDuration());
  times.Count(0, 0, At(0));
  times.Count(1, 0, At(0));
  times.Count(0, 1, At(3));
  times.Count(1, 1, At(5));
  times.Count(1, 2, At(6));
  EXPECT_EQ(times.longest(), absl::Seconds(5));
}

TEST(StepTimesTest, StepsBetweenTwoCountsShareTheTime) {
  StepTimes times;
  times.Count(0, 2, At(0));
  times.Count(0, 2, At(4));
  times.Count(0, 5, At(6));
  EXPECT_EQ(times.longest(), absl::Seconds(2));
}

TEST(StepTimesTest, ARestIsNoStep) {
  StepTimes times;
  times.Count(0, 2, At(0));
  times.Rest(0);
  times.Count(0, 3, At(100));
  EXPECT_EQ(times.longest(), absl::ZeroDuration());
  times.Count(0, 4, At(101));
  EXPECT_EQ(times.longest(), absl::Seconds(1));
}

TEST(StepTimesTest, ARestOfAllIsNoStepOfAnybody) {
  StepTimes times;
  times.Count(0, 2, At(0));
  times.Count(1, 2, At(0));
  times.RestAll();
  times.Count(0, 3, At(100));
  times.Count(1, 3, At(100));
  EXPECT_EQ(times.longest(), absl::ZeroDuration());
}

TEST(StepTimesTest, AStepOfHoursCountsAsTenMinutes) {
  StepTimes times;
  times.Count(0, 0, At(0));
  times.Count(0, 1, At(7200));
  EXPECT_EQ(times.longest(), absl::Minutes(10));
}

TEST(StepTimesTest, ANewSessionBeginsAnew) {
  StepTimes times;
  times.Count(0, 7, At(0));
  times.Count(0, 0, At(100));
  times.Count(0, 1, At(102));
  EXPECT_EQ(times.longest(), absl::Seconds(2));
}

}  // namespace
}  // namespace paramd
