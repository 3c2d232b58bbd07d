#ifndef PARAMD_CONFIG_CLUSTER_SPEC_H_
#define PARAMD_CONFIG_CLUSTER_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "config/cluster_sources.h"

namespace paramd {

// kOther: a job that has nothing to do with training ("tensorboard").
enum class TaskType { kChief, kWorker, kPs, kEvaluator, kStage, kOther };

// "chief", "worker", "ps", "evaluator", "stage": as TF_CONFIG writes them;
// "other".
absl::string_view TaskTypeName(TaskType type);

// A task as TF_CONFIG names it; its legacy "master" is a chief.
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
// Producers tell a process no more than it needs, so an address may be unknown:
// it is empty then. Invariant, unless `standalone`: all known addresses are
// "host:port" with a port from 1 to 65535, and no ps shares its address. Who
// trains knows every ps, the chief and itself; a ps knows itself, and `workers`
// is not empty. An evaluator or another task may know nobody.
struct ClusterSpec {
  // This process is worker 0 and trains alone; there is no address at all.
  bool standalone = true;
  std::vector<std::string> ps;
  // Everybody who trains. workers[0] is the chief: the first of the list
  // `chief` (or `master`) if there is one, whose tasks come first, else worker
  // 0.
  std::vector<std::string> workers;
  std::vector<std::string> evaluators;
  // That compute stages of workers' pipelines: of each worker as many, those of
  // worker 0 first.
  std::vector<std::string> stages;
  std::vector<std::string> other_jobs;  // names of jobs that nobody waits for
  // Whether `ps` and `workers` are as long as they are in truth. Kubeflow's
  // dynamic workers are told of no other worker, its ps of no other ps.
  bool knows_all_ps = true;
  bool knows_all_workers = true;

  // What workers[0] is called in TF_CONFIG, "chief" or "master", if it has a
  // list of its own, and how many tasks that has (several masters: the others
  // are workers).
  std::string chief_job;
  int chief_tasks = 0;
  // The same process is listed again as this worker (some producers do).
  absl::optional<int> chief_as_worker;

  // Of a worker that the cluster does not name: where the chief is that it
  // joins; else empty. Until the chief has told it its index and the ps
  // (SetEnlisted), it is worker 1, of one ps whose address it does not know.
  std::string join;

  TaskId self;
  std::string other_type;  // of kOther: how TF_CONFIG calls this task's type

  // What said who belongs to the cluster and who this process is: "TF_CONFIG",
  // "--task_index", "JOB_COMPLETION_INDEX". Empty if nothing did.
  std::string cluster_from;
  std::string type_from;
  std::string index_from;
  // Sentences about what was concluded rather than read; to be logged.
  std::vector<std::string> notes;

  bool is_ps() const { return self.type == TaskType::kPs; }
  bool is_stage() const { return self.type == TaskType::kStage; }
  // Stages of each worker that are in processes of their own; 0: none are.
  uint32_t stages_of_a_worker() const {
    return workers.empty()
               ? 0
               : static_cast<uint32_t>(stages.size() / workers.size());
  }
  bool is_chief() const { return worker_index() == 0; }
  bool joins() const { return !join.empty(); }
  // What the chief says. REQUIRES: joins(), and index is from 1 to kMostTasks -
  // 1.
  void SetEnlisted(int index, std::vector<std::string> addresses_of_ps);
  // The position of this process in `workers`; 0 if standalone, -1 if it is
  // none of them.
  int worker_index() const;
  // The address of this process; empty if standalone, an evaluator or other.
  std::string self_address() const;
  // Of workers[0]; empty if not known.
  std::string chief_address() const;
  // How workers[index] is called in TF_CONFIG.
  TaskId WorkerTask(int index) const;
  // For a task that has nothing to do in a training cluster: a sentence that
  // says so, whereupon the process ends with 0. Else empty.
  std::string nothing_to_do() const;
};

// Reads the cluster. A flag beats its variable beats TF_CONFIG, each for
// itself: --task_type=ps --task_index=0 over a worker's TF_CONFIG is a ps of
// the same cluster. An index that nobody gives comes from
// JOB_COMPLETION_INDEX, VC_TASK_INDEX or the end of the host's name
// ("train-ps-3"); `index_from` says which. Standalone if nothing describes a
// cluster, or one of a single worker. Jobs beside the known ones are kept by
// name.
//
// InvalidArgument with all mistakes at once, one per line, "TF_CONFIG:
// key.path: what to do", for everything else.
absl::StatusOr<ClusterSpec> ReadCluster(const ClusterSources& sources);

// ReadCluster of TF_CONFIG alone; nullopt: it is not set.
absl::StatusOr<ClusterSpec> ParseTfConfig(
    absl::optional<absl::string_view> value);

// TF_CONFIG for process `task` of a cluster, in one line. ParseTfConfig reads
// it back. REQUIRES: not standalone, every address is known.
std::string ToTfConfig(const ClusterSpec& cluster, const TaskId& task);

}  // namespace paramd

#endif  // PARAMD_CONFIG_CLUSTER_SPEC_H_
