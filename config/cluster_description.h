#ifndef PARAMD_CONFIG_CLUSTER_DESCRIPTION_H_
#define PARAMD_CONFIG_CLUSTER_DESCRIPTION_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "config/mistakes.h"

namespace paramd {

// The tasks of one job of a cluster. Invariant: indices lie in
// [0, kMostTasks), addresses are none that WrongAddress refuses.
struct ListedJob {
  std::string name;     // "chief", "master", "worker", "ps", "evaluator", other
  std::string written;  // as the source has it: "workerpool0"
  std::string path;     // for sentences: "cluster.workerpool0"
  Place place;
  // Written as an object from index to address: it may have gaps, and may be
  // only what its reader was told.
  bool is_object = false;
  std::map<int, std::string> tasks;

  // "cluster.worker[3]"
  std::string PathOf(int index) const;
};

// A value and where it stands.
template <typename T>
struct Sourced {
  T value;
  Place place;
  std::string path;  // "task.index"; empty: the whole source
};

// What one source says about a cluster and who this process is, checked for
// its form only: whether it makes sense is for ReadCluster to judge.
struct ClusterDescription {
  std::string source;        // "TF_CONFIG", "CLUSTER_SPEC", "--cluster"
  Place place;               // of the cluster, for what is wrong with the whole
  std::string path;          // "cluster", "sparseCluster"; of a flag: ""
  bool has_cluster = false;  // something stands in it, if only empty lists
  std::vector<ListedJob> jobs;  // in the order written; without tasks too
  bool has_task = false;        // something stands in it
  Place task_place;
  absl::optional<Sourced<std::string>> task_type;
  absl::optional<Sourced<int>> task_index;
  // The type that stands beside task_index, if one does, also where it is not
  // wanted.
  std::string type_beside_index;

  // Null if there is no such job, or it has no tasks.
  const ListedJob* Find(absl::string_view name) const;
  bool has_tasks() const;
  // The jobs that have tasks, as they were written: "worker, ps".
  std::string JobNames() const;
};

}  // namespace paramd

#endif  // PARAMD_CONFIG_CLUSTER_DESCRIPTION_H_
