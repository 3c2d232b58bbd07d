#include "cli/process_flags.h"

#include "absl/types/optional.h"

#include "base/status_macros.h"
#include "config/environment.h"

namespace paramd {
namespace {

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
  flags->AddText("task_type", "chief|worker|ps|evaluator", "which task this is",
                 &task_type);
  flags->AddText("task_index", "N", "and its index", &task_index);
  flags->AddSwitch("task_from_hostname",
                   "instead of both: the task whose address has this host's "
                   "name, as pods do",
                   &task_from_hostname);
  job.AddTo(flags);
}

absl::StatusOr<Configuration> ProcessFlags::Load() const {
  ASSIGN_OR_RETURN(JobSources job_sources, job.Sources());
  ClusterSources cluster_sources;
  cluster_sources.cluster = IfGiven(cluster);
  cluster_sources.task_type = IfGiven(task_type);
  cluster_sources.task_index = IfGiven(task_index);
  cluster_sources.task_from_hostname = task_from_hostname;
  cluster_sources.environment = job_sources.environment;
  cluster_sources.host_name = ReadHostName();
  return LoadConfiguration(job_sources, cluster_sources);
}

}  // namespace paramd
