#include "coordinator/committed_note.h"

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CommittedNoteTest : public ::testing::Test {
 protected:
  CommittedNoteTest()
      : run_(absl::StrCat(
            ::testing::TempDir(), "/",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(run_);
    std::filesystem::create_directories(run_);
  }

  const std::string run_;
};

TEST_F(CommittedNoteTest, ARunThatHadNoCheckpointMissesNone) {
  EXPECT_TRUE(CommittedNote(run_).CheckNoneIsMissing("/mnt/x").ok());
}

TEST_F(CommittedNoteTest, Promise3_OneThatHadSomeIsNotBegunAnewInSilence) {
  ASSERT_TRUE(CommittedNote(run_).Committed("/mnt/x", "").ok());
  const absl::Status missing = CommittedNote(run_).CheckNoneIsMissing("/mnt/y");
  EXPECT_TRUE(absl::IsUnavailable(missing));
  EXPECT_THAT(std::string(missing.message()),
              AllOf(HasSubstr("in '/mnt/y'"), HasSubstr("some in '/mnt/x':"),
                    HasSubstr(run_ + "/committed'")));
}

TEST_F(CommittedNoteTest, AnotherDirectoryReplacesTheOne) {
  CommittedNote note(run_);
  ASSERT_TRUE(note.Committed("/mnt/x", "").ok());
  ASSERT_TRUE(note.Committed("/mnt/y", "").ok());
  EXPECT_THAT(std::string(note.CheckNoneIsMissing("/mnt/y").message()),
              HasSubstr("some in '/mnt/y':"));
}

TEST_F(CommittedNoteTest,
       Promise3_AnOlderDirectoryOfTheRunIsNotTakenInSilence) {
  CommittedNote note(run_);
  EXPECT_TRUE(note.CheckIsSame("/mnt/x", "r 01\n").ok());
  ASSERT_TRUE(note.Committed("/mnt/x", "").ok());
  EXPECT_TRUE(note.CheckIsSame("/mnt/x", "r 01\n").ok());
  ASSERT_TRUE(note.Committed("/mnt/x", "r 02\n").ok());
  EXPECT_TRUE(note.CheckIsSame("/mnt/y", "r 02\n").ok());
  for (const char* marker : {"r 01\n", ""}) {
    const absl::Status other = note.CheckIsSame("/mnt/x", marker);
    EXPECT_TRUE(absl::IsUnavailable(other));
    EXPECT_THAT(std::string(other.message()),
                AllOf(HasSubstr("'/mnt/x'"), HasSubstr("that one's is r 02:")));
  }
  EXPECT_THAT(std::string(note.CheckNoneIsMissing("/mnt/x").message()),
              HasSubstr("some in '/mnt/x':"));
}

TEST_F(CommittedNoteTest, WhatIsKnownIsNotWrittenAgain) {
  CommittedNote note(run_);
  ASSERT_TRUE(note.Committed("/mnt/x", "").ok());
  std::filesystem::remove(run_ + "/committed");
  ASSERT_TRUE(note.Committed("/mnt/x", "").ok());
  EXPECT_FALSE(std::filesystem::exists(run_ + "/committed"));
}

TEST_F(CommittedNoteTest, ARunDirectoryThatIsGoneIsNamed) {
  std::filesystem::remove_all(run_);
  EXPECT_THAT(
      std::string(CommittedNote(run_).Committed("/mnt/x", "").message()),
      HasSubstr(run_ + "/committed"));
}

TEST_F(CommittedNoteTest, OneThatCannotBeReadIsNoFreshStart) {
  std::filesystem::create_directories(run_ + "/committed");
  EXPECT_FALSE(CommittedNote(run_).CheckNoneIsMissing("/mnt/x").ok());
}

}  // namespace
}  // namespace paramd
