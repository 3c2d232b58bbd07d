#include "process/terminal/text_layout.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/escape.h"

namespace paramd {

size_t Columns(absl::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (c & 0xC0) != 0x80; });
}

std::string Padded(absl::string_view text, size_t columns) {
  const size_t used = Columns(text);
  return absl::StrCat(text,
                      std::string(columns > used ? columns - used : 0, ' '));
}

std::string AtRight(absl::string_view text, size_t columns) {
  const size_t used = Columns(text);
  return absl::StrCat(std::string(columns > used ? columns - used : 0, ' '),
                      text);
}

std::string CutLine(absl::string_view line, int columns) {
  int seen = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(line[i]) & 0xc0) != 0x80;
    if (begins && ++seen > columns) return std::string(line.substr(0, i));
  }
  return std::string(line);
}

std::string CutLines(absl::string_view text, int columns, int rows) {
  const auto lines = std::count(text.begin(), text.end(), '\n');
  const auto shown = lines > rows ? rows - 1 : lines;
  std::string cut;
  for (auto i = shown; i > 0; --i) {
    const size_t end = text.find('\n');
    absl::StrAppend(&cut, CutLine(text.substr(0, end), columns), "\n");
    text.remove_prefix(end + 1);
  }
  if (shown < lines) {
    absl::StrAppend(
        &cut,
        CutLine(absl::StrCat("and ", lines - shown, " more lines"), columns),
        "\n");
  }
  return cut;
}

std::string Table(std::vector<std::vector<std::string>> rows) {
  for (auto& row : rows) {
    for (std::string& cell : row) cell = EscapeLine(cell);
  }
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], Columns(row[i]));
    }
  }
  std::string table;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&line, i == 0 ? "" : "  ", Padded(row[i], widths[i]));
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&table, line, "\n");
  }
  return table;
}

std::string SecondsText(double seconds) {
  if (seconds < 10) return absl::StrFormat("%.1f s", seconds);
  const int64_t whole = std::llround(seconds);
  if (whole < 120) return absl::StrCat(whole, " s");
  if (whole < 7200)
    return absl::StrFormat("%d min %d s", whole / 60, whole % 60);
  return absl::StrFormat("%d h %d min", whole / 3600, whole % 3600 / 60);
}

}  // namespace paramd
