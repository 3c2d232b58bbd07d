#include "checkpoint/whole_directory.h"

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/status_macros.h"
#include "checkpoint/file.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class WholeDirectoryTest : public ::testing::Test {
 protected:
  WholeDirectoryTest()
      : root_(absl::StrCat(
            ::testing::TempDir(), "/whole_directory_",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }

  static absl::Status Write(const std::string& path) {
    ASSIGN_OR_RETURN(const auto file, NewFile::Create(path));
    RETURN_IF_ERROR(file->Append("content"));
    return file->Finish();
  }

  std::vector<std::string> InRoot() const { return *ListDirectory(root_); }

  const std::string root_;
};

TEST_F(WholeDirectoryTest, ItHasItsNameWhenAllIsInIt) {
  std::string hidden;
  const auto made = MakeWholeDirectory(
      root_ + "/out", [&](const std::string& directory) -> absl::Status {
        hidden = directory;
        RETURN_IF_ERROR(Write(directory + "/b"));
        RETURN_IF_ERROR(Write(directory + "/a"));
        EXPECT_FALSE(std::filesystem::exists(root_ + "/out"));
        return absl::OkStatus();
      });
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(*made, ElementsAre("a", "b"));
  EXPECT_THAT(hidden, StartsWith(root_ + "/.out."));
  EXPECT_THAT(InRoot(), ElementsAre("out"));
  EXPECT_EQ(*ReadWholeFile(root_ + "/out/a", 100), "content");
}

TEST_F(WholeDirectoryTest, NothingIsLeftOfOneThatCouldNotBeFilled) {
  const auto made = MakeWholeDirectory(
      root_ + "/out", [&](const std::string& directory) -> absl::Status {
        RETURN_IF_ERROR(Write(directory + "/a"));
        return absl::DataLossError("row 3 is damaged");
      });
  EXPECT_EQ(made.status(), absl::DataLossError("row 3 is damaged"));
  EXPECT_THAT(InRoot(), IsEmpty());
}

// Each deletes what it takes for a leftover, while the others begin.
TEST_F(WholeDirectoryTest, OfSeveralThatMakeTheSameOneOneDoes) {
  constexpr int kRounds = 20;
  constexpr int kMakers = 4;
  for (int round = 0; round < kRounds; ++round) {
    const std::string path = absl::StrCat(root_, "/out", round);
    std::vector<absl::Status> made(kMakers);
    std::vector<std::thread> threads;
    for (absl::Status& status : made) {
      threads.emplace_back([&path, &status] {
        status = MakeWholeDirectory(path, [](const std::string& directory) {
                   return Write(directory + "/a");
                 }).status();
      });
    }
    for (std::thread& thread : threads) thread.join();
    int ok = 0;
    for (const absl::Status& status : made) {
      ok += status.ok() ? 1 : 0;
      EXPECT_TRUE(status.ok() || absl::IsAlreadyExists(status)) << status;
    }
    EXPECT_EQ(ok, 1);
    EXPECT_THAT(*ListDirectory(path), ElementsAre("a"));
  }
  EXPECT_EQ(InRoot().size(), static_cast<size_t>(kRounds));
}

TEST_F(WholeDirectoryTest, AnEmptyOneIsReplacedAndAnyOtherKept) {
  std::filesystem::create_directories(root_ + "/empty");
  std::filesystem::create_directories(root_ + "/full/of");
  const auto fill = [](const std::string& directory) {
    return Write(directory + "/a");
  };
  ASSERT_TRUE(MakeWholeDirectory(root_ + "/empty", fill).ok());
  EXPECT_THAT(*ListDirectory(root_ + "/empty"), ElementsAre("a"));
  EXPECT_EQ(MakeWholeDirectory(root_ + "/full", fill).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(*ListDirectory(root_ + "/full"), ElementsAre("of"));
  EXPECT_THAT(InRoot(), ElementsAre("empty", "full"));
}

}  // namespace
}  // namespace paramd
