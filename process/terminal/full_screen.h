#ifndef PARAMD_PROCESS_TERMINAL_FULL_SCREEN_H_
#define PARAMD_PROCESS_TERMINAL_FULL_SCREEN_H_

#include <termios.h>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace paramd {

// The terminal behind stdin and stdout, taken as a whole: the screen that was
// there comes back when this goes, and while the process is stopped (Ctrl-Z).
//
// One at a time, on one thread: it has signal handlers.
class FullScreen {
 public:
  struct Size {
    int columns = 80;
    int rows = 24;
  };

  FullScreen();
  ~FullScreen();
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;

  static Size SizeNow();
  // Draws lines from the top; what was below goes. They have to fit.
  void Show(absl::string_view lines);
  // The next key, or 0 when `timeout` has passed or the frame has to be drawn
  // again (another size, back from a stop).
  char NextKey(absl::Duration timeout);
  // SIGINT, SIGTERM or SIGHUP came; 0: none did.
  static int EndingSignal();

 private:
  void Enter();
  void Leave();

  termios before_ = {};
};

}  // namespace paramd

#endif  // PARAMD_PROCESS_TERMINAL_FULL_SCREEN_H_
