#ifndef PARAMD_PROCESS_TERMINAL_TEXT_LAYOUT_H_
#define PARAMD_PROCESS_TERMINAL_TEXT_LAYOUT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace paramd {

// How many columns `text` takes on a terminal. Every character that this
// program draws takes one.
size_t Columns(absl::string_view text);

// `text` with blanks after it, or before it, up to `columns`.
std::string Padded(absl::string_view text, size_t columns);
std::string AtRight(absl::string_view text, size_t columns);

// The first `columns` characters of a line.
std::string CutLine(absl::string_view line, int columns);

// Lines, of which the last one ends with a line break too, as they fit on
// `rows` rows of a terminal: each cut, and the last row says how many more
// there are. REQUIRES: rows > 0.
std::string CutLines(absl::string_view text, int columns, int rows);

// Rows of equally many cells under each other, two blanks between them; each
// ends with a line break and without blanks. Cells are escaped (EscapeLine):
// what one holds can't look like another row.
std::string Table(std::vector<std::vector<std::string>> rows);

// 0.24 → "0.2 s", 83 → "83 s", 125 → "2 min 5 s", 7290 → "2 h 1 min".
std::string SecondsText(double seconds);

}  // namespace paramd

#endif  // PARAMD_PROCESS_TERMINAL_TEXT_LAYOUT_H_
