#include "cli/stages/stage_meeting.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/file.h"
#include "cli/stages/stage_record.h"

namespace paramd {
namespace {

constexpr absl::Duration kLookAgain = absl::Milliseconds(50);
constexpr absl::Duration kSayAgain = absl::Seconds(10);

std::string MarkOf(const std::string& directory, const std::string& task) {
  return absl::StrCat(directory, "/left/", task);
}

}  // namespace

StageMeeting::StageMeeting(std::vector<std::string> tasks, std::string self,
                           absl::Duration patience)
    : tasks_(std::move(tasks)), self_(std::move(self)), patience_(patience) {}

absl::Status StageMeeting::Leave(const std::string& directory) const {
  RETURN_IF_ERROR(MakeDirectories(absl::StrCat(directory, "/left")));
  return ReplaceFile(MarkOf(directory, self_), "");
}

std::vector<std::string> StageMeeting::Missing(
    const std::string& directory) const {
  std::vector<std::string> missing;
  for (const std::string& task : tasks_) {
    const std::string mark = MarkOf(directory, task);
    if (task != self_ && access(mark.c_str(), F_OK) != 0) {
      missing.push_back(task);
    }
  }
  return missing;
}

void StageMeeting::AwaitOthers(const std::string& directory) const {
  const Time began = MonotonicNow();
  Time said = began;
  for (;;) {
    const std::vector<std::string> missing = Missing(directory);
    if (missing.empty()) return;
    const Time now = MonotonicNow();
    const bool is_late = now - began >= patience_;
    if (is_late || now - said >= kSayAgain) {
      said = now;
      Log(is_late ? LogLevel::kWarning : LogLevel::kInfo,
          is_late ? "going on without those that have not left the stage"
                  : "waiting for others to leave the stage",
          {{"stage", directory}, {"who", absl::StrJoin(missing, ",")}});
    }
    if (is_late) return;
    absl::SleepFor(kLookAgain);
  }
}

absl::Status StageMeeting::AwaitRecord(const std::string& directory) const {
  const Time began = MonotonicNow();
  Time said = began;
  for (;;) {
    const absl::Status status = ReadStageRecord(directory).status();
    if (!absl::IsNotFound(status)) return status;
    const Time now = MonotonicNow();
    if (now - began >= patience_) {
      return absl::UnavailableError(absl::StrCat(
          "worker-0 has not recorded the stage in '", directory, "' for ",
          absl::FormatDuration(patience_),
          " (start_timeout_ms); all processes need to see one run_dir"));
    }
    if (now - said >= kSayAgain) {
      said = now;
      Log(LogLevel::kInfo, "waiting for worker-0 to finish the stage",
          {{"stage", directory}});
    }
    absl::SleepFor(kLookAgain);
  }
}

}  // namespace paramd
