#include "process/terminal/full_screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "absl/strings/str_replace.h"

namespace paramd {
namespace {

volatile sig_atomic_t ending_signal = 0;
volatile sig_atomic_t is_to_stop = 0;

void OnEndingSignal(int number) { ending_signal = number; }
void OnStopSignal(int) { is_to_stop = 1; }
void OnOtherSignal(int) {}  // Wakes NextKey.

// Without SA_RESTART, so that poll ends.
void Handle(int number, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigaction(number, &action, nullptr);
}

void WriteAll(absl::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(STDOUT_FILENO, text.data(), text.size());
    if (count <= 0) return;  // Nobody reads any more.
    text.remove_prefix(count);
  }
}

}  // namespace

FullScreen::FullScreen() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    Handle(number, OnEndingSignal);
  }
  Handle(SIGTSTP, OnStopSignal);
  Handle(SIGWINCH, OnOtherSignal);
  Enter();
}

FullScreen::~FullScreen() { Leave(); }

void FullScreen::Enter() {
  tcgetattr(STDIN_FILENO, &before_);
  termios single_keys = before_;
  single_keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  tcsetattr(STDIN_FILENO, TCSANOW, &single_keys);
  WriteAll("\x1b[?1049h\x1b[?25l");
}

void FullScreen::Leave() {
  WriteAll("\x1b[?25h\x1b[?1049l");
  tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

FullScreen::Size FullScreen::SizeNow() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 ||
      size.ws_row == 0) {
    return {};
  }
  return {size.ws_col, size.ws_row};
}

void FullScreen::Show(absl::string_view lines) {
  // In one piece: home, each line up to its end, and all below.
  WriteAll("\x1b[?2026h\x1b[H" +
           absl::StrReplaceAll(lines, {{"\n", "\x1b[K\n"}}) +
           "\x1b[J\x1b[?2026l");
}

char FullScreen::NextKey(absl::Duration timeout) {
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  const int ready =
      poll(&input, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout)));
  if (is_to_stop != 0) {
    is_to_stop = 0;
    Leave();
    raise(SIGSTOP);
    Enter();
    return 0;
  }
  char key = 0;
  if (ready <= 0) return 0;
  if (read(STDIN_FILENO, &key, 1) != 1) ending_signal = SIGHUP;
  return key;
}

int FullScreen::EndingSignal() { return ending_signal; }

}  // namespace paramd
