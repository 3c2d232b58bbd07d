#include "config/nearest_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace paramd {
namespace {

// Longer words are no misspelt names, and comparing them costs time.
constexpr size_t kLongestWord = 64;

// Optimal string alignment distance.
int Distance(absl::string_view a, absl::string_view b) {
  std::vector<int> before(b.size() + 1);
  std::vector<int> last(b.size() + 1);
  std::vector<int> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1,
                         last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

std::string NearestName(absl::string_view word,
                        const std::vector<std::string>& known) {
  if (word.size() > kLongestWord) return "";
  const std::string lower = absl::AsciiStrToLower(word);
  int best = std::max<int>(2, static_cast<int>(word.size()) / 3) + 1;
  std::string nearest;
  for (const std::string& name : known) {
    const int distance = Distance(lower, name);
    // Two letters of two say nothing.
    if (distance < best && distance < static_cast<int>(name.size())) {
      best = distance;
      nearest = name;
    }
  }
  return nearest;
}

std::string NearestNameHint(absl::string_view word,
                            const std::vector<std::string>& known) {
  const std::string nearest = NearestName(word, known);
  if (!nearest.empty()) return absl::StrCat("; did you mean '", nearest, "'?");
  if (known.empty()) return "; no key is known here";
  return absl::StrCat("; known here: ", absl::StrJoin(known, ", "));
}

}  // namespace paramd
