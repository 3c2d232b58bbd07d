#include "input/idx_file.h"

#include <sys/stat.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "input/testing/idx_test_files.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void ExpectRefused(const std::string& path, int dimensions,
                   absl::StatusCode code, const std::string& message) {
  const auto file = ReadIdxFile(path, dimensions);
  EXPECT_EQ(file.status().code(), code) << file.status();
  EXPECT_EQ(file.status().message(), absl::StrCat("'", path, "' ", message));
}

TEST(IdxFileTest, APlainFileIsRead) {
  const std::string path =
      WriteTestFile("f", IdxBytes({2, 1, 3}, {1, 2, 3, 4, 5, 255}));
  const auto file = ReadIdxFile(path, 3);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->shape, ElementsAre(2, 1, 3));
  EXPECT_THAT(file->bytes, ElementsAre(1, 2, 3, 4, 5, 255));
}

TEST(IdxFileTest, ACompressedFileIsReadWhateverItsName) {
  const std::string path = WriteTestFile("f", Gzipped(IdxBytes({2}, {7, 8})));
  const auto file = ReadIdxFile(path, 1);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->bytes, ElementsAre(7, 8));
}

TEST(IdxFileTest, AFileOfSeveralPiecesIsReadWhole) {
  std::vector<uint8_t> content((3u << 20) + 17);
  for (size_t i = 0; i < content.size(); ++i) {
    content[i] = static_cast<uint8_t>(i * 7 + i / 256);
  }
  const auto size = static_cast<uint32_t>(content.size());
  const std::string path =
      WriteTestFile("f", Gzipped(IdxBytes({size}, content)));
  const auto file = ReadIdxFile(path, 1);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->bytes, content);
}

TEST(IdxFileTest, AMissingFileIsNotFound) {
  const auto file = ReadIdxFile("/nowhere/f", 1);
  EXPECT_EQ(file.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(file.status().message()),
              HasSubstr("cannot open '/nowhere/f'"));
}

TEST(IdxFileTest, WhatIsNoFileIsRefusedAndDoesNotHoldItsReaderUp) {
  ExpectRefused(::testing::TempDir(), 1, absl::StatusCode::kFailedPrecondition,
                "is not a regular file");
  const std::string pipe = absl::StrCat(::testing::TempDir(), "/pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0666), 0);
  ExpectRefused(pipe, 1, absl::StatusCode::kFailedPrecondition,
                "is not a regular file");
}

TEST(IdxFileTest, ATruncatedFileIsRefused) {
  ExpectRefused(
      WriteTestFile("f", IdxBytes({2, 2, 2}, {1, 2, 3})), 3,
      absl::StatusCode::kDataLoss,
      "is truncated: its header says 2x2x2 = 8 bytes follow; there are 3");
}

TEST(IdxFileTest, ATruncatedHeaderIsRefused) {
  const std::string bytes = IdxBytes({2, 2, 2}, {});
  ExpectRefused(WriteTestFile("f", bytes.substr(0, 9)), 3,
                absl::StatusCode::kDataLoss,
                "is truncated: it has 9 bytes; its header alone has 16");
  ExpectRefused(WriteTestFile("g", bytes.substr(0, 3)), 3,
                absl::StatusCode::kDataLoss,
                "is truncated: it has 3 bytes; an IDX header of 3 dimensions "
                "has 16");
  ExpectRefused(WriteTestFile("h", ""), 1, absl::StatusCode::kDataLoss,
                "is truncated: it has 0 bytes; an IDX header of 1 dimension "
                "has 8");
}

TEST(IdxFileTest, ACompressedFileCutAnywhereIsRefused) {
  std::vector<uint8_t> content(300);
  for (size_t i = 0; i < content.size(); ++i) {
    content[i] = static_cast<uint8_t>(i * i);
  }
  const std::string whole = Gzipped(IdxBytes({300}, content));
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string path = WriteTestFile("f", whole.substr(0, size));
    EXPECT_FALSE(ReadIdxFile(path, 1).ok()) << "cut after " << size;
  }
}

TEST(IdxFileTest, ACompressedFileWithoutItsChecksumIsTruncated) {
  const std::string whole = Gzipped(IdxBytes({2}, {7, 8}));
  ExpectRefused(WriteTestFile("f", whole.substr(0, whole.size() - 8)), 1,
                absl::StatusCode::kDataLoss,
                "is truncated: the checksum at its end is missing");
}

TEST(IdxFileTest, ADamagedCompressedFileIsRefused) {
  std::string bytes = Gzipped(IdxBytes({2}, {7, 8}));
  bytes[bytes.size() - 8] ^= 1;
  ExpectRefused(WriteTestFile("f", bytes), 1, absl::StatusCode::kDataLoss,
                "is damaged: gzip finds \"incorrect data check\"");
}

TEST(IdxFileTest, AFileLongerThanItsHeaderSaysIsRefused) {
  ExpectRefused(WriteTestFile("f", IdxBytes({2}, {1, 2, 3})), 1,
                absl::StatusCode::kDataLoss,
                "has more than the 2 bytes that its header says");
}

TEST(IdxFileTest, AnotherMagicIsRefused) {
  ExpectRefused(WriteTestFile("labels", IdxBytes({2}, {1, 2})), 3,
                absl::StatusCode::kInvalidArgument,
                "is not an IDX file of bytes in 3 dimensions: it begins with "
                "0x00000801; expected 0x00000803");
  ExpectRefused(WriteTestFile("text", "hello"), 1,
                absl::StatusCode::kInvalidArgument,
                "is not an IDX file of bytes in 1 dimension: it begins with "
                "0x68656c6c; expected 0x00000801");
}

TEST(IdxFileTest, ADimensionOfZeroIsRefused) {
  ExpectRefused(WriteTestFile("f", IdxBytes({2, 0, 3}, {})), 3,
                absl::StatusCode::kInvalidArgument,
                "holds nothing: its header says 2x0x3");
}

TEST(IdxFileTest, AClaimThatOverflowsIsRefused) {
  const uint32_t most = 0xffffffff;
  ExpectRefused(WriteTestFile("f", IdxBytes({most, most, most}, {1})), 3,
                absl::StatusCode::kResourceExhausted,
                "is too large: its header says "
                "4294967295x4294967295x4294967295 bytes; at most 4294967296 "
                "are admitted");
}

TEST(IdxFileTest, AClaimOfGigabytesInASmallFileIsRefusedByWhatIsThere) {
  ExpectRefused(WriteTestFile("f", IdxBytes({0xffffffff}, {1, 2})), 1,
                absl::StatusCode::kDataLoss,
                "is truncated: its header says 4294967295 bytes follow; there "
                "are 2");
}

}  // namespace
}  // namespace paramd
