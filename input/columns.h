#ifndef PARAMD_INPUT_COLUMNS_H_
#define PARAMD_INPUT_COLUMNS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace paramd {

// How the columns of a row of text are told from each other.
struct ColumnFormat {
  std::string separator = ",";  // One character or several.
  // A column that begins with " goes on to the next ", separators and line ends
  // included; two of them are one (RFC 4180). Else " is a character as others.
  bool quotes = true;
};

// What to add to a sentence about a row that quotes may have made.
inline constexpr absl::string_view kIfNoQuotes =
    "; if \" is a character as others there, give \"quotes\": false";

// Whether a text that begins with a column, or `in_quote`, ends inside quotes:
// then its row goes on behind it.
bool EndsInQuote(absl::string_view text, const ColumnFormat& format,
                 bool in_quote);

// The values of a row. INVALID_ARGUMENT, saying what is wrong, if a quote has
// no end, or text stands behind one.
absl::Status SplitColumns(absl::string_view row, const ColumnFormat& format,
                          std::vector<std::string>* values);

}  // namespace paramd

#endif  // PARAMD_INPUT_COLUMNS_H_
