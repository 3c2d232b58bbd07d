#include "coordinator/core/checkpoint_schedule.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

const Time kStart = Time::FromNanoseconds(1'000'000'000);

v1::JobConfig Every(uint64_t steps, uint64_t seconds) {
  v1::JobConfig job;
  job.mutable_checkpoint()->set_every_steps(steps);
  job.mutable_checkpoint()->set_every_seconds(seconds);
  return job;
}

TEST(CheckpointScheduleTest, AMultipleOfTheStepsIsDue) {
  CheckpointSchedule schedule(Every(10, 0));
  schedule.Begin(13, 0, kStart);
  EXPECT_FALSE(schedule.IsDue(19, 0, 13, kStart));
  EXPECT_TRUE(schedule.IsDue(20, 0, 13, kStart));
}

TEST(CheckpointScheduleTest, TimeCountsOnlyIfAStepWasMade) {
  CheckpointSchedule schedule(Every(0, 5));
  schedule.Begin(13, 0, kStart);
  EXPECT_FALSE(schedule.IsDue(14, 0, 13, kStart + absl::Seconds(4)));
  EXPECT_TRUE(schedule.IsDue(14, 0, 13, kStart + absl::Seconds(5)));
  EXPECT_FALSE(schedule.IsDue(13, 0, 13, kStart + absl::Seconds(5)));
}

TEST(CheckpointScheduleTest, WithoutSettingsNoneIsDue) {
  CheckpointSchedule schedule(Every(0, 0));
  schedule.Begin(13, 0, kStart);
  EXPECT_FALSE(schedule.IsDue(1000, 0, 13, kStart + absl::Hours(1)));
}

TEST(CheckpointScheduleTest, ABackupIsDueAfterEachMultipleOfItsEpochs) {
  v1::JobConfig job;
  job.mutable_backup_and_restore()->set_directory("/shared/backup");
  job.mutable_backup_and_restore()->set_every_epochs(2);
  CheckpointSchedule schedule(job);
  schedule.Begin(13, 1, kStart);
  EXPECT_FALSE(schedule.IsDue(99, 1, 13, kStart));
  EXPECT_TRUE(schedule.IsDue(100, 2, 13, kStart));
  schedule.Begin(100, 2, kStart);
  EXPECT_FALSE(schedule.IsDue(299, 3, 100, kStart));
  EXPECT_TRUE(schedule.IsDue(300, 4, 100, kStart));
}

TEST(CheckpointScheduleTest, EpochsDoNotCountForABackupBySteps) {
  v1::JobConfig job = Every(50, 0);
  job.mutable_backup_and_restore()->set_directory("/shared/backup");
  job.mutable_backup_and_restore()->set_every_steps(50);
  job.mutable_backup_and_restore()->set_every_epochs(1);
  CheckpointSchedule schedule(job);
  schedule.Begin(0, 0, kStart);
  EXPECT_FALSE(schedule.IsDue(49, 3, 0, kStart));
  EXPECT_TRUE(schedule.IsDue(50, 3, 0, kStart));
}

TEST(CheckpointScheduleTest, WithoutABackupEpochsDoNotCount) {
  v1::JobConfig job;
  job.mutable_backup_and_restore()->set_every_epochs(1);
  CheckpointSchedule schedule(job);
  schedule.Begin(0, 0, kStart);
  EXPECT_FALSE(schedule.IsDue(50, 3, 0, kStart));
}

TEST(CheckpointScheduleTest, StepsAreToBeSavedUntilTheyAre) {
  CheckpointSchedule schedule(Every(0, 0));
  EXPECT_FALSE(schedule.HasStepsToSave());
  schedule.SaveSteps(kStart);
  EXPECT_TRUE(schedule.HasStepsToSave());
  EXPECT_TRUE(schedule.MustSaveSteps(kStart));
  schedule.SaveSteps(kStart + absl::Seconds(1));
  EXPECT_FALSE(schedule.MustSaveSteps(kStart));
  schedule.StepsSaved();
  EXPECT_FALSE(schedule.HasStepsToSave());
}

}  // namespace
}  // namespace paramd
