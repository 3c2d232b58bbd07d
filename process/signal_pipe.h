#ifndef PARAMD_PROCESS_SIGNAL_PIPE_H_
#define PARAMD_PROCESS_SIGNAL_PIPE_H_

#include <initializer_list>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "base/time.h"

namespace paramd {

// "SIGTERM"; "a signal" for one that asks for no end.
absl::string_view SignalName(int signal);

// Which of the signals that ask for the end is meant as another one. `timeout`
// sends SIGTERM to its child and to its group, and a terminal that is closed
// sends SIGHUP beside it: what follows the first within kRepeat is the same.
//
// Not thread-safe.
class StopSignals {
 public:
  static constexpr absl::Duration kRepeat = absl::Seconds(2);
  enum class Verdict { kFirst, kRepeat, kSecond };

  explicit StopSignals(absl::Duration repeat = kRepeat) : repeat_(repeat) {}

  Verdict Take(Time now);

 private:
  const absl::Duration repeat_;
  bool any_ = false;
  Time first_;
};

// Signals as bytes in a pipe, so that a poll loop can wait for them. A handler
// writes them, in whatever thread the kernel picks: blocking signals and
// reading a signalfd is not enough, since a library may start threads of its
// own before main (OpenBLAS does), which block nothing and would die of the
// first SIGTERM.
//
// One in a process. Thread-safe.
class SignalPipe {
 public:
  SignalPipe() = delete;

  // Catches these signals from now on. What arrives waits in the pipe, also
  // before anybody looks. SIGHUP stays ignored where it was, as nohup wants it.
  // SIGPIPE is ignored: whoever reads the output may go (`| head`), the work
  // goes on. Called before the program starts threads; again: more signals.
  static void Catch(std::initializer_list<int> signals);

  // Readable when a signal waits. REQUIRES: Catch was called.
  static int fd();
  // The oldest signal that waits; 0: none does. REQUIRES: Catch was called.
  static int Take();
};

}  // namespace paramd

#endif  // PARAMD_PROCESS_SIGNAL_PIPE_H_
