#ifndef PARAMD_CONFIG_NAME_PATTERN_H_
#define PARAMD_CONFIG_NAME_PATTERN_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

namespace paramd {

// A name in which each `*` stands for any text, also for none.
//
//   NamePattern("dense_*/kernel").Match("dense_2/kernel");  // {"2"}
//   NamePattern("layers.*.weight").Fill({"2"});             // layers.2.weight
//
// Immutable, hence thread-safe.
class NamePattern {
 public:
  explicit NamePattern(absl::string_view text);

  // What each `*` stands for in `name`, the first one for as little as
  // possible, then the second one, and so on; nothing if it is no such name.
  absl::optional<std::vector<std::string>> Match(absl::string_view name) const;

  // The name in which each `*` is replaced by one of `texts`. REQUIRES: as
  // many as stars().
  std::string Fill(absl::Span<const std::string> texts) const;

  size_t stars() const { return parts_.size() - 1; }

 private:
  std::vector<std::string> parts_;  // What stands around the stars.
};

// Whether one of the patterns, which are separated by commas, is such a name.
// No pattern at all: no.
//
//   MatchesAny("head/*,*/bias", "dense_2/bias");  // true
bool MatchesAny(absl::string_view patterns, absl::string_view name);

// What `name` is called by the first of the patterns `from`, which are
// separated by commas, that is such a name: the pattern at the same place of
// `to`, filled; `name` itself if `to` is empty. Nothing if none of them is such
// a name. REQUIRES: `to` is empty or has as many patterns, each with as many
// stars.
//
//   Renamed("*/kernel,*/bias", "*.weight,*.bias", "dense_1/bias");  //
//   dense_1.bias
absl::optional<std::string> Renamed(absl::string_view from,
                                    absl::string_view to,
                                    absl::string_view name);

}  // namespace paramd

#endif  // PARAMD_CONFIG_NAME_PATTERN_H_
