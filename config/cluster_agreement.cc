#include "config/cluster_agreement.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

using Entry = std::pair<absl::string_view, absl::string_view>;
using ValuesByName = std::map<absl::string_view, absl::string_view>;

absl::optional<Entry> Split(absl::string_view line) {
  const size_t equals = line.find('=');
  if (equals == absl::string_view::npos) return absl::nullopt;
  return Entry(line.substr(0, equals), line.substr(equals + 1));
}

ValuesByName ByName(const std::vector<std::string>& lines) {
  ValuesByName values;
  for (const absl::string_view line : lines) {
    if (const auto entry = Split(line); entry.has_value()) {
      values.insert(*entry);
    }
  }
  return values;
}

Difference Make(const Entry& ours, absl::string_view theirs) {
  return {std::string(ours.first), std::string(ours.second),
          std::string(theirs)};
}

}  // namespace

std::vector<std::string> EntriesToAgree(const ClusterSpec& cluster,
                                        bool chief_moves) {
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
  // Which of them are a worker's follows from how many there are of both.
  if (!cluster.stages.empty()) {
    entries.push_back(absl::StrCat("stage=", cluster.stages.size()));
    entries.push_back(
        absl::StrCat("workers with stages=", cluster.workers.size()));
  }
  // Without servers each worker computes its share of a step.
  if (cluster.ps.empty() && cluster.knows_all_workers) {
    entries.push_back(
        absl::StrCat("number of workers=", cluster.workers.size()));
  }
  // One that joins may reach the chief by another name than the list's.
  if (!chief_moves && !cluster.is_chief() && !cluster.joins() &&
      !cluster.chief_address().empty()) {
    entries.push_back(absl::StrCat("chief=", cluster.chief_address()));
  }
  return entries;
}

absl::optional<Difference> FirstDifference(
    const std::vector<std::string>& ours,
    const std::vector<std::string>& theirs) {
  const ValuesByName others = ByName(theirs);
  for (const absl::string_view line : ours) {
    const absl::optional<Entry> entry = Split(line);
    if (!entry.has_value()) continue;
    const auto other = others.find(entry->first);
    if (other == others.end() || other->second == entry->second) continue;
    return Make(*entry, other->second);
  }
  return absl::nullopt;
}

absl::optional<Difference> FirstDifferentSetting(
    const std::vector<std::string>& ours,
    const std::vector<std::string>& theirs) {
  ValuesByName others = ByName(theirs);
  for (const absl::string_view line : ours) {
    const absl::optional<Entry> entry = Split(line);
    if (!entry.has_value()) continue;
    const auto other = others.find(entry->first);
    if (other == others.end()) return Make(*entry, "");
    if (other->second != entry->second) return Make(*entry, other->second);
    others.erase(other);
  }
  if (others.empty()) return absl::nullopt;
  return Make({others.begin()->first, ""}, others.begin()->second);
}

}  // namespace paramd
