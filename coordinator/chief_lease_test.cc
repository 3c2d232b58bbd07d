#include "coordinator/chief_lease.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

class ChiefLeaseTest : public ::testing::Test {
 protected:
  ChiefLeaseTest()
      : run_(absl::StrCat(
            ::testing::TempDir(), "/",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(run_);
  }

  // Process `pid` of a machine; whoever has to wait is counted.
  ChiefLease::Options Process(uint32_t pid, const std::string& boot = "boot") {
    ChiefLease::Options options;
    options.run_directory = run_;
    options.host = absl::StrCat("host-", boot);
    options.pid = pid;
    options.incarnation = pid;
    options.heartbeat = absl::Milliseconds(10);
    options.boot = boot;
    options.lives = [this](uint32_t) { return they_live_; };
    options.wait = [this](absl::Duration) {
      ++waits_;
      if (meanwhile_) meanwhile_();
    };
    return options;
  }

  // As another process has left it, or another machine just now: no lock is
  // seen here.
  void Write(uint32_t pid, const std::string& boot, uint64_t beat) {
    std::filesystem::create_directories(run_ + "/configuration");
    std::ofstream(File()) << "{\"host\":\"host-" << boot << "\",\"pid\":" << pid
                          << ",\"incarnation\":\"" << pid << "\",\"boot\":\""
                          << boot << "\",\"beat\":\"" << beat << "\"}";
  }
  // As one that is not the chief in the file, or is dying.
  int HoldLock() {
    const int file =
        ::open((File() + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    struct flock whole = {};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    EXPECT_EQ(::fcntl(file, F_OFD_SETLK, &whole), 0);
    return file;
  }
  std::string File() const { return run_ + "/configuration/chief"; }

  const std::string run_;
  int waits_ = 0;
  bool they_live_ = true;
  std::function<void()> meanwhile_;
};

TEST_F(ChiefLeaseTest, ALivingChiefRefusesTheSecondByHostAndProcessAtOnce) {
  const auto first = ChiefLease::Take(Process(1));
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = ChiefLease::Take(Process(2));
  EXPECT_TRUE(absl::IsAlreadyExists(second.status())) << second.status();
  EXPECT_THAT(second.status().message(),
              HasSubstr("is process 1 on host-boot, which is alive"));
  EXPECT_EQ(waits_, 0);
}

TEST_F(ChiefLeaseTest, OneThatIsElectedWaitsForNobodyAndEvictsTheOneBefore) {
  auto first = ChiefLease::Take(Process(1));
  ASSERT_TRUE(first.ok()) << first.status();
  std::promise<absl::Status> lost;
  (*first)->Keep([&](absl::Status status) { lost.set_value(status); });
  ChiefLease::Options elected = Process(2);
  elected.is_elected = true;
  const auto second = ChiefLease::Take(elected);
  EXPECT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(waits_, 0);
  EXPECT_TRUE(absl::IsAlreadyExists(lost.get_future().get()));
}

TEST_F(ChiefLeaseTest, AfterADeadChiefOfThisMachineNobodyWaits) {
  Write(1, "boot", 7);
  EXPECT_TRUE(ChiefLease::Take(Process(2)).ok());
  EXPECT_EQ(waits_, 0);
}

TEST_F(ChiefLeaseTest, ADyingChiefThatStillHoldsItsLockIsWaitedFor) {
  Write(1, "boot", 7);
  const int dying = HoldLock();
  they_live_ = false;
  meanwhile_ = [dying] { ::close(dying); };
  const auto second = ChiefLease::Take(Process(2));
  EXPECT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(waits_, 1);
}

TEST_F(ChiefLeaseTest, ALockThatAMachineWithoutPowerLeftRefusesNobody) {
  Write(1, "boot", 7);
  const int left = HoldLock();
  they_live_ = false;
  const auto second = ChiefLease::Take(Process(2));
  EXPECT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(waits_, 3);
  ::close(left);
}

TEST_F(ChiefLeaseTest, ALockedChiefWhoseProcessIsNotSeenLivesIfItsFileChanges) {
  Write(1, "boot", 7);
  const int held = HoldLock();
  they_live_ = false;
  meanwhile_ = [this] { Write(1, "boot", 8); };
  const auto second = ChiefLease::Take(Process(2));
  EXPECT_TRUE(absl::IsAlreadyExists(second.status())) << second.status();
  EXPECT_EQ(waits_, 1);
  ::close(held);
}

TEST_F(ChiefLeaseTest, AWaitForAnotherIsNoLongerThanAHeartbeatMayBe) {
  std::filesystem::create_directories(run_ + "/configuration");
  std::ofstream(File()) << "{\"incarnation\":\"1\",\"beat_ms\":4000000000}";
  ChiefLease::Options options = Process(2);
  options.wait = [](absl::Duration time) {
    EXPECT_EQ(time, absl::Minutes(10));
  };
  EXPECT_TRUE(ChiefLease::Take(options).ok());
}

// Another process of this program, which lives until it is ended.
class Twin {
 public:
  Twin() : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) ::pause();
  }
  ~Twin() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
};

TEST_F(ChiefLeaseTest, NeitherAnEndedProcessNorThisOneIsAnotherThatLives) {
  EXPECT_TRUE(ChiefLease::AnotherLives(Twin().pid()));
  EXPECT_FALSE(ChiefLease::AnotherLives(1)) << "another program";
  EXPECT_FALSE(ChiefLease::AnotherLives(::getpid()));
  const pid_t ended = ::fork();
  if (ended == 0) ::_exit(0);
  siginfo_t info;
  ASSERT_EQ(::waitid(P_PID, ended, &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(ChiefLease::AnotherLives(ended)) << "not yet waited for";
  ASSERT_EQ(::waitpid(ended, nullptr, 0), ended);
  EXPECT_FALSE(ChiefLease::AnotherLives(ended));
}

TEST_F(ChiefLeaseTest,
       AfterADeadChiefOfAnotherMachineThreeHeartbeatsAreWaited) {
  Write(1, "other", 7);
  EXPECT_TRUE(ChiefLease::Take(Process(2)).ok());
  EXPECT_EQ(waits_, 3);
}

TEST_F(ChiefLeaseTest, AfterOneThatItsSupervisorSawEndNobodyWaits) {
  Write(1, "other", 7);
  auto second = Process(2);
  second.replaces = 1;
  EXPECT_TRUE(ChiefLease::Take(second).ok());
  EXPECT_EQ(waits_, 0);
}

TEST_F(ChiefLeaseTest, AfterOneThatLetGoNobodyWaitsOnAnyMachine) {
  const auto first = ChiefLease::Take(Process(1, "other"));
  ASSERT_TRUE(first.ok()) << first.status();
  (*first)->LetGo();
  const auto second = ChiefLease::Take(Process(2));
  EXPECT_TRUE(second.ok()) << second.status();
}

TEST_F(ChiefLeaseTest, ALivingChiefOfAnotherMachineRefusesTheSecond) {
  Write(1, "other", 7);
  meanwhile_ = [this] { Write(1, "other", 8); };
  const auto second = ChiefLease::Take(Process(2));
  EXPECT_TRUE(absl::IsAlreadyExists(second.status())) << second.status();
  EXPECT_THAT(second.status().message(), HasSubstr("process 1 on host-other"));
  EXPECT_EQ(waits_, 1);
}

TEST_F(ChiefLeaseTest, OneThatEndsWhileItIsWatchedIsFollowed) {
  Write(1, "other", 7);
  meanwhile_ = [this] {
    Write(1, "other", 8);
    std::ofstream(File()) << "{\"incarnation\":\"1\",\"released\":true}";
  };
  EXPECT_TRUE(ChiefLease::Take(Process(2)).ok());
  EXPECT_EQ(waits_, 1);
}

TEST_F(ChiefLeaseTest, WhoHasLostItIsToldByWhomAndLeavesItAlone) {
  const auto first = ChiefLease::Take(Process(1));
  ASSERT_TRUE(first.ok()) << first.status();
  Write(2, "other", 1);
  std::promise<absl::Status> lost;
  (*first)->Keep(
      [&lost](absl::Status status) { lost.set_value(std::move(status)); });
  const absl::Status status = lost.get_future().get();
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  EXPECT_THAT(status.message(),
              HasSubstr("process 2 on host-other now, which has taken over"));
  (*first)->LetGo();
  std::string text;
  std::getline(std::ifstream(File()) >> std::ws, text);
  EXPECT_THAT(text, HasSubstr("\"incarnation\":\"2\""));
}

TEST_F(ChiefLeaseTest, WhatTheOneBeforeWritesLateEvictsNobody) {
  Write(1, "other", 7);
  const auto second = ChiefLease::Take(Process(2));
  ASSERT_TRUE(second.ok()) << second.status();
  Write(1, "other", 8);
  // A beat, at least.
  (*second)->Keep([](absl::Status status) { ADD_FAILURE() << status; });
  (*second)->LetGo();
  std::string text;
  std::getline(std::ifstream(File()) >> std::ws, text);
  EXPECT_THAT(text, HasSubstr("\"incarnation\":\"2\""));
  EXPECT_THAT(text, HasSubstr("\"released\":true"));
}

TEST_F(ChiefLeaseTest, WhatCannotBeReadIsWatchedAndThenPassedOver) {
  std::filesystem::create_directories(run_ + "/configuration");
  std::ofstream(File()) << "torn";
  EXPECT_TRUE(ChiefLease::Take(Process(2)).ok());
  EXPECT_EQ(waits_, 3);
}

TEST_F(ChiefLeaseTest, ADirectoryIsFreeUnlessALivingChiefOfThisMachineHasIt) {
  EXPECT_TRUE(ChiefLease::CheckFree(run_).ok());
  const Twin chief;
  auto first =
      ChiefLease::Take(Process(chief.pid(), ChiefLease::BootOfThisMachine()));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(absl::IsAlreadyExists(ChiefLease::CheckFree(run_)));
  first->reset();
  EXPECT_TRUE(ChiefLease::CheckFree(run_).ok());
  Write(::getpid(), ChiefLease::BootOfThisMachine(), 7);
  const int left = HoldLock();
  EXPECT_TRUE(ChiefLease::CheckFree(run_).ok()) << "of a machine without power";
  ::close(left);
}

}  // namespace
}  // namespace paramd
