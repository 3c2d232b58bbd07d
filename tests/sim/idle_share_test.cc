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

uint64_t Steps(uint32_t backup_workers, int slowed) {
  IdleJob job;
  job.staleness = "sync";
  job.backup_workers = backup_workers;
  job.slowed = slowed;
  job.window = absl::Minutes(1);
  const auto report = MeasureIdleShare(job);
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? report->job_steps : 0;
}

TEST(IdleShareTest, ABackupWorkerHidesTheSlowestOfAStep) {
  const uint64_t clean = Steps(/*backup_workers=*/0, /*slowed=*/1);
  EXPECT_LT(Steps(/*backup_workers=*/0, /*slowed=*/4), clean * 0.6);
  EXPECT_GT(Steps(/*backup_workers=*/1, /*slowed=*/4), clean * 0.8);
}

}  // namespace
}  // namespace paramd
