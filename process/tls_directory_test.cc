#include "process/tls_directory.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "net/tls.h"
#include "net/tls_files.h"

namespace paramd {
namespace {

std::string NewDirectory(const std::string& name) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  std::filesystem::remove_all(path);
  return path;
}

int ModeOf(const std::string& path) {
  struct stat status = {};
  EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 0777;
}

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(TlsDirectoryTest, EachTaskCanUseItsOwn) {
  const std::string directory = NewDirectory("each");
  const absl::Time now = absl::Now();
  ASSERT_TRUE(
      MakeTlsDirectory(directory, "a.b_c-1", {2, 1, 1, 1, 1, 1}, 30, now).ok());
  for (const char* task : {"ps-0", "ps-1", "worker-0", "evaluator-0",
                           "operator-0", "reader-0", "stage-0"}) {
    const auto own = CheckTlsFiles(TlsFilesOf(directory, task), now);
    ASSERT_TRUE(own.ok()) << own.status();
    EXPECT_TRUE(own->name == *NameOfTask("a.b_c-1", task));
    EXPECT_GT(own->until, now + absl::Hours(24 * 29));
    EXPECT_LT(own->until, now + absl::Hours(24 * 31));
    EXPECT_EQ(ModeOf(absl::StrCat(directory, "/", task, "/tls.key")), 0600);
    EXPECT_EQ(ModeOf(absl::StrCat(directory, "/", task)), 0700);
  }
  EXPECT_EQ(ModeOf(directory), 0700);
  EXPECT_EQ(ModeOf(directory + "/ca.key"), 0600);
  EXPECT_TRUE(Tls::MakeOperator(directory).ok());
  EXPECT_TRUE(Tls::MakeOperator(directory + "/reader-0").ok());
}

TEST(TlsDirectoryTest, NothingIsWrittenOver) {
  const std::string directory = NewDirectory("over");
  const absl::Time now = absl::Now();
  ASSERT_TRUE(MakeTlsDirectory(directory, "j", {1, 1, 0, 0}, 30, now).ok());
  const std::string key = TextOf(directory + "/ca.key");
  const absl::Status again =
      MakeTlsDirectory(directory, "j", {1, 1, 0, 0}, 30, now);
  EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(again.message(), "is not empty")) << again;
  EXPECT_EQ(TextOf(directory + "/ca.key"), key);
}

TEST(TlsDirectoryTest, ANameThatIsNoneIsRefusedBeforeAnythingIsMade) {
  const std::string directory = NewDirectory("name");
  for (const char* job : {"", "a/b", "a,URI:spiffe", "a b"}) {
    EXPECT_EQ(
        MakeTlsDirectory(directory, job, {1, 1, 0, 0}, 30, absl::Now()).code(),
        absl::StatusCode::kInvalidArgument);
    EXPECT_FALSE(std::filesystem::exists(directory));
  }
}

TEST(TlsDirectoryTest, ARenewedOneHoldsLongerAndKeepsItsKey) {
  const std::string directory = NewDirectory("renew");
  const absl::Time long_ago = absl::Now() - absl::Hours(24 * 40);
  ASSERT_TRUE(
      MakeTlsDirectory(directory, "j", {1, 1, 0, 1}, 30, long_ago).ok());
  const TlsFiles files = TlsFilesOf(directory, "worker-0");
  EXPECT_FALSE(CheckTlsFiles(files, absl::Now()).ok());
  const std::string key = TextOf(files.key);
  const auto renewed = RenewTlsDirectory(directory, 30, absl::Now());
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_EQ(*renewed,
            (std::vector<std::string>{"operator-0", "ps-0", "worker-0"}));
  EXPECT_TRUE(CheckTlsFiles(files, absl::Now()).ok());
  EXPECT_EQ(TextOf(files.key), key);
}

TEST(TlsDirectoryTest, NoneIsRenewedBeyondItsAuthority) {
  const std::string directory = NewDirectory("outlive");
  const absl::Time made = absl::Now() - absl::Hours(24 * 3600);
  ASSERT_TRUE(MakeTlsDirectory(directory, "j", {1, 1, 0, 0}, 30, made).ok());
  const TlsFiles files = TlsFilesOf(directory, "ps-0");
  const std::string before = TextOf(files.certificate);
  const absl::Status longer =
      RenewTlsDirectory(directory, 51, absl::Now()).status();
  EXPECT_EQ(longer.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(
      longer.message(), absl::StrCat("certificates for 51 days would outlive "
                                     "their authority '",
                                     directory, "/ca.crt', which holds until")))
      << longer;
  EXPECT_EQ(TextOf(files.certificate), before);
  EXPECT_TRUE(RenewTlsDirectory(directory, 49, absl::Now()).ok());
  EXPECT_TRUE(CheckTlsFiles(files, absl::Now()).ok());
}

TEST(TlsDirectoryTest, WhatCannotBeRenewedIsNamed) {
  const std::string directory = NewDirectory("none");
  EXPECT_TRUE(absl::StrContains(
      RenewTlsDirectory(directory, 30, absl::Now()).status().message(),
      absl::StrCat("cannot read '", directory, "/ca.key'")));
}

}  // namespace
}  // namespace paramd
