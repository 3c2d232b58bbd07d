#include "process/signal_watcher.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

#include "base/clock.h"
#include "base/log.h"

namespace paramd {
namespace {

// What a line may take where whoever reads stderr is slow.
constexpr absl::Duration kMoment = absl::Seconds(1);
constexpr absl::Duration kLongestPoll = absl::Hours(1);

// Logs, but waits no longer than that: a pipe that nobody reads blocks the
// thread that writes, which may not be the one that hears the next signal.
void LogWithinAMoment(LogLevel level, absl::string_view event, int signal) {
  const auto said = std::make_shared<std::promise<void>>();
  std::thread([=, event = std::string(event)] {
    Log(level, event, {{"signal", SignalName(signal)}});
    said->set_value();
  }).detach();
  said->get_future().wait_for(absl::ToChronoMilliseconds(kMoment));
}

}  // namespace

void SignalWatcher::Catch() { SignalPipe::Catch({SIGINT, SIGTERM, SIGHUP}); }

SignalWatcher::SignalWatcher(Handler handler, absl::Duration repeat)
    : signals_(repeat), handler_(std::move(handler)) {
  stop_ = eventfd(0, EFD_CLOEXEC);
  thread_ = std::thread([this] { Loop(); });
}

SignalWatcher::~SignalWatcher() {
  // While a handler is under way a second signal is still heard.
  { MutexLock lock(&mutex_); }
  eventfd_write(stop_, 1);
  thread_.join();
  if (first_.joinable()) first_.join();
  close(stop_);
}

void SignalWatcher::Handle(Handler handler) {
  MutexLock lock(&mutex_);
  handler_ = std::move(handler);
}

void SignalWatcher::EndWithin(absl::Duration patience, Handler handler) {
  MutexLock lock(&late_mutex_);
  patience_ = patience;
  late_ = std::move(handler);
}

void SignalWatcher::Loop() {
  while (true) {
    pollfd fds[] = {{SignalPipe::fd(), POLLIN, 0}, {stop_, POLLIN, 0}};
    const int ready = poll(fds, 2, MillisecondsLeft());
    if (ready < 0) continue;  // Interrupted, by such a signal.
    if (ready == 0) {
      OnPatienceOver();
      continue;
    }
    if (fds[1].revents != 0) return;
    const int signal = SignalPipe::Take();
    if (signal != 0) OnSignal(signal);
  }
}

void SignalWatcher::OnSignal(int signal) {
  switch (signals_.Take(MonotonicNow())) {
    case StopSignals::Verdict::kFirst:
      first_at_ = MonotonicNow();
      first_signal_ = signal;
      first_ = std::thread([this, signal] { OnFirst(signal); });
      return;
    case StopSignals::Verdict::kRepeat:
      LogWithinAMoment(LogLevel::kInfo, "a repeat of the signal counts once",
                       signal);
      return;
    case StopSignals::Verdict::kSecond:
      LogWithinAMoment(LogLevel::kWarning,
                       "a second signal: ending at once, undrained", signal);
      LeaveFirst();
      _exit(128 + signal);
  }
}

int SignalWatcher::MillisecondsLeft() {
  MutexLock lock(&late_mutex_);
  if (first_at_ == Time::Never() || late_ == nullptr) return -1;
  const absl::Duration left = first_at_ + patience_ - MonotonicNow();
  return static_cast<int>(absl::ToInt64Milliseconds(
      std::clamp(absl::Ceil(left, absl::Milliseconds(1)), absl::ZeroDuration(),
                 kLongestPoll)));
}

void SignalWatcher::OnPatienceOver() {
  Handler late;
  {
    MutexLock lock(&late_mutex_);
    if (MonotonicNow() - first_at_ < patience_) return;
    late = late_;
  }
  first_at_ = Time::Never();
  LogWithinAMoment(LogLevel::kWarning,
                   "what is under way has not ended: ending without it",
                   first_signal_);
  LeaveFirst();
  late(first_signal_);
}

void SignalWatcher::LeaveFirst() {
  if (first_.joinable()) first_.detach();
}

void SignalWatcher::OnFirst(int signal) {
  MutexLock lock(&mutex_);
  signal_ = signal;
  handler_(signal);
}

}  // namespace paramd
