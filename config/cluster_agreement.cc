#include "config/cluster_agreement.h"

#include <map>

#include "absl/strings/str_cat.h"

namespace paramd {

std::vector<std::string> EntriesToAgree(const ClusterSpec& cluster) {
  std::vector<std::string> entries;
  if (cluster.standalone) return entries;
  if (cluster.knows_all_ps && !cluster.ps.empty()) {
    entries.push_back(absl::StrCat("ps=", cluster.ps.size()));
  }
  for (size_t i = 0; i < cluster.ps.size(); ++i) {
    const bool is_self =
        cluster.is_ps() && static_cast<size_t>(cluster.self.index) == i;
    if (is_self || cluster.ps[i].empty()) continue;
    entries.push_back(absl::StrCat("ps[", i, "]=", cluster.ps[i]));
  }
  if (!cluster.is_chief() && !cluster.chief_address().empty()) {
    entries.push_back(absl::StrCat("chief=", cluster.chief_address()));
  }
  return entries;
}

absl::optional<ClusterDifference> FirstDifference(
    const std::vector<std::string>& ours,
    const std::vector<std::string>& theirs) {
  std::map<absl::string_view, absl::string_view> values;
  for (const absl::string_view entry : theirs) {
    const size_t equals = entry.find('=');
    if (equals == absl::string_view::npos) continue;
    values.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  for (const absl::string_view entry : ours) {
    const size_t equals = entry.find('=');
    if (equals == absl::string_view::npos) continue;
    const auto other = values.find(entry.substr(0, equals));
    if (other == values.end() || other->second == entry.substr(equals + 1)) {
      continue;
    }
    return ClusterDifference{std::string(other->first),
                             std::string(entry.substr(equals + 1)),
                             std::string(other->second)};
  }
  return absl::nullopt;
}

}  // namespace paramd
