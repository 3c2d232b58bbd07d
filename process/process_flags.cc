#include "process/process_flags.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "base/status_macros.h"
#include "config/environment.h"
#include "config/settings_help.h"

namespace paramd {
namespace {

// What a server without a job file is told in its place: what every job must
// say, of which a server uses nothing.
constexpr char kServersName[] = "job";
constexpr char kServersJob[] =
    R"({"name": "job", "model": {"custom": true},
        "optimizer": {"sgd": {}, "learning_rate": 1}})";

// Whether a server without a job file uses this setting: what each process may
// have its own of, the job's name, which is in its certificate, and what it may
// read.
bool IsOfServers(const SettingHelp& setting) {
  return setting.is_local || setting.path == "name" ||
         absl::StartsWith(setting.path, "warm_start");
}

// InvalidArgument naming what would have no effect on a server.
absl::Status CheckServersSettings(
    const std::vector<std::pair<std::string, std::string>>& settings) {
  const std::vector<SettingHelp> known = SettingsHelp();
  std::string mistakes;
  for (const auto& [path, value] : settings) {
    for (const SettingHelp& setting : known) {
      if (setting.path != path || IsOfServers(setting)) continue;
      absl::StrAppend(&mistakes, mistakes.empty() ? "" : "\n", path,
                      ": a setting of the job, which a ps without --job takes "
                      "from the chief; leave it out");
    }
  }
  return mistakes.empty() ? absl::OkStatus()
                          : absl::InvalidArgumentError(mistakes);
}

absl::optional<std::string> IfGiven(const std::string& text) {
  if (text.empty()) return absl::nullopt;
  return text;
}

}  // namespace

void ProcessFlags::AddTo(Flags* flags) {
  flags->AddText("cluster", "TASKS",
                 "who takes part, instead of TF_CONFIG: "
                 "ps=ps-{0..3}.train:7077;worker=w-{0..7}.train:7077",
                 &cluster);
  flags->AddText("task_type", "chief|worker|ps|evaluator|stage",
                 "which task this is", &task_type);
  flags->AddText("task_index", "N", "and its index", &task_index);
  flags->AddSwitch("task_from_hostname",
                   "instead of both: the task whose address has this host's "
                   "name, as pods do",
                   &task_from_hostname);
  flags->AddText("join", "HOST:PORT",
                 "be one more worker of the job whose chief is there, without "
                 "a place in its cluster: see max_joined_workers",
                 &join);
  flags->AddText("listen", "HOST:PORT",
                 "with --join: where this worker answers paramd status; not "
                 "given: nowhere",
                 &listen);
  job.AddTo(flags);
}

absl::StatusOr<Configuration> ProcessFlags::Load() const {
  if (job.job_path.empty()) {
    // A server learns from the chief what is trained.
    const auto cluster = ReadCluster(FromCluster());
    if (cluster.ok() && cluster->is_ps()) return LoadServer();
  }
  ASSIGN_OR_RETURN(JobSources job_sources, job.Sources());
  return LoadConfiguration(job_sources, FromCluster());
}

absl::StatusOr<Configuration> ProcessFlags::LoadServer() const {
  RETURN_IF_ERROR(CheckServersSettings(job.settings));
  JobSources sources;
  sources.file = "no job file";
  sources.text = kServersJob;
  sources.environment = ReadEnvironment();
  sources.settings = job.settings;
  ASSIGN_OR_RETURN(Configuration all,
                   LoadConfiguration(sources, FromCluster()));
  // Nobody compares it with a job of his own.
  all.job.digest.clear();
  all.job.job_wide_text.clear();
  if (all.job.config.name() == kServersName) all.job.config.clear_name();
  return all;
}

ClusterSources ProcessFlags::FromCluster() const {
  ClusterSources cluster_sources;
  cluster_sources.cluster = IfGiven(cluster);
  cluster_sources.task_type = IfGiven(task_type);
  cluster_sources.task_index = IfGiven(task_index);
  cluster_sources.task_from_hostname = task_from_hostname;
  cluster_sources.join = IfGiven(join);
  cluster_sources.listen = IfGiven(listen);
  cluster_sources.environment = ReadEnvironment();
  cluster_sources.host_name = ReadHostName();
  return cluster_sources;
}

}  // namespace paramd
