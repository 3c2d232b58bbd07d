#include "checkpoint/fetched_files.h"

#include <cerrno>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/crc32c.h"
#include "checkpoint/testing/system_calls.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::SystemCalls;

constexpr char kText[] = "header and tensors";

class FetchedFilesTest : public ::testing::Test {
 protected:
  FetchedFilesTest()
      : directory_(absl::StrCat(
            ::testing::TempDir(), "/fetched-",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    EXPECT_TRUE(RemoveTree(directory_).ok());
    EXPECT_TRUE(MakeDirectories(directory_).ok());
  }

  // Bytes of kText as the file `name`.
  absl::StatusOr<v1::WriteFetchedResult> Write(FetchedFiles* files,
                                               const std::string& name,
                                               uint64_t offset, size_t size) {
    v1::WriteFetched request;
    request.set_directory(directory_);
    request.set_name(name);
    request.set_offset(offset);
    request.set_total(text_.size());
    const std::string bytes = text_.substr(offset, size);
    return files->Write(request, {Buffer::Copy(bytes.substr(0, 1)),
                                  Buffer::Copy(bytes.substr(1))});
  }
  std::vector<std::string> Names() { return *ListDirectory(directory_); }

  std::string directory_;
  const std::string text_ = kText;
};

TEST_F(FetchedFilesTest, WindowsBecomeOneFileWithItsSum) {
  FetchedFiles files;
  auto written = Write(&files, "a", 0, 7);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->bytes(), 7u);
  EXPECT_THAT(Names(), ElementsAre(".a.fetched"));
  ASSERT_TRUE(Write(&files, "b", 0, 3).ok()) << "side by side";
  written = Write(&files, "a", 7, 100);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->bytes(), text_.size());
  EXPECT_EQ(written->crc32c(), Crc32c(AsBytes<char>(text_)));
  EXPECT_EQ(*ReadWholeFile(absl::StrCat(directory_, "/a"), 100), text_);
  EXPECT_THAT(Names(), ElementsAre(".b.fetched", "a"));
}

TEST_F(FetchedFilesTest, FromItsBeginningItIsBegunAnew) {
  FetchedFiles files;
  ASSERT_TRUE(Write(&files, "a", 0, 7).ok());
  ASSERT_TRUE(Write(&files, "a", 0, 9).ok());
  const auto written = Write(&files, "a", 9, 100);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->crc32c(), Crc32c(AsBytes<char>(text_)));
}

TEST_F(FetchedFilesTest, AWindowThatDoesNotFollowIsRefusedAndChangesNothing) {
  FetchedFiles files;
  EXPECT_EQ(Write(&files, "a", 3, 4).status().message(),
            absl::StrCat("bytes from 3 of '", directory_,
                         "/a' were to be written; it has 0"));
  ASSERT_TRUE(Write(&files, "a", 0, 7).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Write(&files, "a", 8, 4).status()));
  EXPECT_TRUE(Write(&files, "a", 7, 100).ok());
}

TEST_F(FetchedFilesTest, NoNameLeadsOutOfTheDirectory) {
  FetchedFiles files;
  EXPECT_TRUE(absl::IsInvalidArgument(Write(&files, "../a", 0, 7).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(Write(&files, "manifest.json", 0, 7).status()));
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(FetchedFilesTest, OneWhoseEndNeverComesLeavesNothing) {
  {
    FetchedFiles files;
    ASSERT_TRUE(Write(&files, "a", 0, 7).ok());
  }
  EXPECT_THAT(Names(), IsEmpty());
  FetchedFiles files;
  ASSERT_TRUE(Write(&files, "a", 0, 7).ok());
  const std::string first = directory_;
  directory_ += "-next";
  ASSERT_TRUE(RemoveTree(directory_).ok() && MakeDirectories(directory_).ok());
  ASSERT_TRUE(Write(&files, "a", 0, 7).ok());
  EXPECT_THAT(*ListDirectory(first), IsEmpty());
}

TEST_F(FetchedFilesTest, AFullDiskIsNamedAndNothingIsLeft) {
  FetchedFiles files;
  ASSERT_TRUE(Write(&files, "a", 0, 7).ok());
  absl::StatusOr<v1::WriteFetchedResult> written;
  {
    const SystemCalls full(SystemCalls::Fault::kFull, 1, ENOSPC);
    written = Write(&files, "a", 7, 100);
  }
  EXPECT_TRUE(absl::IsResourceExhausted(written.status())) << written.status();
  EXPECT_THAT(Names(), IsEmpty());
}

}  // namespace
}  // namespace paramd
