#include "process/signal_pipe.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(SignalPipeTest, SignalsWaitInTheirOrder) {
  SignalPipe::Catch({SIGUSR1, SIGUSR2});
  EXPECT_EQ(SignalPipe::Take(), 0);
  raise(SIGUSR2);
  raise(SIGUSR1);
  pollfd ready = {SignalPipe::fd(), POLLIN, 0};
  EXPECT_EQ(poll(&ready, 1, 0), 1);
  EXPECT_EQ(SignalPipe::Take(), SIGUSR2);
  EXPECT_EQ(SignalPipe::Take(), SIGUSR1);
  EXPECT_EQ(SignalPipe::Take(), 0);
}

TEST(SignalPipeTest, SighupStaysIgnoredUnderNohup) {
  std::signal(SIGHUP, SIG_IGN);
  SignalPipe::Catch({SIGHUP});
  raise(SIGHUP);
  EXPECT_EQ(SignalPipe::Take(), 0);
  std::signal(SIGHUP, SIG_DFL);
  SignalPipe::Catch({SIGHUP});
  raise(SIGHUP);
  EXPECT_EQ(SignalPipe::Take(), SIGHUP);
}

TEST(SignalPipeTest, APipeThatNobodyReadsEndsNobody) {
  SignalPipe::Catch({});
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  EXPECT_EQ(write(ends[1], "x", 1), -1);
  close(ends[1]);
}

TEST(StopSignalsTest, ARepeatWithinTwoSecondsCountsOnce) {
  StopSignals signals;
  const Time start = Time() + absl::Seconds(7);
  EXPECT_EQ(signals.Take(start), StopSignals::Verdict::kFirst);
  EXPECT_EQ(signals.Take(start), StopSignals::Verdict::kRepeat);
  EXPECT_EQ(signals.Take(start + absl::Milliseconds(1999)),
            StopSignals::Verdict::kRepeat);
  EXPECT_EQ(signals.Take(start + absl::Seconds(2)),
            StopSignals::Verdict::kSecond);
}

// As one that a library started before main.
TEST(SignalPipeTest, AThreadThatBlocksNothingMayGetTheSignal) {
  SignalPipe::Catch({SIGTERM});
  std::thread stranger(
      [] { syscall(SYS_tgkill, getpid(), gettid(), SIGTERM); });
  stranger.join();
  EXPECT_EQ(SignalPipe::Take(), SIGTERM);
}

}  // namespace
}  // namespace paramd
