#include "cli/signal_watcher.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include "cli/signal_pipe.h"

namespace paramd {
void SignalWatcher::Catch() { SignalPipe::Catch({SIGINT, SIGTERM}); }

SignalWatcher::SignalWatcher(std::function<void(int signal)> on_signal)
    : on_signal_(std::move(on_signal)) {
  stop_ = eventfd(0, EFD_CLOEXEC);
  thread_ = std::thread([this] { Loop(); });
}

SignalWatcher::~SignalWatcher() {
  if (thread_.joinable()) Stop();
  close(stop_);
}

void SignalWatcher::Stop() {
  eventfd_write(stop_, 1);
  thread_.join();
}

void SignalWatcher::Loop() {
  while (true) {
    pollfd fds[] = {{SignalPipe::fd(), POLLIN, 0}, {stop_, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0) continue;  // Interrupted, by such a signal.
    if (fds[1].revents != 0) return;
    const int signal = SignalPipe::Take();
    if (signal == 0) continue;
    if (signal_ != 0) _exit(128 + signal);
    signal_ = signal;
    on_signal_(signal);
  }
}

}  // namespace paramd
