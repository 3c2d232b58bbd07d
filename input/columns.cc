#include "input/columns.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/shorten.h"

namespace paramd {

bool EndsInQuote(absl::string_view text, const ColumnFormat& format,
                 bool in_quote) {
  if (!format.quotes || (!in_quote && !absl::StrContains(text, '"'))) {
    return false;
  }
  size_t at = 0;
  for (;;) {
    if (in_quote || (at < text.size() && text[at] == '"')) {
      if (!in_quote) ++at;
      for (;;) {
        at = text.find('"', at);
        if (at == absl::string_view::npos) return true;
        ++at;
        if (at >= text.size() || text[at] != '"') break;
        ++at;  // Two quotes are one.
      }
      in_quote = false;
    }
    at = text.find(format.separator, at);
    if (at == absl::string_view::npos) return false;
    at += format.separator.size();
  }
}

absl::Status SplitColumns(absl::string_view row, const ColumnFormat& format,
                          std::vector<std::string>* values) {
  values->clear();
  size_t at = 0;
  for (;;) {
    std::string value;
    if (format.quotes && at < row.size() && row[at] == '"') {
      for (++at;; ++at) {
        if (at >= row.size()) {
          return absl::InvalidArgumentError(
              absl::StrCat("a quote has no end", kIfNoQuotes));
        }
        if (row[at] == '"') {
          if (at + 1 >= row.size() || row[at + 1] != '"') break;
          ++at;  // Two quotes are one.
        }
        value.push_back(row[at]);
      }
      ++at;
      if (at < row.size() &&
          !absl::StartsWith(row.substr(at), format.separator)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "column ", values->size() + 1, " has '", Shortened(row.substr(at)),
            "' after the quote that ends it", kIfNoQuotes));
      }
    } else {
      const size_t end = std::min(row.find(format.separator, at), row.size());
      value = std::string(row.substr(at, end - at));
      at = end;
    }
    values->push_back(std::move(value));
    if (at >= row.size()) return absl::OkStatus();
    at += format.separator.size();
  }
}

}  // namespace paramd
