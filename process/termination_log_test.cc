#include "process/termination_log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"

#include "config/job_config.h"

namespace paramd {
namespace {

class TerminationLogTest : public ::testing::Test {
 protected:
  TerminationLogTest()
      : path_(absl::StrCat(
            ::testing::TempDir(), "/",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {}

  std::string Text() const {
    std::ifstream file(path_, std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(file)), {});
  }

  const std::string path_;
};

TEST_F(TerminationLogTest, TheReasonReplacesWhatWasThere) {
  std::ofstream(path_) << "something longer than the reason";
  WriteTerminationLog(path_, "lost the chief");
  EXPECT_EQ(Text(), "lost the chief");
}

TEST_F(TerminationLogTest, AtMost4096BytesAreWrittenAndNoHalfCharacter) {
  std::ofstream(path_).close();
  WriteTerminationLog(path_, std::string(5000, 'x'));
  EXPECT_EQ(Text(), std::string(4096, 'x'));
  WriteTerminationLog(path_, absl::StrCat(std::string(4094, 'x'), "€uro"));
  EXPECT_EQ(Text(), std::string(4094, 'x'));
  WriteTerminationLog(path_, absl::StrCat(std::string(4093, 'x'), "€uro"));
  EXPECT_EQ(Text(), absl::StrCat(std::string(4093, 'x'), "€"));
}

TEST_F(TerminationLogTest, AFileThatIsNotThereIsNotMade) {
  WriteTerminationLog(path_, "reason");
  struct stat found = {};
  EXPECT_NE(stat(path_.c_str(), &found), 0);
  WriteTerminationLog("", "reason");
}

TEST_F(TerminationLogTest, WhatIsNoFileIsLeftAlone) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  WriteTerminationLog(path_, "nobody reads this");
  WriteTerminationLog(::testing::TempDir(), "nor this");
}

TEST_F(TerminationLogTest, TheSettingsDefaultIsTheSame) {
  const auto* field =
      v1::JobConfig::descriptor()->FindFieldByName("termination_log");
  ASSERT_NE(field, nullptr);
  EXPECT_EQ(field->options().GetExtension(v1::setting).default_json(),
            absl::StrCat("\"", kTerminationLog, "\""));
}

}  // namespace
}  // namespace paramd
