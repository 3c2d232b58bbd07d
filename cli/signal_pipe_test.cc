#include "cli/signal_pipe.h"

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

// As one that a library started before main.
TEST(SignalPipeTest, AThreadThatBlocksNothingMayGetTheSignal) {
  SignalPipe::Catch({SIGTERM});
  std::thread stranger([] { syscall(SYS_tgkill, getpid(), gettid(), SIGTERM); });
  stranger.join();
  EXPECT_EQ(SignalPipe::Take(), SIGTERM);
}

}  // namespace
}  // namespace paramd
