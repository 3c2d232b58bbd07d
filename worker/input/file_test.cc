#include "worker/input/file.h"

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "worker/input/testing/idx_test_files.h"

namespace paramd {
namespace {

TEST(FileTest, PatternsNameFilesInOrder) {
  const std::string b = WriteTestFile("part-b.csv", "b");
  const std::string a = WriteTestFile("part-a.csv", "a");
  const std::string other = WriteTestFile("other.csv", "?");
  const std::string directory = std::filesystem::path(a).parent_path();
  EXPECT_THAT(*FindFiles(directory, {"part-*.csv", other}),
              ::testing::ElementsAre(a, b, other));
  EXPECT_EQ(FindFiles(directory, {"none-*"}).status(),
            absl::NotFoundError(
                absl::StrCat("there is no file '", directory, "/none-*'")));
  EXPECT_EQ(FindFiles(directory, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(FileTest, ReadingBeyondTheEndIsAnError) {
  const std::string path = WriteTestFile("a", "abcdef");
  const auto file = InputFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<std::byte> bytes(4);
  EXPECT_TRUE((*file)->Read(2, absl::MakeSpan(bytes)).ok());
  EXPECT_EQ(bytes[0], std::byte{'c'});
  EXPECT_EQ(
      (*file)->Read(3, absl::MakeSpan(bytes)),
      absl::DataLossError(absl::StrCat(
          "'", path, "' ends at byte 6; 4 bytes from byte 3 are needed")));
}

TEST(FileTest, WhatIsNoFileIsRefused) {
  EXPECT_EQ(InputFile::Open(::testing::TempDir()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(InputFile::Open("/no/such").status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace paramd
