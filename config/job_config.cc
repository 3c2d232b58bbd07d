#include "config/job_config.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "config/growing_input.h"
#include "config/idle_settings.h"
#include "config/input_files.h"
#include "config/job_checks.h"
#include "config/read_job.h"
#include "config/setting_changes.h"
#include "config/stages.h"
#include "config/strategy.h"

namespace paramd {
namespace {

// A backup is the newest checkpoint of a run whose state lies with it.
void SettleBackup(v1::JobConfig* config, Origins* origins) {
  const v1::BackupAndRestoreConfig& backup = config->backup_and_restore();
  if (backup.directory().empty()) return;
  v1::CheckpointConfig* const checkpoint = config->mutable_checkpoint();
  checkpoint->set_directory(absl::StrCat(backup.directory(), "/checkpoints"));
  checkpoint->set_every_steps(backup.every_steps());
  checkpoint->set_keep(1);
  for (const char* setting : {"directory", "every_steps", "keep"}) {
    (*origins)[absl::StrCat("checkpoint.", setting)] =
        OriginOf(*origins, "backup_and_restore.directory");
  }
}

// `number`: of the stage; without, the one that `sources` name.
absl::StatusOr<LoadedJob> Load(const JobSources& sources,
                               absl::optional<int> number) {
  LoadedJob job;
  Mistakes mistakes;
  SettingReader reader(&job.origins, &mistakes);
  if (!ReadFileAndStages(sources, &reader, &mistakes, &job.config)) {
    return mistakes.ToStatus();
  }
  number = ChooseStage(sources, number, job.config, reader, &mistakes);
  if (!number.has_value()) return mistakes.ToStatus();
  const v1::JobConfig whole = job.config;
  if (*number >= 0) {
    MakeStage(*number, &job.origins, &job.config);
    job.stage = whole.stages(*number);
    job.stage.clear_settings();
    job.config.clear_stages();
  }
  job.warning =
      ReadVariables(sources, /*of_stages=*/false, &reader, &job.config);
  ReadFlags(sources, /*of_stages=*/false, &reader, &job.config);
  if (job.config.model().custom() && !job.config.has_input()) {
    job.config.mutable_input()->mutable_train()->mutable_indices();
  }
  if (job.config.has_input()) FollowTopic(job.config.mutable_input());
  reader.FillDefaults(&job.config);
  if (!UsesServers(job.config) &&
      KindOf(reader.PlaceOf("staleness")) == OriginKind::kDefault) {
    job.config.set_staleness("sync");
  }
  if (job.config.input().has_follow() &&
      KindOf(reader.PlaceOf("epochs")) == OriginKind::kDefault) {
    job.config.set_epochs(kMostEpochs);
  }
  CheckJob(job.config, reader, &mistakes);
  CheckStageJob(whole, *number, job.config, reader, &mistakes);
  if (sources.check_input_files) {
    CheckInputFiles(job.config, job.origins, &mistakes);
  }
  if (!mistakes.empty()) return mistakes.ToStatus();
  const std::string idle = IdleSettings(job.config, reader);
  if (!idle.empty()) {
    absl::StrAppend(&job.warning, job.warning.empty() ? "" : "; ", idle);
  }
  SettleBackup(&job.config, &job.origins);
  if (*number >= 0) {
    job.as_stage = job.config;
    SettleStage(whole, job.stage.name(), &job.config);
  }
  if (!job.config.run_dir().empty()) {
    const bool is_derived = job.config.checkpoint().directory().empty();
    SetRunDirectory(job.config.run_dir(), &job.config);
    if (is_derived) {
      job.origins["checkpoint.directory"] = OriginOf(job.origins, "run_dir");
    }
  }
  job.job_wide_text = JobWideText(job.config);
  job.digest = Digest(job.job_wide_text);
  return job;
}

}  // namespace

absl::StatusOr<LoadedJob> LoadJob(const JobSources& sources) {
  return Load(sources, absl::nullopt);
}

absl::StatusOr<std::vector<LoadedJob>> LoadStages(const JobSources& sources) {
  LoadedJob read;
  Mistakes mistakes;
  SettingReader reader(&read.origins, &mistakes);
  ReadFileAndStages(sources, &reader, &mistakes, &read.config);
  std::vector<LoadedJob> jobs;
  std::vector<std::string> wrong;
  for (int i = 0; i < read.config.stages_size(); ++i) {
    absl::StatusOr<LoadedJob> job = Load(sources, i);
    if (job.ok()) {
      jobs.push_back(*std::move(job));
      continue;
    }
    // What is wrong around the stages is so in each.
    for (const absl::string_view line :
         absl::StrSplit(job.status().message(), '\n')) {
      if (!absl::c_linear_search(wrong, line)) wrong.emplace_back(line);
    }
  }
  if (wrong.empty()) return jobs;
  return absl::InvalidArgumentError(absl::StrJoin(wrong, "\n"));
}

std::string StateDirectory(const v1::JobConfig& config) {
  const std::string& backup = config.backup_and_restore().directory();
  return backup.empty() ? config.run_dir() : backup;
}

void SetRunDirectory(absl::string_view run_dir, v1::JobConfig* config) {
  // `run_dir` may lie in the config itself.
  v1::CheckpointConfig* checkpoint = config->mutable_checkpoint();
  if (checkpoint->directory().empty()) {
    checkpoint->set_directory(absl::StrCat(run_dir, "/checkpoints"));
  }
  config->set_run_dir(std::string(run_dir));
}

std::string JobWideText(const v1::JobConfig& config) {
  std::string text;
  for (const std::string& line : RecordedSettings(config)) {
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::string Digest(absl::string_view text) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211u;
  }
  return absl::StrFormat("%016x", hash);
}

}  // namespace paramd
