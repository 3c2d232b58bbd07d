#ifndef PARAMD_CONFIG_CLUSTER_SOURCES_H_
#define PARAMD_CONFIG_CLUSTER_SOURCES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "config/cluster_description.h"
#include "config/environment.h"
#include "config/mistakes.h"

namespace paramd {

// All that says who belongs to the cluster and who this process is.
struct ClusterSources {
  // The flags --cluster, --task_type and --task_index; nullopt: not given.
  absl::optional<std::string> cluster;
  absl::optional<std::string> task_type;
  absl::optional<std::string> task_index;
  // The switch --task_from_hostname: the task is the one whose address has this
  // host's name.
  bool task_from_hostname = false;
  // The flags --join and --listen, of a worker that the cluster does not name.
  absl::optional<std::string> join;
  absl::optional<std::string> listen;
  // All variables of the process. Those that count: PARAMD_CLUSTER,
  // PARAMD_TASK_TYPE, PARAMD_TASK_INDEX, PARAMD_TASK_FROM_HOSTNAME, PARAMD_JOIN
  // and PARAMD_LISTEN stand for the flags; TF_CONFIG;
  // CLUSTER_SPEC (Vertex AI) without TF_CONFIG; JOB_COMPLETION_INDEX and
  // VC_TASK_INDEX.
  Variables environment;
  std::string host_name;
  // What trains, for the sentence about a cluster without servers.
  std::string strategy = "parameter_server";
  // Several workers without servers are a mistake.
  bool needs_servers = true;
};

// What a flag says, or the variable that stands for it.
struct GivenFlag {
  std::string value;
  std::string name;  // "--task_type", "PARAMD_TASK_TYPE"
};
// Nullopt: neither is given.
absl::optional<GivenFlag> FindFlag(const absl::optional<std::string>& value,
                                   absl::string_view name,
                                   const Variables& environment);

// The variables that stand for flags of ClusterSources: no settings of a job.
const std::vector<std::string>& ClusterVariables();

// What the sources say, the stronger one of each: a flag beats its variable
// beats TF_CONFIG, for the cluster, the type and the index alike.
struct GatheredCluster {
  ClusterDescription cluster;
  bool cluster_is_flag = false;
  // "TF_CONFIG", "CLUSTER_SPEC", or empty if neither was looked at or set.
  std::string variable;
  // What stands there about a task, if anything does.
  bool has_task = false;
  Place task_place;
  absl::optional<Sourced<std::string>> type;
  absl::optional<Sourced<int>> index;
  // The flags that name a task: "--task_type"; empty if none does.
  std::string task_flag;
};

// Reads every source for its form; what is wrong is added to `mistakes` and
// left out. What a flag gives is not looked at in the variables. It is a
// mistake to take one's type from a flag and the index of another type from
// TF_CONFIG. With --task_from_hostname type and index are those of the one task
// whose host begins with the same label as this host's name ("train-ps-3" of
// "train-ps-3.train:7077"); it is a mistake if there is none or several, or
// beside --task_type and --task_index.
GatheredCluster GatherCluster(const ClusterSources& sources,
                              Mistakes* mistakes);

// The index of a task whom nobody tells it outright: JOB_COMPLETION_INDEX, else
// VC_TASK_INDEX, else the end of the host's name. Nullopt if there is none of
// them, or, with a mistake added, if the first one that is set is no index.
absl::optional<Sourced<int>> FindIndexAround(const ClusterSources& sources,
                                             Mistakes* mistakes);

}  // namespace paramd

#endif  // PARAMD_CONFIG_CLUSTER_SOURCES_H_
