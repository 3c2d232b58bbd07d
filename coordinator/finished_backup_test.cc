#include "coordinator/finished_backup.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "checkpoint/file.h"

namespace paramd {
namespace {

namespace fs = std::filesystem;

// A directory that is new and goes with the test.
class NewDirectory {
 public:
  explicit NewDirectory(const std::string& root) : path_(root + "/XXXXXX") {
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
  }
  ~NewDirectory() { fs::remove_all(path_); }

  std::string operator/(const std::string& name) const {
    return absl::StrCat(path_, "/", name);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

constexpr char kCheckpoint[] = "checkpoints/000001-00000002.step-9";

void Write(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << text;
}

std::string Read(const std::string& path) {
  return ReadWholeFile(path, 1 << 20).value_or("");
}

void MakeBackup(const std::string& backup) {
  Write(absl::StrCat(backup, "/", kCheckpoint, "/manifest.json"), "{}");
  Write(absl::StrCat(backup, "/checkpoints/.run"), "whose");
  Write(absl::StrCat(backup, "/checkpoints/.trash-old/manifest.json"), "{}");
  Write(absl::StrCat(backup, "/configuration/1"), "finished");
}

void ExpectMoved(const std::string& backup, const std::string& run) {
  EXPECT_EQ(Read(absl::StrCat(run, "/", kCheckpoint, "/manifest.json")), "{}");
  EXPECT_EQ(Read(run + "/checkpoints/.run"), "whose");
  EXPECT_EQ(Read(run + "/configuration/1"), "finished");
  EXPECT_FALSE(fs::exists(run + "/checkpoints/.trash-old"));
  EXPECT_FALSE(fs::exists(run + "/committed"));
  EXPECT_FALSE(fs::exists(backup));
}

class FinishedBackupTest : public ::testing::Test {
 protected:
  FinishedBackupTest() : root_(::testing::TempDir()) {
    MakeBackup(backup_);
    Write(run_ + "/committed", "where it was");
  }

  NewDirectory root_;
  const std::string backup_ = root_ / "backup";
  const std::string run_ = root_ / "run";
};

TEST_F(FinishedBackupTest, TheRunHasItAllAndTheBackupIsGone) {
  ASSERT_TRUE(TakeOutOfBackup(backup_, run_).ok());
  ExpectMoved(backup_, run_);
}

TEST_F(FinishedBackupTest, WhatWasCutOffGoesOn) {
  fs::create_directories(run_ + "/checkpoints");
  fs::rename(absl::StrCat(backup_, "/", kCheckpoint),
             absl::StrCat(run_, "/", kCheckpoint));
  fs::remove(run_ + "/committed");
  ASSERT_TRUE(TakeOutOfBackup(backup_, run_).ok());
  ExpectMoved(backup_, run_);
}

// From another file system: what has its new name is complete, and the old one
// is there still, wholly or in part.
TEST_F(FinishedBackupTest, WhatWasCutOffBehindACopyGoesOn) {
  const std::string checkpoint = absl::StrCat(backup_, "/", kCheckpoint);
  Write(checkpoint + "/ps", "numbers");
  for (const bool log_too : {false, true}) {
    fs::remove_all(run_ + "/configuration");
    MakeBackup(backup_);
    fs::create_directories(run_ + "/checkpoints");
    fs::copy(
        checkpoint, absl::StrCat(run_, "/", kCheckpoint),
        fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    fs::remove(checkpoint + "/ps");
    Write(run_ + "/checkpoints/.copy-000001-00000002.step-9/ps", "half");
    if (log_too) {
      fs::copy(backup_ + "/configuration", run_ + "/configuration");
      fs::remove_all(backup_ + "/checkpoints");
    }
    ASSERT_TRUE(TakeOutOfBackup(backup_, run_).ok());
    ExpectMoved(backup_, run_);
    EXPECT_EQ(Read(absl::StrCat(run_, "/", kCheckpoint, "/ps")), "numbers");
    EXPECT_EQ(log_too, fs::exists(run_ + "/checkpoints/.copy-000001-00000002"
                                         ".step-9"));
  }
}

TEST_F(FinishedBackupTest, WhatIsSomebodyElsesStays) {
  Write(backup_ + "/notes", "mine");
  ASSERT_TRUE(TakeOutOfBackup(backup_, run_).ok());
  EXPECT_EQ(Read(backup_ + "/notes"), "mine");
  EXPECT_EQ(Read(run_ + "/configuration/1"), "finished");
}

TEST_F(FinishedBackupTest, ARunThatIsThereIsNotWrittenOver) {
  Write(run_ + "/configuration/1", "another");
  const absl::Status status = TakeOutOfBackup(backup_, run_);
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << status;
  EXPECT_EQ(Read(run_ + "/configuration/1"), "another");
  EXPECT_EQ(Read(backup_ + "/configuration/1"), "finished");
  EXPECT_EQ(Read(run_ + "/committed"), "where it was");
}

TEST_F(FinishedBackupTest, ItMayLieOnAnotherFileSystem) {
  struct stat here = {}, there = {};
  if (stat("/dev/shm", &there) != 0 || stat(root_.path().c_str(), &here) != 0 ||
      here.st_dev == there.st_dev) {
    GTEST_SKIP() << "needs a second file system at /dev/shm";
  }
  const NewDirectory other("/dev/shm");
  MakeBackup(other / "backup");
  ASSERT_TRUE(TakeOutOfBackup(other / "backup", run_).ok());
  ExpectMoved(other / "backup", run_);
  EXPECT_FALSE(fs::exists(absl::StrCat(run_, "/.copy-configuration")));
}

}  // namespace
}  // namespace paramd
