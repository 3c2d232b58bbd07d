#include "coordinator/failure_note.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "proto/stopped_job.h"

namespace paramd {
namespace {

class FailureNoteTest : public ::testing::Test {
 protected:
  FailureNoteTest()
      : run_(absl::StrCat(
            ::testing::TempDir(), "/",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(run_);
    std::filesystem::create_directories(run_);
  }

  const std::string run_;
};

TEST_F(FailureNoteTest, WhoWaitsHearsOfItOnce) {
  FailureNote waiting(run_);
  EXPECT_TRUE(waiting.Read().ok());
  ASSERT_TRUE(
      FailureNote(run_).Write(absl::OutOfRangeError("the loss is nan")).ok());
  EXPECT_EQ(waiting.Read(), absl::FailedPreconditionError("the loss is nan"));
  EXPECT_TRUE(waiting.Read().ok());
}

TEST_F(FailureNoteTest, OneFromBeforeIsOfAnotherStart) {
  const FailureNote chief(run_);
  ASSERT_TRUE(chief.Write(absl::InternalError("before")).ok());
  FailureNote waiting(run_);
  EXPECT_TRUE(waiting.Read().ok());
  chief.Remove();
  EXPECT_TRUE(waiting.Read().ok());
  ASSERT_TRUE(chief.Write(absl::InvalidArgumentError("now")).ok());
  EXPECT_EQ(waiting.Read(), absl::InvalidArgumentError("now"));
}

TEST_F(FailureNoteTest, AJobThatAnOperatorStoppedHasFailedNot) {
  FailureNote waiting(run_);
  ASSERT_TRUE(FailureNote(run_).Write(StoppedJob("stopped at step 7")).ok());
  EXPECT_FALSE(std::filesystem::exists(run_ + "/failure.json"));
  EXPECT_EQ(FailureNote::WhyStopped(run_), "stopped at step 7");
  const absl::Status told = waiting.Read();
  EXPECT_TRUE(IsStoppedJob(told)) << told;
  EXPECT_EQ(told.message(), "stopped at step 7");
  FailureNote(run_).Remove();
  EXPECT_EQ(FailureNote::WhyStopped(run_), "");
  EXPECT_TRUE(waiting.Read().ok());
}

TEST_F(FailureNoteTest, WhatMakesNoSenseIsNone) {
  FailureNote waiting(run_);
  std::ofstream(run_ + "/failure.json") << "{";
  EXPECT_TRUE(waiting.Read().ok());
}

}  // namespace
}  // namespace paramd
