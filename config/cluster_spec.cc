#include "config/cluster_spec.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "config/json_value.h"

namespace paramd {

absl::string_view TaskTypeName(TaskType type) {
  switch (type) {
    case TaskType::kChief:
      return "chief";
    case TaskType::kWorker:
      return "worker";
    case TaskType::kPs:
      return "ps";
    case TaskType::kEvaluator:
      return "evaluator";
    case TaskType::kStage:
      return "stage";
    case TaskType::kOther:
      return "other";
  }
  return "";
}

std::string TaskName(const TaskId& task) {
  return absl::StrCat(TaskTypeName(task.type), "-", task.index);
}

int ClusterSpec::worker_index() const {
  if (standalone) return 0;
  if (self.type == TaskType::kChief) return self.index;
  if (self.type != TaskType::kWorker) return -1;
  if (!chief_as_worker.has_value()) return chief_tasks + self.index;
  if (self.index == *chief_as_worker) return 0;
  return chief_tasks + self.index - (self.index > *chief_as_worker ? 1 : 0);
}

std::string ClusterSpec::self_address() const {
  if (standalone) return "";
  if (is_ps()) return ps[self.index];
  if (is_stage()) return stages[self.index];
  return worker_index() < 0 ? "" : workers[worker_index()];
}

std::string ClusterSpec::chief_address() const {
  return workers.empty() ? "" : workers[0];
}

TaskId ClusterSpec::WorkerTask(int index) const {
  if (index < chief_tasks) return {TaskType::kChief, index};
  const int task = index - chief_tasks;
  const bool is_after = chief_as_worker.has_value() && task >= *chief_as_worker;
  return {TaskType::kWorker, is_after ? task + 1 : task};
}

void ClusterSpec::SetEnlisted(int index,
                              std::vector<std::string> addresses_of_ps) {
  const std::string own = self_address();
  self.index = index;
  workers.resize(1);  // The chief; of the others it is not told.
  workers.resize(static_cast<size_t>(index) + 1);
  workers[index] = own;
  ps = std::move(addresses_of_ps);
  knows_all_ps = true;
}

std::string ClusterSpec::nothing_to_do() const {
  if (standalone || self.type != TaskType::kOther) return "";
  return absl::StrCat("a task of type '", Excerpt(other_type),
                      "' takes no part in training: nothing to do");
}

std::string ToTfConfig(const ClusterSpec& cluster, const TaskId& task) {
  const auto list = [](absl::string_view name, auto begin, auto end) {
    return absl::StrCat(
        "\"", name, "\":[",
        absl::StrJoin(begin, end, ",",
                      [](std::string* out, const std::string& address) {
                        *out += QuoteJson(address);
                      }),
        "]");
  };
  std::vector<std::string> workers(
      cluster.workers.begin() + cluster.chief_tasks, cluster.workers.end());
  if (cluster.chief_as_worker.has_value()) {
    workers.insert(workers.begin() + *cluster.chief_as_worker,
                   cluster.workers[0]);
  }
  std::vector<std::string> lists;
  if (cluster.chief_tasks > 0) {
    lists.push_back(list(cluster.chief_job, cluster.workers.begin(),
                         cluster.workers.begin() + cluster.chief_tasks));
  }
  lists.push_back(list("worker", workers.begin(), workers.end()));
  lists.push_back(list("ps", cluster.ps.begin(), cluster.ps.end()));
  if (!cluster.stages.empty()) {
    lists.push_back(
        list("stage", cluster.stages.begin(), cluster.stages.end()));
  }
  const absl::string_view type = task.type == TaskType::kChief
                                     ? absl::string_view(cluster.chief_job)
                                     : TaskTypeName(task.type);
  return absl::StrCat("{\"cluster\":{", absl::StrJoin(lists, ","),
                      "},\"task\":{\"type\":\"", type,
                      "\",\"index\":", task.index, "}}");
}

}  // namespace paramd
