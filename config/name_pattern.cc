#include "config/name_pattern.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "base/check.h"

namespace paramd {

NamePattern::NamePattern(absl::string_view text)
    : parts_(absl::StrSplit(text, '*')) {}

absl::optional<std::vector<std::string>> NamePattern::Match(
    absl::string_view name) const {
  std::vector<std::string> texts;
  if (stars() == 0) {
    if (name != parts_[0]) return absl::nullopt;
    return texts;
  }
  if (!absl::ConsumePrefix(&name, parts_.front()) ||
      !absl::ConsumeSuffix(&name, parts_.back())) {
    return absl::nullopt;
  }
  for (size_t i = 1; i + 1 < parts_.size(); ++i) {
    const size_t found = name.find(parts_[i]);
    if (found == absl::string_view::npos) return absl::nullopt;
    texts.emplace_back(name.substr(0, found));
    name.remove_prefix(found + parts_[i].size());
  }
  texts.emplace_back(name);
  return texts;
}

std::string NamePattern::Fill(absl::Span<const std::string> texts) const {
  CHECK(texts.size() == stars(), "there is a text for each star");
  std::string name = parts_[0];
  for (size_t i = 0; i < texts.size(); ++i) {
    absl::StrAppend(&name, texts[i], parts_[i + 1]);
  }
  return name;
}

bool MatchesAny(absl::string_view patterns, absl::string_view name) {
  for (const absl::string_view pattern :
       absl::StrSplit(patterns, ',', absl::SkipEmpty())) {
    if (NamePattern(pattern).Match(name).has_value()) return true;
  }
  return false;
}

absl::optional<std::string> Renamed(absl::string_view from,
                                    absl::string_view to,
                                    absl::string_view name) {
  const std::vector<absl::string_view> patterns = absl::StrSplit(from, ',');
  const std::vector<absl::string_view> names = absl::StrSplit(to, ',');
  for (size_t i = 0; i < patterns.size(); ++i) {
    const auto texts = NamePattern(patterns[i]).Match(name);
    if (!texts.has_value()) continue;
    if (to.empty()) return std::string(name);
    CHECK(i < names.size(), "there is a name for each pattern");
    return NamePattern(names[i]).Fill(*texts);
  }
  return absl::nullopt;
}

}  // namespace paramd
