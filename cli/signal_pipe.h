#ifndef PARAMD_CLI_SIGNAL_PIPE_H_
#define PARAMD_CLI_SIGNAL_PIPE_H_

#include <initializer_list>

namespace paramd {

// Signals as bytes in a pipe, so that a poll loop can wait for them. A handler
// writes them, in whatever thread the kernel picks: blocking signals and reading
// a signalfd is not enough, since a library may start threads of its own before
// main (OpenBLAS does), which block nothing and would die of the first SIGTERM.
//
// One in a process. Thread-safe.
class SignalPipe {
 public:
  SignalPipe() = delete;

  // Catches these signals from now on. What arrives waits in the pipe, also
  // before anybody looks. Called before the program starts threads; again: more
  // signals.
  static void Catch(std::initializer_list<int> signals);

  // Readable when a signal waits. REQUIRES: Catch was called.
  static int fd();
  // The oldest signal that waits; 0: none does. REQUIRES: Catch was called.
  static int Take();
};

}  // namespace paramd

#endif  // PARAMD_CLI_SIGNAL_PIPE_H_
