#include "process/observe/status_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace paramd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class StatusWatchTest : public ::testing::Test {
 protected:
  static Time At(int seconds) {
    return Time() + absl::Hours(1) + absl::Seconds(seconds);
  }
  static v1::ClusterReport Job(v1::JobState state, uint64_t step) {
    v1::ClusterReport report;
    report.set_asked("p0:1");
    report.mutable_job()->set_name("j");
    report.mutable_job()->set_state(state);
    report.mutable_job()->set_global_step(step);
    return report;
  }
  static v1::ClusterReport WithoutChief() {
    v1::ClusterReport report;
    report.set_asked("p0:1");
    report.set_job_error("the chief at w0:1: refused");
    return report;
  }
  static absl::Status Gone() {
    return absl::UnavailableError("p0:1 can't be reached: refused");
  }

  StatusWatch watch_{absl::Seconds(60)};
};

TEST_F(StatusWatchTest, TheNewestReportIsShownUntilTheJobIsFinished) {
  watch_.Take(Job(v1::RUNNING, 1111), At(0));
  watch_.Take(Job(v1::RUNNING, 2222), At(2));
  EXPECT_THAT(watch_.TextAt(At(2)), StartsWith("job j: running, "));
  EXPECT_THAT(watch_.TextAt(At(2)), HasSubstr("step 2,222"));
  EXPECT_FALSE(watch_.end().has_value());
  watch_.Take(Job(v1::FINISHED, 3333), At(4));
  EXPECT_THAT(watch_.TextAt(At(4)), StartsWith("job j: finished, "));
  ASSERT_TRUE(watch_.end().has_value());
  EXPECT_TRUE(watch_.end()->ok());
}

TEST_F(StatusWatchTest,
       Promise4_WhoDoesNotAnswerIsNamedWithTheAgeOfTheFigures) {
  watch_.Take(Job(v1::RUNNING, 1111), At(0));
  watch_.Take(Gone(), At(12));
  EXPECT_THAT(watch_.TextAt(At(12)),
              StartsWith("p0:1 can't be reached: refused; what follows is 12 s "
                         "old:\n\njob j: running, "));
  EXPECT_FALSE(watch_.end().has_value());
  watch_.Take(WithoutChief(), At(14));
  EXPECT_THAT(
      watch_.TextAt(At(14)),
      StartsWith("the coordinator can't be reached (the chief at w0:1: "
                 "refused); what follows is 14 s old:\n\njob j: running, "));
  // It is back.
  watch_.Take(Job(v1::RUNNING, 2222), At(58));
  EXPECT_THAT(watch_.TextAt(At(58)), StartsWith("job j: running, "));
  watch_.Take(Gone(), At(117));
  EXPECT_FALSE(watch_.end().has_value());
}

TEST_F(StatusWatchTest, Promise4_ItGivesUpWhenNobodyTellsHowTheJobIs) {
  watch_.Take(Job(v1::RUNNING, 1111), At(0));
  watch_.Take(Gone(), At(60));
  ASSERT_TRUE(watch_.end().has_value());
  EXPECT_EQ(*watch_.end(), absl::UnavailableError(
                               "p0:1 can't be reached: refused, for 60 s now"));
  // A process that answers and does not reach its chief is no failure.
  StatusWatch other(absl::Seconds(60));
  other.Take(Job(v1::RUNNING, 1111), At(0));
  other.Take(WithoutChief(), At(60));
  ASSERT_TRUE(other.end().has_value());
  EXPECT_TRUE(other.end()->ok());
}

TEST_F(StatusWatchTest, WhatWasAboutToEndHasEndedWhenItIsGone) {
  watch_.Take(Job(v1::FINISHING, 1111), At(0));
  watch_.Take(Gone(), At(9));
  EXPECT_FALSE(watch_.end().has_value());
  watch_.Take(Gone(), At(10));
  EXPECT_TRUE(watch_.end().has_value());
  StatusWatch stopped(absl::Seconds(60));
  v1::ClusterReport stopping = Job(v1::RUNNING, 1111);
  stopping.mutable_job()->set_stopping("an operator stops the job");
  stopped.Take(stopping, At(0));
  stopped.Take(Gone(), At(10));
  EXPECT_TRUE(stopped.end().has_value());
}

TEST_F(StatusWatchTest, AProcessThatNeverReachedItsChiefShowsWhatItKnows) {
  watch_.Take(WithoutChief(), At(0));
  watch_.Take(WithoutChief(), At(2));
  EXPECT_THAT(watch_.TextAt(At(2)),
              StartsWith("the job is not known: the chief at w0:1: refused"));
  EXPECT_THAT(watch_.TextAt(At(2)), Not(HasSubstr("what follows")));
  watch_.Take(Gone(), At(5));
  EXPECT_THAT(watch_.TextAt(At(5)), HasSubstr("what follows is 3.0 s old"));
  watch_.Take(WithoutChief(), At(60));
  EXPECT_TRUE(watch_.end().has_value());
}

}  // namespace
}  // namespace paramd
