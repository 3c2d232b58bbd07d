#include "process/audit_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"

#include "base/mutex.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A disk that hangs until it is told to go on.
class Disk {
 public:
  absl::Status Write(const std::string& path, const std::string& lines) {
    {
      MutexLock lock(&mutex_);
      ++begun_;
      changed_.NotifyAll();
      while (hangs_) changed_.Wait(&mutex_);
    }
    const absl::Status status = AuditLog::AppendLines(path, lines);
    MutexLock lock(&mutex_);
    ++done_;
    changed_.NotifyAll();
    return status;
  }
  void Hang(bool hangs) {
    MutexLock lock(&mutex_);
    hangs_ = hangs;
    changed_.NotifyAll();
  }
  void WaitUntilBegun(int writes) {
    MutexLock lock(&mutex_);
    while (begun_ < writes) changed_.Wait(&mutex_);
  }
  void WaitUntilDone(int writes) {
    MutexLock lock(&mutex_);
    while (done_ < writes) changed_.Wait(&mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int begun_ ABSL_GUARDED_BY(mutex_) = 0;
  int done_ ABSL_GUARDED_BY(mutex_) = 0;
  bool hangs_ ABSL_GUARDED_BY(mutex_) = false;
};

class AuditLogTest : public ::testing::Test {
 protected:
  AuditLogTest()
      : directory_(absl::StrCat(
            ::testing::TempDir(), "/",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    mkdir(directory_.c_str(), 0700);
    options_.write = [disk = disk_](const std::string& path,
                                    const std::string& lines) {
      return disk->Write(path, lines);
    };
    options_.most_waiting = 4;
  }

  static v1::OperatorCall Call(uint64_t number) {
    v1::OperatorCall call;
    call.set_number(number);
    call.mutable_origin()->set_who("reader/0");
    call.set_call("StopJob");
    call.set_refused("may not");
    return call;
  }

  std::string Text() const {
    std::ifstream file(directory_ + "/audit.jsonl", std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(file)), {});
  }
  std::vector<std::string> Lines() const {
    return absl::StrSplit(Text(), '\n', absl::SkipEmpty());
  }
  // What an entry of this number has in it.
  static std::string Number(uint64_t number) {
    return absl::StrCat("\"process\":\"ps-0\",\"number\":", number, ",");
  }

  const std::string directory_;
  const std::shared_ptr<Disk> disk_ = std::make_shared<Disk>();
  AuditLog::Options options_;
};

TEST_F(AuditLogTest, EachCallIsALine) {
  {
    AuditLog log(directory_, "ps-0");
    log.Append(Call(1));
    log.Append(Call(2));
  }
  EXPECT_THAT(Lines(), ElementsAre(StartsWith("{\"time\":\"1970-01-01T"),
                                   HasSubstr(Number(2))));
  EXPECT_THAT(Lines()[0],
              HasSubstr("\"who\":\"reader/0\",\"address\":\"\",\"call\":"
                        "\"StopJob\",\"asks\":\"\",\"refused\":\"may not\"}"));
}

TEST_F(AuditLogTest,
       Promise8_NobodyWaitsForADiskThatHangsAndTheQueueIsBounded) {
  {
    AuditLog log(directory_, "ps-0", options_);
    disk_->Hang(true);
    log.Append(Call(1));
    disk_->WaitUntilBegun(1);
    for (uint64_t number = 2; number <= 8; ++number) log.Append(Call(number));
    EXPECT_EQ(log.dropped(), 3u);
    EXPECT_EQ(Text(), "");
    disk_->Hang(false);
  }
  EXPECT_THAT(Lines(),
              ElementsAre(HasSubstr(Number(1)),
                          HasSubstr("\"process\":\"ps-0\",\"dropped\":3}"),
                          HasSubstr(Number(2)), HasSubstr(Number(3)),
                          HasSubstr(Number(4)), HasSubstr(Number(5))));
}

TEST_F(AuditLogTest, ADiskThatHangsDoesNotKeepTheProcess) {
  options_.patience = absl::Milliseconds(1);
  {
    AuditLog log(directory_, "ps-0", options_);
    disk_->Hang(true);
    log.Append(Call(1));
    disk_->WaitUntilBegun(1);
    log.Append(Call(2));
  }
  EXPECT_EQ(Text(), "");
  disk_->Hang(false);
  disk_->WaitUntilDone(1);
  // What was under way, and nothing after it.
  EXPECT_THAT(Lines(), ElementsAre(HasSubstr(Number(1))));
}

TEST_F(AuditLogTest, WhatDoesNotFitOnTheDiskIsCountedAndSaidLater) {
  int writes = 0;  // Of the log's thread, until that has ended.
  options_.write = [&writes](const std::string& path,
                             const std::string& lines) {
    return AuditLog::AppendLines(++writes <= 2 ? "/dev/full" : path, lines);
  };
  options_.most_waiting = 100;
  {
    AuditLog log(directory_, "ps-0", options_);
    for (uint64_t number = 1; number <= 4; ++number) log.Append(Call(number));
  }
  EXPECT_THAT(Lines(), ElementsAre(HasSubstr("\"dropped\":2}"),
                                   HasSubstr(Number(3)), HasSubstr(Number(4))));
}

TEST_F(AuditLogTest, WhatIsMissingIsSaidOnceThoughTheDiskIsFullAgainThen) {
  int writes = 0;
  options_.write = [&writes](const std::string& path,
                             const std::string& lines) {
    if (++writes == 1 || writes == 3) {
      return absl::UnavailableError("No space left on device");
    }
    // There is room for one line.
    const size_t end = lines.find('\n') + 1;
    const absl::Status status =
        AuditLog::AppendLines(path, lines.substr(0, end));
    return end == lines.size() ? status : absl::UnavailableError("cut short");
  };
  options_.most_waiting = 100;
  {
    AuditLog log(directory_, "ps-0", options_);
    for (uint64_t number = 1; number <= 3; ++number) log.Append(Call(number));
  }
  EXPECT_THAT(Lines(),
              ElementsAre(HasSubstr("\"dropped\":1}"),
                          HasSubstr("\"dropped\":1}"), HasSubstr(Number(3))));
}

TEST_F(AuditLogTest, HalfALineIsNobodysBeginning) {
  const std::string path = directory_ + "/audit.jsonl";
  std::ofstream(path) << "{\"time\":\"2026-11";
  ASSERT_TRUE(AuditLog::AppendLines(path, "{}\n").ok());
  ASSERT_TRUE(AuditLog::AppendLines(path, "{}\n").ok());
  EXPECT_EQ(Text(), "{\"time\":\"2026-11\n{}\n{}\n");
  EXPECT_EQ(AuditLog::AppendLines("/dev/full", "{}\n"),
            absl::UnavailableError("No space left on device"));
  EXPECT_EQ(AuditLog::AppendLines(path + "/x", "{}\n"),
            absl::UnavailableError("Not a directory"));
}

TEST_F(AuditLogTest, WithoutADirectoryNothingIsKept) {
  { AuditLog("", "ps-0").Append(Call(1)); }
  AuditLog log(directory_ + "/none", "ps-0");
  log.Append(Call(1));
  EXPECT_EQ(log.dropped(), 0u);
}

TEST_F(AuditLogTest, ADirectoryThatCanNotBeReachedIsNotOneThatIsNotThere) {
  std::ofstream(directory_ + "/file") << "no directory";
  AuditLog log(directory_ + "/file/run", "ps-0");
  log.Append(Call(1));
  while (log.dropped() == 0) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(log.dropped(), 1u);
}

}  // namespace
}  // namespace paramd
