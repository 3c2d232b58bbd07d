#include "cli/signal_watcher.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <future>

namespace paramd {
namespace {

TEST(SignalWatcherTest, TheFirstSignalIsHandedOn) {
  SignalWatcher::Catch();
  std::promise<int> seen;
  SignalWatcher watcher([&](int signal) { seen.set_value(signal); });
  EXPECT_EQ(watcher.signal(), 0);
  kill(getpid(), SIGTERM);
  EXPECT_EQ(seen.get_future().get(), SIGTERM);
  EXPECT_EQ(watcher.signal(), SIGTERM);
}

TEST(SignalWatcherTest, ASignalAfterTheStopWaitsForTheNextWatcher) {
  SignalWatcher::Catch();
  std::promise<int> first;
  SignalWatcher watcher([&](int signal) { first.set_value(signal); });
  kill(getpid(), SIGTERM);
  EXPECT_EQ(first.get_future().get(), SIGTERM);
  watcher.Stop();
  EXPECT_EQ(watcher.signal(), SIGTERM);
  kill(getpid(), SIGINT);
  std::promise<int> second;
  SignalWatcher next([&](int signal) { second.set_value(signal); });
  EXPECT_EQ(second.get_future().get(), SIGINT);
}

TEST(SignalWatcherDeathTest, TheSecondSignalEndsTheProcessAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        SignalWatcher::Catch();
        std::promise<void> seen;
        SignalWatcher watcher([&](int) { seen.set_value(); });
        kill(getpid(), SIGTERM);
        seen.get_future().wait();
        kill(getpid(), SIGINT);
        std::promise<void>().get_future().wait();
      },
      ::testing::ExitedWithCode(130), "");
}

}  // namespace
}  // namespace paramd
