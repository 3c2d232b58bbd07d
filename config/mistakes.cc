#include "config/mistakes.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace paramd {

std::string Place::ToString() const {
  return line == 0 ? source : absl::StrCat(source, ":", line);
}

void Mistakes::Add(const Place& place, absl::string_view path,
                   absl::string_view sentence) {
  if (entries_.size() == kMost) {
    ++more_;
    return;
  }
  entries_.push_back({place, std::string(path), std::string(sentence)});
}

bool Mistakes::HasUnder(absl::string_view path) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [path](const Entry& entry) {
                       if (!absl::StartsWith(entry.path, path)) return false;
                       if (path.empty() || entry.path.size() == path.size())
                         return true;
                       const char next = entry.path[path.size()];
                       return next == '.' || next == '[';
                     });
}

bool Mistakes::HasAt(absl::string_view path) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [path](const Entry& e) { return e.path == path; });
}

absl::Status Mistakes::ToStatus() const {
  if (entries_.empty()) return absl::OkStatus();
  std::map<std::string, int> rank;
  for (const Entry& entry : entries_) {
    rank.emplace(entry.place.source, static_cast<int>(rank.size()));
  }
  std::vector<Entry> sorted = entries_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&rank](const Entry& a, const Entry& b) {
                     const int left = rank.at(a.place.source);
                     const int right = rank.at(b.place.source);
                     if (left != right) return left < right;
                     return a.place.line < b.place.line;
                   });
  std::vector<std::string> lines;
  for (const Entry& entry : sorted) {
    lines.push_back(absl::StrCat(entry.place.ToString(), ": ", entry.path,
                                 entry.path.empty() ? "" : ": ",
                                 entry.sentence));
  }
  if (more_ > 0) lines.push_back(absl::StrCat("and ", more_, " more mistakes"));
  return absl::InvalidArgumentError(absl::StrJoin(lines, "\n"));
}

}  // namespace paramd
