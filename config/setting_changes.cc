#include "config/setting_changes.h"

#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

#include "config/setting_value.h"
#include "config/strategy.h"

namespace paramd {
namespace {

std::string OrNotThere(const std::string& value) {
  return value.empty() ? "not there" : value;
}

using Values = std::map<std::string, std::string>;  // By path.

bool HasPart(const Values& values, const std::string& part) {
  if (part.empty()) return true;
  if (values.count(part) > 0) return true;
  const std::string inside = absl::StrCat(part, ".");
  const auto next = values.lower_bound(inside);
  return next != values.end() && absl::StartsWith(next->first, inside);
}

// Whether a record without `value` means it all the same: it was written by a
// version that did not know the setting, or nobody had said it.
bool IsMeant(const Values& recorded, const SettingValue& value) {
  return value.is_default && HasPart(recorded, value.part_of);
}

// One instant of training is the same under each strategy.
bool IsOtherStrategy(const Values& recorded, const v1::JobConfig& job) {
  const auto was = recorded.find("strategy");
  const std::string before =
      was == recorded.end() ? "\"parameter_server\"" : was->second;
  return before != absl::StrCat("\"", StrategyName(job.strategy()), "\"");
}

bool FollowsFromStrategy(absl::string_view path) {
  return path == "strategy" || path == "staleness" || path == "replicas" ||
         path == "batch_per_replica" || path == "accumulate" ||
         path == "push_every" || path == "backup_workers";
}

// How many compute a step, as workers with servers may be more and fewer:
// workers that each have a copy are recorded as replicas. The batch of each
// follows if all together have one.
bool FollowsFromNumber(absl::string_view path, const v1::JobConfig& job) {
  return path == "replicas" ||
         (path == "batch_per_replica" && job.global_batch() > 0);
}

// As for checkpoints: when a backup is made is no matter of what is trained.
bool IsOfBackup(absl::string_view path) {
  return absl::StartsWith(path, "backup_and_restore.");
}

// An embedding whose rows have keys is another layer than one without.
bool MakesAnotherTable(const Difference& difference) {
  if (!absl::EndsWith(difference.name, "embedding.capacity")) return false;
  const auto has_keys = [](const std::string& capacity) {
    return !capacity.empty() && capacity != "0";
  };
  return has_keys(difference.ours) != has_keys(difference.theirs);
}

// Paths of settings as if no layer was in a recompute, which changes when what
// is computed and nothing that is trained. Those of one job are given in order.
class LayerPaths {
 public:
  // Of "model.layers[1].recompute.layers[0].relu" "model.layers[1].relu", and
  // where the recompute has two layers, what is behind it is layers[3].
  std::string Of(absl::string_view path) {
    if (!absl::StartsWith(path, "model.layers[")) return std::string(path);
    std::string text;
    std::string list;
    absl::string_view index;
    bool goes_on = false;  // The list that a recompute stands in.
    size_t begin = 0;
    for (size_t end = path.find(']'); end != absl::string_view::npos;
         end = path.find(']', begin)) {
      if (!goes_on) {
        const size_t open = path.find('[', begin);
        list = absl::StrCat(text, path.substr(begin, open - begin));
        index = path.substr(open, end + 1 - open);
      }
      goes_on = absl::StartsWith(path.substr(end + 1), ".recompute.layers[");
      begin = end + 1;
      if (goes_on) continue;
      if (!MayHaveARecompute(list)) {
        text = absl::StrCat(list, index);
        continue;
      }
      std::string& element = elements_[std::string(path.substr(0, begin))];
      if (element.empty()) {
        element = absl::StrCat(list, "[", counts_[list]++, "]");
      }
      text = element;
    }
    return absl::StrCat(text, path.substr(begin));
  }

 private:
  // Other lists may have elements without a setting: a branch without layers.
  static bool MayHaveARecompute(absl::string_view list) {
    return absl::EndsWith(list, "layers") || absl::EndsWith(list, "shortcut");
  }

  Values elements_;                       // As they are called, by path.
  std::map<std::string, size_t> counts_;  // Of elements, by list.
};

}  // namespace

std::vector<std::string> RecordedSettings(const v1::JobConfig& config) {
  std::vector<std::string> lines;
  for (const SettingValue& value : ValuesOf(config)) {
    if (!value.is_local) {
      lines.push_back(absl::StrCat(value.path, "=", value.json));
    }
  }
  return lines;
}

SettingChanges ChangesSince(const std::vector<std::string>& recorded,
                            const v1::JobConfig& job) {
  Values before, names;  // As they were recorded, by path.
  LayerPaths paths_before, paths;
  for (const absl::string_view line : recorded) {
    const size_t equals = line.find('=');
    if (equals == absl::string_view::npos) continue;
    const absl::string_view name = line.substr(0, equals);
    const std::string path = paths_before.Of(name);
    before.emplace(path, line.substr(equals + 1));
    names.emplace(path, name);
  }
  Values gone = before;
  SettingChanges changes;
  const bool other_model = !job.checkpoint().allow_missing().empty();
  const bool other_strategy = IsOtherStrategy(before, job);
  const auto add = [&](const Difference& difference, bool may_change) {
    const bool may =
        (may_change && !MakesAnotherTable(difference)) ||
        IsOfBackup(difference.name) ||
        FollowsFromNumber(difference.name, job) ||
        (other_strategy && FollowsFromStrategy(difference.name)) ||
        (other_model && absl::StartsWith(difference.name, "model."));
    (may ? changes.may : changes.may_not).push_back(difference);
  };
  for (SettingValue& value : ValuesOf(job)) {
    if (value.is_local) continue;
    const std::string name = std::exchange(value.path, paths.Of(value.path));
    value.part_of = paths.Of(value.part_of);
    const auto found = before.find(value.path);
    gone.erase(value.path);
    if (found == before.end() && IsMeant(before, value)) continue;
    const std::string was = found == before.end() ? "" : found->second;
    if (was != value.json) {
      add({name, value.json, was}, value.may_change);
    }
  }
  for (const auto& [path, was] : gone) add({names.at(path), "", was}, false);
  return changes;
}

std::string ChangesText(const std::vector<Difference>& changes) {
  return absl::StrJoin(
      changes, "; ", [](std::string* out, const Difference& change) {
        absl::StrAppend(out, change.name, " is ", OrNotThere(change.ours),
                        ", was ", OrNotThere(change.theirs));
      });
}

}  // namespace paramd
