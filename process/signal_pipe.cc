#include "process/signal_pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/check.h"

namespace paramd {
namespace {

int ends[2] = {-1, -1};

// In any thread, between any two instructions: only what POSIX allows there.
void OnSignal(int signal) {
  const int saved = errno;
  const unsigned char byte = static_cast<unsigned char>(signal);
  // A full pipe holds 65,536 signals already.
  if (write(ends[1], &byte, 1) != 1) errno = 0;
  errno = saved;
}

}  // namespace

absl::string_view SignalName(int signal) {
  switch (signal) {
    case SIGTERM:
      return "SIGTERM";
    case SIGINT:
      return "SIGINT";
    case SIGHUP:
      return "SIGHUP";
    default:
      return "a signal";
  }
}

StopSignals::Verdict StopSignals::Take(Time now) {
  if (!any_) {
    any_ = true;
    first_ = now;
    return Verdict::kFirst;
  }
  return now - first_ < repeat_ ? Verdict::kRepeat : Verdict::kSecond;
}

void SignalPipe::Catch(std::initializer_list<int> signals) {
  if (ends[0] < 0) {
    CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0, "there are descriptors");
  }
  std::signal(SIGPIPE, SIG_IGN);
  for (const int signal : signals) {
    struct sigaction before = {};
    sigaction(signal, nullptr, &before);
    if (signal == SIGHUP && before.sa_handler == SIG_IGN) continue;
    struct sigaction action = {};
    action.sa_handler = OnSignal;
    action.sa_flags = SA_RESTART;
    sigaction(signal, &action, nullptr);
  }
}

int SignalPipe::fd() { return ends[0]; }

int SignalPipe::Take() {
  unsigned char byte = 0;
  return read(ends[0], &byte, 1) == 1 ? byte : 0;
}

}  // namespace paramd
