#include "cli/signal_watcher.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <utility>

namespace paramd {
namespace {

sigset_t WatchedSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

void SignalWatcher::Block() {
  const sigset_t set = WatchedSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

SignalWatcher::SignalWatcher(std::function<void(int signal)> on_signal)
    : on_signal_(std::move(on_signal)) {
  const sigset_t set = WatchedSignals();
  signals_ = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  stop_ = eventfd(0, EFD_CLOEXEC);
  thread_ = std::thread([this] { Loop(); });
}

SignalWatcher::~SignalWatcher() {
  eventfd_write(stop_, 1);
  thread_.join();
  close(signals_);
  close(stop_);
}

void SignalWatcher::Loop() {
  while (true) {
    pollfd fds[] = {{signals_, POLLIN, 0}, {stop_, POLLIN, 0}};
    poll(fds, 2, -1);
    if (fds[1].revents != 0) return;
    signalfd_siginfo info;
    if (read(signals_, &info, sizeof(info)) != sizeof(info)) continue;
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal_ != 0) _exit(128 + signal);
    signal_ = signal;
    on_signal_(signal);
  }
}

}  // namespace paramd
