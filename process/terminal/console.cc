#include "process/terminal/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"

#include "base/print.h"

namespace paramd {
namespace {

void Write(std::FILE* file, absl::string_view text) {
  Print(text, file);
  std::fflush(file);
}

}  // namespace

void Console::ProcessLine(absl::string_view task, absl::string_view line) {
  if (in_place_ && IsRoutineLogLine(line)) return;
  EraseBlock();
  Write(err_, absl::StrCat("[", task, "] ", line, "\n"));
  DrawBlock();
}

void Console::Say(absl::string_view sentence) {
  EraseBlock();
  Write(err_, absl::StrCat("paramd: ", sentence, "\n"));
  DrawBlock();
}

void Console::Print(absl::string_view text) {
  EraseBlock();
  Write(out_, text);
  DrawBlock();
}

void Console::ShowBlock(absl::string_view block) {
  if (!in_place_) return;
  EraseBlock();
  block_ = std::string(block);
  DrawBlock();
}

void Console::KeepBlock() { block_.clear(); }

void Console::EraseBlock() {
  const auto lines = std::count(block_.begin(), block_.end(), '\n');
  // Up to its first line, then clear from there to the end of the screen.
  if (lines > 0)
    std::fprintf(out_, "\x1b[%ldF\x1b[J", static_cast<long>(lines));
}

void Console::DrawBlock() {
  if (!block_.empty()) Write(out_, block_);
}

bool IsRoutineLogLine(absl::string_view line) {
  const size_t space = line.find(' ');
  if (space == absl::string_view::npos) return false;
  const absl::string_view rest = line.substr(space + 1);
  const absl::string_view level = rest.substr(0, rest.find(' '));
  return line.find('T') < space && (level == "info" || level == "debug");
}

bool StdoutIsTerminal() {
  const char* kind = std::getenv("TERM");
  return isatty(STDOUT_FILENO) == 1 && kind != nullptr &&
         absl::string_view(kind) != "dumb";
}

int TerminalWidth(std::FILE* out) {
  winsize size = {};
  if (ioctl(fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return 80;
  }
  return size.ws_col;
}

}  // namespace paramd
