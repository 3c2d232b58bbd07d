#include "input/file.h"

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "input/idx_file.h"
#include "input/testing/idx_test_files.h"

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

// As git leaves it in a clone without Git LFS.
constexpr char kPointer[] =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid "
    "sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393"
    "\nsize 12345\n";

TEST(FileTest, APointerOfGitLfsIsNamed) {
  const std::string path = WriteTestFile("train.csv", kPointer);
  const absl::Status said = absl::InvalidArgumentError(absl::StrCat(
      "'", path, "' is a Git LFS pointer, not the file: run git lfs pull"));
  EXPECT_EQ(InputFile::Open(path).status(), said);
  EXPECT_EQ(ReadWhole(path).status(), said);
  EXPECT_EQ(ReadIdxFile(path, 1).status(), said);
  // What only begins so is a text.
  const std::string text = kPointer + std::string(1024, 'x');
  EXPECT_EQ(*ReadWhole(WriteTestFile("b.txt", text)), text);
}

}  // namespace
}  // namespace paramd
