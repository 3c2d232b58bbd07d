#include "checkpoint/file.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/crc32c.h"
#include "tensor/buffer.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FileTest : public ::testing::Test {
 protected:
  FileTest()
      : directory_(absl::StrCat(
            ::testing::TempDir(), "/",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }

  const std::string directory_;
};

TEST_F(FileTest, AFinishedFileStaysWithItsSum) {
  const std::string path = directory_ + "/new";
  {
    auto file = NewFile::Create(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Append("hello ").ok());
    ASSERT_TRUE((*file)->Append("world").ok());
    ASSERT_TRUE((*file)->Finish().ok());
    EXPECT_EQ((*file)->bytes(), 11u);
  }
  EXPECT_EQ(*ReadWholeFile(path, 100), "hello world");
  const absl::string_view text = "hello world";
  EXPECT_EQ(SumFile(path)->crc32c,
            Crc32c(AsBytes<char>({text.data(), text.size()})));
  EXPECT_EQ(SumFile(path)->bytes, 11u);
}

TEST_F(FileTest, APipeIsNoFileAndDoesNotHoldItsReaderUp) {
  const std::string path = directory_ + "/pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0666), 0);
  const absl::Status refused = ReadWholeFile(path, 100).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(refused.message(),
            absl::StrCat("'", path, "' is not a regular file"));
}

TEST_F(FileTest, AnUnfinishedFileIsGone) {
  { ASSERT_TRUE((*NewFile::Create(directory_ + "/new"))->Append("x").ok()); }
  EXPECT_THAT(*ListDirectory(directory_), IsEmpty());
}

TEST_F(FileTest, AFileThatIsThereIsNotTouched) {
  const std::string path = directory_ + "/new";
  std::ofstream(path) << "old";
  EXPECT_EQ(NewFile::Create(path).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(*ReadWholeFile(path, 100), "old");
}

TEST_F(FileTest, FinishAsReplacesTheOld) {
  std::ofstream(directory_ + "/old") << "old";
  auto file = NewFile::Create(directory_ + "/new");
  ASSERT_TRUE((*file)->Append("new").ok());
  ASSERT_TRUE((*file)->FinishAs(directory_ + "/old").ok());
  EXPECT_THAT(*ListDirectory(directory_), ElementsAre("old"));
  EXPECT_EQ(*ReadWholeFile(directory_ + "/old", 100), "new");
}

TEST_F(FileTest, AFailedRenameLeavesNothing) {
  {
    auto file = NewFile::Create(directory_ + "/new");
    EXPECT_EQ((*file)->FinishAs(directory_ + "/no/where").code(),
              absl::StatusCode::kNotFound);
  }
  EXPECT_THAT(*ListDirectory(directory_), IsEmpty());
}

TEST_F(FileTest, ReadingHasALimitAndAnEnd) {
  const std::string path = directory_ + "/file";
  std::ofstream(path) << "12345";
  EXPECT_EQ(ReadWholeFile(path, 4).status().code(),
            absl::StatusCode::kResourceExhausted);
  const auto file = ReadableFile::Open(path);
  std::byte bytes[4];
  EXPECT_TRUE((*file)->ReadAt(1, absl::MakeSpan(bytes)).ok());
  EXPECT_EQ((*file)->ReadAt(2, absl::MakeSpan(bytes)).code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReadableFile::Open(directory_).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(FileTest, DirectoriesAreMadeListedAndRemoved) {
  ASSERT_TRUE(MakeDirectories(directory_ + "/a/b/c").ok());
  ASSERT_TRUE(MakeDirectories(directory_ + "/a/b/c").ok());
  EXPECT_TRUE(IsDirectory(directory_ + "/a/b/c"));
  EXPECT_EQ(RenamePath(directory_ + "/a", directory_ + "/a2").code(),
            absl::StatusCode::kOk);
  ASSERT_TRUE(MakeDirectories(directory_ + "/full/x").ok());
  EXPECT_EQ(RenamePath(directory_ + "/a2", directory_ + "/full").code(),
            absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(RemoveTree(directory_ + "/a2").ok());
  ASSERT_TRUE(RemoveTree(directory_ + "/a2").ok());
  EXPECT_THAT(*ListDirectory(directory_), ElementsAre("full"));
  EXPECT_EQ(ListDirectory(directory_ + "/a2").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(PathTest, IsMadeAbsoluteAndSplit) {
  EXPECT_EQ(*AbsolutePath("/a/b/../c/"), "/a/c");
  EXPECT_EQ(AbsolutePath("x")->front(), '/');
  EXPECT_EQ(DirectoryOf("/a/b"), "/a");
  EXPECT_EQ(DirectoryOf("a"), ".");
}

}  // namespace
}  // namespace paramd
