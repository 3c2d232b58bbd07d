#include "process/run_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"

#include "coordinator/configuration_log.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

class RunDirectoryTest : public ::testing::Test {
 protected:
  RunDirectoryTest()
      : root_(absl::StrCat(
            ::testing::TempDir(), "/",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {}

  const std::string root_;
};

TEST_F(RunDirectoryTest, TheNextNumberIsAboveAllThatExist) {
  EXPECT_EQ(*MakeRunDirectory(root_, "job"), root_ + "/job-1");
  EXPECT_EQ(*MakeRunDirectory(root_, "job"), root_ + "/job-2");
  std::filesystem::create_directories(root_ + "/job-10");
  std::filesystem::create_directories(root_ + "/job-x");
  std::filesystem::create_directories(root_ + "/jobs-77");
  EXPECT_EQ(*MakeRunDirectory(root_, "job"), root_ + "/job-11");
  EXPECT_EQ(*NewestRunDirectory(root_, "job", /*any=*/true), root_ + "/job-11");
}

TEST_F(RunDirectoryTest, WhatAFailedStartHasLeftIsNotGoneOnWith) {
  for (const char* path : {"/job-1/configuration", "/job-3/configuration",
                           "/job-4/logs", "/job-5"}) {
    std::filesystem::create_directories(root_ + path);
  }
  // A term that nobody has begun anything in, and a run.
  v1::LogEntry term, configured;
  term.set_number(1);
  ASSERT_TRUE(DirectoryLog(root_ + "/job-2/configuration").Append(term).ok());
  ASSERT_TRUE(DirectoryLog(root_ + "/job-1/configuration").Append(term).ok());
  configured.set_number(2);
  configured.mutable_configuration();
  ASSERT_TRUE(
      DirectoryLog(root_ + "/job-1/configuration").Append(configured).ok());
  EXPECT_EQ(*NewestRunDirectory(root_, "job"), root_ + "/job-1");
  EXPECT_EQ(*MakeRunDirectory(root_, "job"), root_ + "/job-6");
}

TEST_F(RunDirectoryTest, WithoutARunThereIsNothingToGoOnWith) {
  const auto newest = NewestRunDirectory(root_, "job");
  EXPECT_EQ(newest.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(newest.status().message(), HasSubstr("no run of 'job'"));
}

TEST_F(RunDirectoryTest, ARootThatIsAFileIsRefused) {
  std::filesystem::create_directories(root_);
  const std::string file = root_ + "/file";
  fclose(fopen(file.c_str(), "w"));
  EXPECT_EQ(MakeRunDirectory(file + "/runs", "job").status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(RunDirectoryTest, ADirectoryThatHoldsARunIsUsedOnlyToGoOn) {
  const std::string path = root_ + "/a/b";
  EXPECT_TRUE(UseRunDirectory(path, /*may_hold_a_run=*/false).ok());
  std::filesystem::create_directories(path + "/configuration");
  const absl::Status refused = UseRunDirectory(path, /*may_hold_a_run=*/false);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("is not empty; --resume"));
  EXPECT_TRUE(UseRunDirectory(path, /*may_hold_a_run=*/true).ok());
}

TEST_F(RunDirectoryTest, WhereNoRunWasStartedNoneGoesOn) {
  const absl::Status missing = CheckRunStartedIn(root_ + "/typo");
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr("there is no directory '"));
  EXPECT_FALSE(std::filesystem::exists(root_ + "/typo"));
  std::filesystem::create_directories(root_ + "/other/data");
  EXPECT_THAT(CheckRunStartedIn(root_ + "/other").message(),
              HasSubstr("none was started in directory '"));
  // A start that failed left its logs.
  for (const std::string in : {"/failed/logs", "/run/configuration"}) {
    const std::string made = root_ + in;
    std::filesystem::create_directories(made);
    EXPECT_TRUE(CheckRunStartedIn(made.substr(0, made.rfind('/'))).ok());
  }
}

TEST_F(RunDirectoryTest, ARunIsItsUsersAloneUnlessItsDirectoryIsThere) {
  using std::filesystem::perms;
  const auto mode = [](const std::string& path) {
    return std::filesystem::status(path).permissions();
  };
  EXPECT_EQ(mode(*MakeRunDirectory(root_, "job")), perms::owner_all);
  ASSERT_TRUE(UseRunDirectory(root_ + "/a/b/", false).ok());
  EXPECT_EQ(mode(root_ + "/a/b"), perms::owner_all);
  EXPECT_NE(mode(root_ + "/a") & perms::group_read, perms::none);
  std::filesystem::create_directories(root_ + "/open");
  std::filesystem::permissions(root_ + "/open", perms::all);
  ASSERT_TRUE(UseRunDirectory(root_ + "/open", false).ok());
  EXPECT_EQ(mode(root_ + "/open"), perms::all);
}

TEST_F(RunDirectoryTest, ARunIsWhereItsConfigurationLogIs) {
  EXPECT_FALSE(HoldsARun(root_ + "/none"));
  std::filesystem::create_directories(root_ + "/run/checkpoints");
  EXPECT_FALSE(HoldsARun(root_ + "/run"));
  std::filesystem::create_directories(root_ + "/run/configuration");
  EXPECT_TRUE(HoldsARun(root_ + "/run"));
}

TEST_F(RunDirectoryTest, PathsAreShownFromTheWorkingDirectory) {
  EXPECT_EQ(ShortPath(PathFromRoot("runs/job-1")), "runs/job-1");
  EXPECT_EQ(ShortPath("/nowhere/job-1"), "/nowhere/job-1");
  EXPECT_EQ(PathFromRoot("/a/./b"), "/a/b");
}

}  // namespace
}  // namespace paramd
