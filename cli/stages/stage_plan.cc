#include "cli/stages/stage_plan.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "base/status_macros.h"
#include "config/cluster_agreement.h"
#include "config/setting_changes.h"
#include "config/setting_value.h"
#include "config/stages.h"

namespace paramd {
namespace {

// Whether a record without the value means it all the same: it was written by a
// version that did not know the setting. `own`: the lines of the stage alone.
bool IsMeant(const std::vector<std::string>& own, const SettingValue& value) {
  const std::string line = absl::StrCat("stage.", value.path, "=");
  const std::string part = absl::StrCat("stage.", value.part_of, ".");
  bool has_part = value.part_of.empty();
  for (const std::string& recorded : own) {
    if (absl::StartsWith(recorded, line)) return false;
    has_part = has_part || absl::StartsWith(recorded, part);
  }
  return value.is_default && has_part;
}

// What a finished stage would have to be trained again for; "" if nothing.
std::string ChangesOf(const LoadedJob& stage, const StageRecord& record) {
  std::vector<std::string> recorded, own;
  for (const std::string& line : record.settings) {
    (absl::StartsWith(line, "stage.") ? own : recorded).push_back(line);
  }
  SettingChanges changes = ChangesSince(recorded, stage.as_stage);
  std::vector<Difference> different = std::move(changes.may_not);
  // A run may go on with these, but not below those that came after it.
  for (Difference& change : changes.may) {
    different.push_back(std::move(change));
  }
  if (!different.empty()) return ChangesText(different);
  std::vector<std::string> now;
  for (const SettingValue& value : ValuesOf(stage.stage)) {
    if (!IsMeant(own, value)) {
      now.push_back(absl::StrCat("stage.", value.path, "=", value.json));
    }
  }
  const auto difference = FirstDifferentSetting(now, own);
  return difference.has_value() ? ChangesText({*difference}) : "";
}

// Whether it begins with, learns from, or is made of one of those stages.
bool Uses(const LoadedJob& stage, const std::set<std::string>& names) {
  const auto is_one = [&](const std::string& name) {
    return names.find(name) != names.end();
  };
  const std::vector<std::string> labels = LabelStagesOf(stage.as_stage.input());
  const auto& teachers = stage.as_stage.distill().teachers();
  return is_one(stage.stage.from().stage()) ||
         std::any_of(labels.begin(), labels.end(), is_one) ||
         std::any_of(
             teachers.begin(), teachers.end(), [&](absl::string_view teacher) {
               return absl::ConsumePrefix(&teacher, StageReference("")) &&
                      is_one(std::string(teacher));
             });
}

// Whether nothing was made of a stage, directly or by others between, that is
// to be trained now. It would be of a model that is there no more.
absl::Status CheckNothingIsMadeOf(size_t number,
                                  absl::Span<const LoadedJob> stages,
                                  absl::Span<const FoundStage> found) {
  std::set<std::string> older = {stages[number].stage.name()};
  for (size_t i = number + 1; i < stages.size(); ++i) {
    if (!Uses(stages[i], older)) continue;
    if (found[i].record.has_value() || found[i].trained) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the stage '", stages[i].stage.name(), "' in '",
          stages[i].config.run_dir(), "' was made of an earlier '",
          stages[number].stage.name(),
          "', which is not there and would be trained again: remove the later "
          "one too, or give another run_dir"));
    }
    older.insert(stages[i].stage.name());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NextStage> FindNext(absl::Span<const LoadedJob> stages,
                                   absl::Span<const FoundStage> found) {
  for (size_t i = 0; i < stages.size(); ++i) {
    const LoadedJob& stage = stages[i];
    if (!found[i].record.has_value()) {
      if (KindOf(stage.stage) != StageKind::kTrain || found[i].trained) {
        return NextStage{static_cast<int>(i), NextStage::What::kFinish};
      }
      RETURN_IF_ERROR(CheckNothingIsMadeOf(i, stages, found));
      return NextStage{static_cast<int>(i), NextStage::What::kTrain};
    }
    const std::string changes = ChangesOf(stage, *found[i].record);
    if (changes.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the stage '", stage.stage.name(), "' is finished in '",
        stage.config.run_dir(), "' and was told something else: ", changes,
        "; give another run_dir, or what it was told"));
  }
  return NextStage{};
}

absl::StatusOr<std::vector<FoundStage>> FindStages(
    absl::Span<const LoadedJob> stages) {
  std::vector<FoundStage> found;
  for (const LoadedJob& stage : stages) {
    const std::string& directory = stage.config.run_dir();
    FoundStage one;
    auto record = ReadStageRecord(directory);
    if (record.ok()) {
      one.record = *std::move(record);
    } else if (!absl::IsNotFound(record.status())) {
      return record.status();
    }
    const std::string result = absl::StrCat(directory, "/result.json");
    one.trained = access(result.c_str(), F_OK) == 0;
    found.push_back(std::move(one));
  }
  return found;
}

}  // namespace paramd
