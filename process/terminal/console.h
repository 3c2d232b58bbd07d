#ifndef PARAMD_PROCESS_TERMINAL_CONSOLE_H_
#define PARAMD_PROCESS_TERMINAL_CONSOLE_H_

#include <cstdio>
#include <string>

#include "absl/strings/string_view.h"

namespace paramd {

// Where people read. On a terminal a block of text stays at the bottom and is
// replaced in place, and of the processes' lines only warnings and errors are
// shown above it (their logs have the rest); elsewhere every line goes to
// `err`, after the name of its process, and there is no block.
//
// Not thread-safe. The streams are borrowed.
class Console {
 public:
  // `in_place`: `out` is a terminal that understands escape sequences.
  Console(std::FILE* out, std::FILE* err, bool in_place)
      : out_(out), err_(err), in_place_(in_place) {}

  bool in_place() const { return in_place_; }

  // A line that the process `task` printed.
  void ProcessLine(absl::string_view task, absl::string_view line);
  // Something that this process has to say, to `err`.
  void Say(absl::string_view sentence);
  // Text to `out`, above the block if there is one.
  void Print(absl::string_view text);
  // Replaces the block. Ends with a line break. Nothing if not in place.
  void ShowBlock(absl::string_view block);
  // The block stays where it is; the next one comes below.
  void KeepBlock();

 private:
  void EraseBlock();
  void DrawBlock();

  std::FILE* const out_;
  std::FILE* const err_;
  const bool in_place_;
  std::string block_;
};

// Whether a log line is of the levels that report normal work, "info" and
// "debug". A line that is not in the form of base/log.h is not.
bool IsRoutineLogLine(absl::string_view line);

// Whether stdout is a terminal that understands escape sequences.
bool StdoutIsTerminal();

// Columns of the terminal behind `out`; 80 if it does not say.
int TerminalWidth(std::FILE* out);

}  // namespace paramd

#endif  // PARAMD_PROCESS_TERMINAL_CONSOLE_H_
