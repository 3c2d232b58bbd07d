#include "compute/pipeline/device_turns.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

absl::Status Nothing(uint32_t, size_t) { return absl::OkStatus(); }

TEST(DeviceTurnsTest, ADeviceDoesWhatIsReadyInTheOldestWork) {
  bool first_waits = false;
  const auto ready = [&](uint32_t, size_t) { return !first_waits; };
  const auto always = [](uint32_t, size_t) { return true; };
  const DeviceTurns::Work older = {{2}, ready, Nothing};
  const DeviceTurns::Work newer = {{1}, always, Nothing};
  DeviceTurns::Running first(older), second(newer);
  DeviceTurns turns;
  turns.Begin(&first);
  turns.Begin(&second);
  ASSERT_EQ(turns.Next(0), &first);
  turns.Done(0, absl::OkStatus(), &first);
  first_waits = true;
  ASSERT_EQ(turns.Next(0), &second);
  EXPECT_FALSE(second.IsOver());
  turns.Done(0, absl::OkStatus(), &second);
  EXPECT_TRUE(second.IsOver());
  turns.End(&second);
  EXPECT_EQ(turns.Next(0), nullptr);
  first_waits = false;
  EXPECT_EQ(turns.Next(0), &first);
}

TEST(DeviceTurnsTest, AWorkThatFailedIsOverOnceNobodyIsAtIt) {
  const auto always = [](uint32_t, size_t) { return true; };
  const DeviceTurns::Work work = {{2, 2}, always, Nothing};
  DeviceTurns::Running running(work);
  DeviceTurns turns;
  turns.Begin(&running);
  ASSERT_EQ(turns.Next(0), &running);
  ASSERT_EQ(turns.Next(1), &running);
  turns.Done(0, absl::DataLossError("example 7"), &running);
  EXPECT_FALSE(running.IsOver());
  EXPECT_EQ(turns.Next(0), nullptr);
  turns.Done(1, absl::DataLossError("example 8"), &running);
  EXPECT_TRUE(running.IsOver());
  EXPECT_EQ(running.status(), absl::DataLossError("example 7"));
}

}  // namespace
}  // namespace paramd
