#ifndef PARAMD_CONFIG_CLUSTER_SPEC_H_
#define PARAMD_CONFIG_CLUSTER_SPEC_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace paramd {

enum class TaskType { kChief, kWorker, kPs, kEvaluator };

// "chief", "worker", "ps", "evaluator": as TF_CONFIG writes them.
absl::string_view TaskTypeName(TaskType type);

// A task as TF_CONFIG names it.
struct TaskId {
  TaskType type = TaskType::kWorker;
  int index = 0;  // within its own list

  bool operator==(const TaskId& other) const {
    return type == other.type && index == other.index;
  }
};

// "worker-3", "chief-0".
std::string TaskName(const TaskId& task);

// Who belongs to a cluster and which of them this process is.
//
// Invariant, unless `standalone`: `ps` and `workers` are not empty, all
// addresses are "host:port" with a port from 1 to 65535, no ps shares its
// address, and `self` is a task of the cluster (or an evaluator).
struct ClusterSpec {
  // This process is worker 0 and trains alone; there is no address at all.
  bool standalone = true;
  std::vector<std::string> ps;
  // Everybody who trains. workers[0] is the chief: the one of the list `chief`
  // if there is such a list, whose tasks come first, else worker 0.
  std::vector<std::string> workers;
  // Whether workers[0] is called "chief", index 0, in TF_CONFIG.
  bool has_chief_list = false;
  // Whether the same process is listed again as worker 0 (some producers do).
  bool chief_is_worker_0 = false;
  TaskId self;

  bool is_ps() const { return self.type == TaskType::kPs; }
  bool is_chief() const { return worker_index() == 0; }
  // The position of this process in `workers`; 0 if standalone, -1 if it is
  // none of them.
  int worker_index() const;
  // The address of this process; empty if standalone or an evaluator.
  std::string self_address() const;
  // How workers[index] is called in TF_CONFIG.
  TaskId WorkerTask(int index) const;
};

// Reads TF_CONFIG in its list form: {"cluster": {"chief": [..], "worker": [..],
// "ps": [..]}, "task": {"type": .., "index": ..}}. Nullopt (the variable is not
// set) means standalone. So do an object without cluster and task, and a
// cluster of one worker alone. Keys and jobs beside the known ones are ignored.
//
// InvalidArgument with all mistakes at once, one per line, "TF_CONFIG:
// key.path: what to do", for everything else.
absl::StatusOr<ClusterSpec> ParseTfConfig(
    absl::optional<absl::string_view> value);

// TF_CONFIG for process `task` of a cluster, in one line. ParseTfConfig reads
// it back. REQUIRES: not standalone.
std::string ToTfConfig(const ClusterSpec& cluster, const TaskId& task);

// Nullopt if `address` is host:port as a task may have it, else what is wrong:
// `"a:0" has port 0; ports are from 1 to 65535`. The last colon divides, so
// that IPv6 addresses may stand with and without brackets.
absl::optional<std::string> WrongAddress(absl::string_view address);

}  // namespace paramd

#endif  // PARAMD_CONFIG_CLUSTER_SPEC_H_
