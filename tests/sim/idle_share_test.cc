#include "tests/sim/idle_share.h"

#include "gtest/gtest.h"

#include "tests/sim/few_seeds.h"

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

uint64_t Seeds() { return FewSeeds() ? 1 : 10; }

// Of all seeds together.
uint64_t Steps(uint32_t backup_workers, int slowed) {
  IdleJob job;
  job.staleness = "sync";
  job.backup_workers = backup_workers;
  job.slowed = slowed;
  job.window = absl::Minutes(1);
  uint64_t steps = 0;
  for (job.seed = 1; job.seed <= Seeds(); ++job.seed) {
    const auto report = MeasureIdleShare(job);
    EXPECT_TRUE(report.ok()) << report.status();
    if (report.ok()) steps += report->job_steps;
  }
  return steps;
}

TEST(IdleShareTest, ABackupWorkerHidesTheSlowestOfAStep) {
  const double clean = Steps(/*backup_workers=*/0, /*slowed=*/1);
  EXPECT_GT(clean / Steps(/*backup_workers=*/0, /*slowed=*/4), 1.8);
  // 1.15 of twenty seeds over two minutes; chance moves the last digit.
  EXPECT_LT(clean / Steps(/*backup_workers=*/1, /*slowed=*/4),
            FewSeeds() ? 1.25 : 1.16);
}

}  // namespace
}  // namespace paramd
