#include "program/saved_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/status_macros.h"
#include "checkpoint/directory.h"

namespace paramd {
namespace {

// A job that has finished has moved what it had in a backup.
std::vector<std::string> DirectoriesOf(const v1::JobConfig& job) {
  std::vector<std::string> directories;
  const auto add = [&](const std::string& directory) {
    if (std::count(directories.begin(), directories.end(), directory) == 0) {
      directories.push_back(directory);
    }
  };
  if (!job.checkpoint().directory().empty()) add(job.checkpoint().directory());
  if (!job.run_dir().empty()) add(absl::StrCat(job.run_dir(), "/checkpoints"));
  return directories;
}

// The first epoch of which something is left.
uint32_t EpochOf(const v1::SavedInput& input) {
  uint32_t epoch = std::max<uint32_t>(input.next_epoch(), 1);
  for (const v1::SavedInput::Range& range : input.remaining()) {
    epoch = std::min(epoch, range.epoch());
  }
  return epoch;
}

uint32_t EpochsBegun(const v1::SavedInput& input) {
  if (input.next_epoch() == 0) return 0;
  return input.next_epoch() - (input.next_offset() == 0 ? 1 : 0);
}

SavedRun ToSavedRun(const v1::FindCheckpointResult& found,
                    const v1::JobConfig& job) {
  const v1::Manifest& manifest = found.manifest();
  SavedRun run;
  run.path = found.path();
  run.job = manifest.job();
  run.epoch = EpochOf(manifest.input());
  if (manifest.final()) {
    const uint32_t done = EpochsBegun(manifest.input());
    run.epoch = done + 1;
    run.is_over = job.epochs() <= done;
  }
  return run;
}

}  // namespace

absl::StatusOr<SavedRun> FindSavedRun(const v1::JobConfig& job) {
  const std::vector<std::string> directories = DirectoriesOf(job);
  for (const std::string& directory : directories) {
    ASSIGN_OR_RETURN(
        const v1::FindCheckpointResult found,
        CheckpointDirectory(directory, /*nonce=*/0).Find(v1::FindCheckpoint()));
    if (found.has_manifest()) return ToSavedRun(found, job);
  }
  return absl::NotFoundError(
      directories.empty()
          ? "the job has no run_dir here, where its checkpoints would be"
          : absl::StrCat("there is no checkpoint in '",
                         absl::StrJoin(directories, "' or '"), "'"));
}

}  // namespace paramd
