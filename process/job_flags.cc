#include "process/job_flags.h"

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "config/environment.h"
#include "config/setting.h"

namespace paramd {

void JobFlags::AddTo(Flags* flags) {
  flags->AddText("job", "FILE", "the job file; must be given", &job_path);
  flags->AddText("stage", "NAME", "of a job with stages: the one that is meant",
                 &stage);
  flags->AddJobSettings(&settings);
}

absl::StatusOr<JobSources> JobFlags::Sources() const {
  if (job_path.empty()) {
    return absl::InvalidArgumentError(
        "--job FILE is missing: the job file says what is trained");
  }
  JobSources sources;
  sources.file = job_path;
  sources.text = job_text;
  sources.environment = ReadEnvironment();
  sources.settings = settings;
  if (!stage.empty()) sources.stage = stage;
  return sources;
}

absl::StatusOr<LoadedJob> JobFlags::Load() const {
  ASSIGN_OR_RETURN(const JobSources sources, Sources());
  return LoadJob(sources);
}

std::string JobFlags::Raw(const std::string& key,
                          absl::string_view otherwise) const {
  for (auto setting = settings.rbegin(); setting != settings.rend();
       ++setting) {
    if (setting->first == key) return setting->second;
  }
  return FindVariable(ReadEnvironment(), EnvironmentName(key))
      .value_or(std::string(otherwise));
}

std::vector<std::string> JobFlags::ToArguments() const {
  std::vector<std::string> arguments = {absl::StrCat("--job=", job_path)};
  if (!stage.empty()) arguments.push_back(absl::StrCat("--stage=", stage));
  for (const auto& [key, value] : settings) {
    arguments.push_back(absl::StrCat("--set=", key, "=", value));
  }
  return arguments;
}

}  // namespace paramd
