#include "cli/commands/output_file.h"

#include <signal.h>
#include <sys/resource.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "cli/commands/unfinished_file.h"

namespace paramd {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Nobody writes a file that is longer, as if the disk were full.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    before_ = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit_);
    const rlimit full = {bytes, limit_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &full);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &limit_);
    signal(SIGXFSZ, before_);
  }

 private:
  sighandler_t before_;
  rlimit limit_ = {};
};

class OutputFileTest : public ::testing::Test {
 protected:
  OutputFileTest()
      : directory_(absl::StrCat(::testing::TempDir(), "/output_file_test")),
        path_(directory_ + "/trace.json") {
    fs::remove_all(directory_);
    fs::create_directory(directory_);
  }
  ~OutputFileTest() override { fs::remove_all(directory_); }

  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  // Hidden ones too.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  const std::string directory_;
  const std::string path_;
};

TEST_F(OutputFileTest, ItIsMadeAndReplaced) {
  ASSERT_TRUE(WriteOutputFile("--to", path_, "first and longer").ok());
  EXPECT_EQ(Read(path_), "first and longer");
  ASSERT_TRUE(WriteOutputFile("--to", path_, "second").ok());
  EXPECT_EQ(Read(path_), "second");
  EXPECT_THAT(Names(), ElementsAre("trace.json"));
}

TEST_F(OutputFileTest, OnAFullDiskWhatWasThereStaysAndNothingIsLeft) {
  absl::Status status;
  {
    const FullDisk full(4096);
    status = WriteOutputFile("--to", path_, std::string(1 << 20, 'x'));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(status.message(),
            absl::StrCat("--to: '", path_, "': File too large"));
  EXPECT_THAT(Names(), IsEmpty());
  ASSERT_TRUE(WriteOutputFile("--to", path_, "good").ok());
  {
    const FullDisk full(4096);
    status = WriteOutputFile("--to", path_, std::string(1 << 20, 'x'));
  }
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(Read(path_), "good");
  EXPECT_THAT(Names(), ElementsAre("trace.json"));
}

TEST_F(OutputFileTest, PieceByPieceItIsThereOnceItIsWhole) {
  ASSERT_TRUE(WriteOutputFile("--to", path_, "before").ok());
  {
    const auto file = OutputFile::Open("--to", path_);
    ASSERT_TRUE(file.ok()) << file.status();
    std::fputs("half", (*file)->stream());
    std::fflush((*file)->stream());
    EXPECT_EQ(Read(path_), "before");
    EXPECT_EQ(Names().size(), 2u);
  }
  EXPECT_EQ(Read(path_), "before");
  EXPECT_THAT(Names(), ElementsAre("trace.json"));
  const auto file = OutputFile::Open("--to", path_);
  ASSERT_TRUE(file.ok()) << file.status();
  std::fputs("first, ", (*file)->stream());
  std::fputs("second", (*file)->stream());
  EXPECT_TRUE((*file)->Finish().ok());
  EXPECT_EQ(Read(path_), "first, second");
  EXPECT_THAT(Names(), ElementsAre("trace.json"));
}

TEST_F(OutputFileTest, APieceThatWasNotWrittenIsAnErrorAtTheEnd) {
  const auto file = OutputFile::Open("--to", path_);
  ASSERT_TRUE(file.ok()) << file.status();
  {
    const FullDisk full(4096);
    const std::string text(1 << 20, 'x');
    EXPECT_LT(std::fwrite(text.data(), 1, text.size(), (*file)->stream()),
              text.size());
  }
  EXPECT_FALSE((*file)->Finish().ok());
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(OutputFileTest, WhereALinkLeadsIsWritten) {
  ASSERT_TRUE(WriteOutputFile("--to", path_, "first").ok());
  const std::string link = directory_ + "/link";
  fs::create_symlink("trace.json", link);
  ASSERT_TRUE(WriteOutputFile("--to", link, "second").ok());
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(Read(path_), "second");
}

TEST_F(OutputFileTest, ADeviceStaysOne) {
  ASSERT_TRUE(CheckOutputFile("--to", "/dev/null").ok());
  ASSERT_TRUE(WriteOutputFile("--to", "/dev/null", "text").ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(OutputFileTest, ALongNameIsOne) {
  const std::string path = absl::StrCat(directory_, "/", std::string(250, 'n'));
  ASSERT_TRUE(WriteOutputFile("--to", path, "text").ok());
  EXPECT_EQ(Read(path), "text");
}

TEST_F(OutputFileTest, WhatIsWrongIsSaidBeforeAndNothingIsMade) {
  EXPECT_TRUE(CheckOutputFile("--to", path_).ok());
  EXPECT_THAT(Names(), IsEmpty());
  for (const auto& [path, why] :
       std::vector<std::pair<std::string, std::string>>{
           {"/nowhere/t.json", "No such file or directory"},
           {directory_ + "/no/t.json", "No such file or directory"},
           {directory_, "Is a directory"},
           {"", "No such file or directory"},
           {"/dev/null/t.json", "Not a directory"}}) {
    const std::string expected = absl::StrCat("--to: '", path, "': ", why);
    const absl::Status checked = CheckOutputFile("--to", path);
    EXPECT_TRUE(absl::IsInvalidArgument(checked)) << checked;
    EXPECT_EQ(checked.message(), expected);
    EXPECT_EQ(WriteOutputFile("--to", path, "text").message(), expected);
  }
}

using OutputFileDeathTest = OutputFileTest;

TEST_F(OutputFileDeathTest, ASignalDeletesWhatIsUnfinished) {
  for (const int number : {SIGHUP, SIGINT, SIGTERM}) {
    ASSERT_TRUE(WriteOutputFile("--to", path_, "half").ok());
    EXPECT_EXIT(
        {
          signal(number, SIG_DFL);
          const UnfinishedFile unfinished(path_);
          raise(number);
        },
        ::testing::KilledBySignal(number), "");
    EXPECT_THAT(Names(), IsEmpty()) << number;
  }
}

TEST_F(OutputFileDeathTest, AfterwardsAndIgnoredASignalDoesWhatItDid) {
  ASSERT_TRUE(WriteOutputFile("--to", path_, "whole").ok());
  EXPECT_EXIT(
      {
        signal(SIGTERM, SIG_DFL);
        { const UnfinishedFile finished(path_); }
        raise(SIGTERM);
      },
      ::testing::KilledBySignal(SIGTERM), "");
  EXPECT_THAT(Names(), ElementsAre("trace.json"));
  const auto before = signal(SIGHUP, SIG_IGN);
  {
    const UnfinishedFile unfinished(path_);
    raise(SIGHUP);
  }
  signal(SIGHUP, before);
  EXPECT_THAT(Names(), ElementsAre("trace.json"));
}

}  // namespace
}  // namespace paramd
