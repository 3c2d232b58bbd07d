#include "process/exit_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"

#include "proto/job_end.h"

namespace paramd {
namespace {

TEST(ExitCodeTest, SaysWhetherToRetry) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus(), 0), 0);
  EXPECT_EQ(ExitCodeOf(absl::UnavailableError(""), 0), 138);
  EXPECT_EQ(ExitCodeOf(absl::AbortedError(""), 0), 138);
  EXPECT_EQ(ExitCodeOf(absl::DeadlineExceededError(""), 0), 138);
  EXPECT_EQ(ExitCodeOf(absl::InternalError(""), 0), 1);
  EXPECT_EQ(ExitCodeOf(absl::InvalidArgumentError(""), 0), 2);
  EXPECT_EQ(ExitCodeOf(absl::AlreadyExistsError(""), 0), 2);
}

TEST(ExitCodeTest, ACancelledProcessSaysWhichSignalItWas) {
  EXPECT_EQ(ExitCodeOf(absl::CancelledError(""), SIGINT), 130);
  EXPECT_EQ(ExitCodeOf(absl::CancelledError(""), SIGTERM), 143);
  EXPECT_EQ(ExitCodeOf(absl::CancelledError(""), SIGHUP), 143);
  EXPECT_EQ(ExitCodeOf(absl::CancelledError(""), 0), 1);
}

TEST(ExitCodeTest, WhatTheConfigurationNamesWronglyIsTwoAtTheStart) {
  EXPECT_EQ(ExitCodeAtStart(absl::InvalidArgumentError("")), 2);
  EXPECT_EQ(ExitCodeAtStart(absl::NotFoundError("")), 2);
  EXPECT_EQ(ExitCodeAtStart(absl::PermissionDeniedError("")), 2);
  EXPECT_EQ(ExitCodeAtStart(absl::FailedPreconditionError("")), 2);
  EXPECT_EQ(ExitCodeAtStart(absl::AlreadyExistsError("")), 2);
  EXPECT_EQ(ExitCodeAtStart(absl::UnavailableError("")), 138);
  EXPECT_EQ(ExitCodeAtStart(absl::InternalError("")), 1);
}

TEST(ExitCodeTest, WhoIsToldOfAFailureEndsWithItsCode) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "why");
    if (!EndsTheJob(status)) continue;
    EXPECT_EQ(ExitCodeOf(EndFor(ToFinished(status)), 0), ExitCodeOf(status, 0))
        << status;
    EXPECT_EQ(ToFinished(status).exit_code(), ExitCodeOf(status, 0)) << status;
  }
}

TEST(ExitCodeTest, ThePageExplainsEachCode) {
  std::ifstream file("docs/operating.md", std::ios::binary);
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(ExitCodeMeanings().size(), 6u);
  for (const auto& [code, meaning] : ExitCodeMeanings()) {
    EXPECT_THAT(page, ::testing::HasSubstr(
                          absl::StrCat("| ", code, " | ", meaning, " |")));
  }
}

}  // namespace
}  // namespace paramd
