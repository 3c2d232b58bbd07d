#include "coordinator/core/checkpoint_schedule.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

const Time kStart = Time::FromNanoseconds(1'000'000'000);

v1::CheckpointConfig Every(uint64_t steps, uint64_t seconds) {
  v1::CheckpointConfig config;
  config.set_every_steps(steps);
  config.set_every_seconds(seconds);
  return config;
}

TEST(CheckpointScheduleTest, AMultipleOfTheStepsIsDue) {
  CheckpointSchedule schedule(Every(10, 0));
  schedule.Begin(13, kStart);
  EXPECT_FALSE(schedule.IsDue(19, 13, kStart));
  EXPECT_TRUE(schedule.IsDue(20, 13, kStart));
}

TEST(CheckpointScheduleTest, TimeCountsOnlyIfAStepWasMade) {
  CheckpointSchedule schedule(Every(0, 5));
  schedule.Begin(13, kStart);
  EXPECT_FALSE(schedule.IsDue(14, 13, kStart + absl::Seconds(4)));
  EXPECT_TRUE(schedule.IsDue(14, 13, kStart + absl::Seconds(5)));
  EXPECT_FALSE(schedule.IsDue(13, 13, kStart + absl::Seconds(5)));
}

TEST(CheckpointScheduleTest, WithoutSettingsNoneIsDue) {
  CheckpointSchedule schedule(Every(0, 0));
  schedule.Begin(13, kStart);
  EXPECT_FALSE(schedule.IsDue(1000, 13, kStart + absl::Hours(1)));
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
