#include "cli/local/kill_plan.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "base/status_macros.h"

namespace paramd {
namespace {

constexpr char kForm[] = "it must be like worker-1@epoch=3";

// Whether `task` is "<type>-<index>" with an index below `count`.
bool IsOneOf(absl::string_view task, absl::string_view type, int count) {
  int index = -1;
  return absl::ConsumePrefix(&task, type) && absl::SimpleAtoi(task, &index) &&
         task == absl::StrCat(index) && index >= 0 && index < count;
}

absl::StatusOr<KillPlan::Kill> ParseOne(absl::string_view text,
                                        const KillPlan::Cluster& cluster) {
  const std::vector<std::string> parts =
      absl::StrSplit(text, absl::MaxSplits("@epoch=", 1));
  KillPlan::Kill kill;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[1], &kill.epoch)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--kill is '", text, "': ", kForm));
  }
  kill.task = parts[0];
  if (!IsOneOf(kill.task, "ps-", cluster.servers) &&
      !IsOneOf(kill.task, "worker-", cluster.workers) &&
      !IsOneOf(kill.task, "stage-", cluster.stages)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--kill: there is no ", kill.task, ": tasks are ",
        cluster.servers > 0
            ? absl::StrCat("ps-0 to ps-", cluster.servers - 1, " and ")
            : "",
        "worker-0 to worker-", cluster.workers - 1,
        cluster.stages > 0
            ? absl::StrCat(" and stage-0 to stage-", cluster.stages - 1)
            : ""));
  }
  if (kill.epoch < 1 || kill.epoch > cluster.epochs) {
    return absl::InvalidArgumentError(
        absl::StrCat("--kill: ", kill.task, " can't be killed in epoch ",
                     kill.epoch, ": the job has epochs 1 to ", cluster.epochs));
  }
  return kill;
}

}  // namespace

absl::StatusOr<KillPlan> KillPlan::Parse(absl::string_view text,
                                         const Cluster& cluster) {
  KillPlan plan;
  if (text.empty()) return plan;
  for (const absl::string_view one : absl::StrSplit(text, ',')) {
    ASSIGN_OR_RETURN(Kill kill, ParseOne(one, cluster));
    plan.kills_.push_back(std::move(kill));
  }
  return plan;
}

std::vector<KillPlan::Kill> KillPlan::Due(double epochs_done) const {
  std::vector<Kill> due;
  std::copy_if(
      kills_.begin(), kills_.end(), std::back_inserter(due),
      [epochs_done](const Kill& kill) { return epochs_done > kill.epoch - 1; });
  return due;
}

void KillPlan::Remove(const Kill& kill) {
  const auto found =
      std::find_if(kills_.begin(), kills_.end(), [&kill](const Kill& other) {
        return other.task == kill.task && other.epoch == kill.epoch;
      });
  if (found != kills_.end()) kills_.erase(found);
}

}  // namespace paramd
