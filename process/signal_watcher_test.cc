#include "process/signal_watcher.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <future>
#include <thread>

#include "base/log.h"

namespace paramd {
namespace {

class SignalWatcherTest : public ::testing::Test {
 protected:
  SignalWatcherTest() { SignalWatcher::Catch(); }

  static void WaitUntilTaken() {
    pollfd waiting = {SignalPipe::fd(), POLLIN, 0};
    while (poll(&waiting, 1, 0) == 1) std::this_thread::yield();
  }
};

TEST_F(SignalWatcherTest, TheFirstSignalIsHandedOn) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    std::promise<int> seen;
    SignalWatcher watcher([&](int signal) { seen.set_value(signal); });
    EXPECT_EQ(watcher.signal(), 0);
    kill(getpid(), signal);
    EXPECT_EQ(seen.get_future().get(), signal);
    EXPECT_EQ(watcher.signal(), signal);
  }
}

TEST_F(SignalWatcherTest, ASignalOfBeforeIsHandedOn) {
  kill(getpid(), SIGTERM);
  std::promise<int> seen;
  SignalWatcher watcher([&](int signal) { seen.set_value(signal); });
  EXPECT_EQ(seen.get_future().get(), SIGTERM);
}

TEST_F(SignalWatcherTest, TheHandlerOfTheStepThatIsUnderWayIsCalled) {
  std::promise<int> second;
  SignalWatcher watcher([](int) { ADD_FAILURE() << "of the step before"; });
  watcher.Handle([&](int signal) { second.set_value(signal); });
  kill(getpid(), SIGINT);
  EXPECT_EQ(second.get_future().get(), SIGINT);
}

TEST_F(SignalWatcherTest, ARepeatIsNotHandedOnAndEndsNobody) {
  int calls = 0;
  {
    SignalWatcher watcher([&](int) { ++calls; }, absl::InfiniteDuration());
    for (const int signal : {SIGTERM, SIGTERM, SIGHUP}) {
      kill(getpid(), signal);
      WaitUntilTaken();
    }
  }
  EXPECT_EQ(calls, 1);
}

TEST_F(SignalWatcherTest, NobodyIsEndedWithoutASignalOrBeforeItsTime) {
  std::promise<void> first;
  SignalWatcher watcher([&](int) { first.set_value(); });
  watcher.EndWithin(absl::ZeroDuration(), [](int) { ADD_FAILURE(); });
  watcher.EndWithin(absl::Hours(1000), [](int) { ADD_FAILURE(); });
  kill(getpid(), SIGTERM);
  first.get_future().wait();
}

TEST(SignalWatcherDeathTest, ASecondSignalIsNamedAndEndsTheProcessAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        SignalWatcher::Catch();
        std::promise<void> seen;
        SignalWatcher watcher([&](int) { seen.set_value(); },
                              absl::ZeroDuration());
        kill(getpid(), SIGTERM);
        seen.get_future().wait();
        kill(getpid(), SIGINT);
        std::promise<void>().get_future().wait();
      },
      ::testing::ExitedWithCode(130),
      "a second signal: ending at once, undrained signal=SIGINT");
}

TEST(SignalWatcherDeathTest, WhatHasNotEndedInTimeIsEndedWithoutIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // Whether the first signal's handler has returned or hangs.
  for (const bool hangs : {false, true}) {
    EXPECT_EXIT(
        {
          SignalWatcher::Catch();
          SignalWatcher watcher(
              [&](int) {
                if (hangs) std::promise<void>().get_future().wait();
              },
              absl::InfiniteDuration());
          watcher.EndWithin(absl::Milliseconds(1), [](int) { _exit(1); });
          watcher.EndWithin(absl::Milliseconds(1),
                            [](int signal) { _exit(128 + signal); });
          kill(getpid(), SIGTERM);
          std::promise<void>().get_future().wait();
        },
        ::testing::ExitedWithCode(143),
        "what is under way has not ended: ending without it signal=SIGTERM");
  }
}

// Stderr becomes a pipe that is full and that nobody reads.
void FillStderr() {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  const char bytes[4096] = {};
  while (write(ends[1], bytes, sizeof(bytes)) > 0) {
  }
  ASSERT_EQ(fcntl(ends[1], F_SETFL, 0), 0);
  ASSERT_EQ(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
}

TEST(SignalWatcherDeathTest, ASecondSignalEndsAProcessWhoseOutputIsNotRead) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer's _exit flushes stderr, which is full";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        FillStderr();
        SignalWatcher::Catch();
        std::promise<void> seen;
        SignalWatcher watcher(
            [&](int) {
              seen.set_value();
              Log(LogLevel::kInfo, "draining");
            },
            absl::ZeroDuration());
        kill(getpid(), SIGTERM);
        seen.get_future().wait();
        kill(getpid(), SIGINT);
        std::promise<void>().get_future().wait();
      },
      ::testing::ExitedWithCode(130), "");
}

}  // namespace
}  // namespace paramd
