#include "tests/sim/idle_share.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

double IdleShare(const std::string& staleness) {
  IdleJob job;
  job.staleness = staleness;
  job.window = absl::Minutes(1);
  const auto report = MeasureIdleShare(job);
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? report->idle_share : 1;
}

TEST(IdleShareTest, WithoutABoundNobodyIdles) {
  EXPECT_LT(IdleShare("async"), 0.01);
}

TEST(IdleShareTest, ABoundOfEightHidesStepsThatAreSlowNowAndThen) {
  EXPECT_LT(IdleShare("8"), 0.05);
  EXPECT_LT(IdleShare("4"), 0.05);
}

TEST(IdleShareTest, WithoutSlackEveryStepWaitsForTheSlowest) {
  EXPECT_GT(IdleShare("0"), 0.35);
}

}  // namespace
}  // namespace paramd
