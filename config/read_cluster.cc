// Joins what the sources say into one cluster, or names all mistakes in it.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "base/status_macros.h"
#include "config/cluster_description.h"
#include "config/cluster_spec.h"
#include "config/joining.h"
#include "config/json_value.h"
#include "config/mistakes.h"
#include "config/nearest_name.h"
#include "config/task_address.h"
#include "config/tf_config.h"
#include "config/variable_reference.h"

namespace paramd {
namespace {

constexpr absl::string_view kTypes = "chief, worker, ps, evaluator, stage";

// kOther for a name that is none of paramd's.
TaskType TypeNamed(absl::string_view name) {
  if (name == "master") return TaskType::kChief;
  for (const TaskType type :
       {TaskType::kChief, TaskType::kWorker, TaskType::kPs,
        TaskType::kEvaluator, TaskType::kStage}) {
    if (name == TaskTypeName(type)) return type;
  }
  return TaskType::kOther;
}

// The type of ours that `name`, which is none, is likely meant to be: "Worker",
// "workers", "ps_hosts". Empty if none is near.
std::string MeantType(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  // TensorFlow's name for a process that trains alone.
  if (lower == "local" || lower == "localhost") return "worker";
  for (const absl::string_view known :
       {"chief", "worker", "ps", "evaluator", "stage"}) {
    absl::string_view rest = lower;
    if (!absl::ConsumePrefix(&rest, known)) continue;
    const bool means_it = rest.empty() || rest == "s" || rest[0] == '_' ||
                          rest[0] == '-' || absl::ascii_isdigit(rest[0]);
    if (means_it) return std::string(known);
  }
  return NearestName(name, {"chief", "worker", "evaluator", "stage", "master"});
}

// "; call 'worker_hosts' 'worker'" if a job is likely meant to be a known one.
std::string RenamingHint(const ClusterDescription& cluster) {
  for (const ListedJob& job : cluster.jobs) {
    for (const absl::string_view known : {"chief", "worker", "ps"}) {
      const bool begins = absl::StartsWith(job.written, known) &&
                          job.written.size() > known.size();
      if (begins && !absl::StartsWith(job.written, "workerpool")) {
        return absl::StrCat("; call '", Excerpt(job.written), "' just '", known,
                            "'");
      }
    }
  }
  return "";
}

// Joins the sources into one ClusterSpec. Used once.
class ClusterReader {
 public:
  explicit ClusterReader(const ClusterSources& sources) : sources_(sources) {}
  absl::StatusOr<ClusterSpec> Read();

 private:
  void ReadWithoutCluster();
  void ReadWithCluster();
  // Looks for the index where the sources don't say it.
  void FindIndex();
  void ResolveType();
  void AddMissingTask();
  void ReadPs();
  void ReadChief();
  void ReadWorkers();
  void ReadOthers();
  void FindUnknownChief();
  void CheckWhoIsThere();
  void CheckSelf();
  void CheckEqualAddresses();
  void Finish();

  void AddToCluster(absl::string_view sentence) {
    mistakes_.Add(cluster_->place, cluster_->path, sentence);
  }
  bool trains_or_serves() const {
    return type_ == TaskType::kChief || type_ == TaskType::kWorker ||
           type_ == TaskType::kPs || type_ == TaskType::kStage;
  }
  // Whether the workers are an object, of which this process may see a part.
  bool is_dynamic() const {
    return absl::c_any_of(cluster_->jobs, [](const ListedJob& job) {
      return job.name == "worker" && job.is_object;
    });
  }
  const ListedJob* ListOf(TaskType type) const;

  const ClusterSources& sources_;
  Mistakes mistakes_;
  GatheredCluster gathered_;
  const ClusterDescription* const cluster_ = &gathered_.cluster;
  absl::optional<TaskType> type_;  // once its name is understood
  absl::optional<Sourced<int>> index_;
  ClusterSpec spec_;
};

absl::StatusOr<ClusterSpec> ClusterReader::Read() {
  gathered_ = GatherCluster(sources_, &mistakes_);
  index_ = gathered_.index;
  // Of a text that could not be read everything would be missing.
  if (mistakes_.HasAt("")) return mistakes_.ToStatus();
  const bool names_nobody =
      !cluster_->has_tasks() && !is_dynamic() && !gathered_.type.has_value();
  if (cluster_->has_cluster && (!names_nobody || !mistakes_.empty())) {
    ReadWithCluster();
  } else if (mistakes_.empty()) {
    ReadWithoutCluster();
  }
  if (!mistakes_.empty()) return mistakes_.ToStatus();
  return std::move(spec_);
}

void ClusterReader::FindIndex() {
  if (index_.has_value() || mistakes_.HasUnder("task.index") ||
      mistakes_.HasAt("")) {
    return;
  }
  index_ = FindIndexAround(sources_, &mistakes_);
  if (index_.has_value() || mistakes_.HasAt("")) return;
  const ListedJob* list = ListOf(*type_);
  const bool is_only_chief =
      type_ == TaskType::kChief && list != nullptr && list->tasks.size() == 1;
  if (type_ == TaskType::kEvaluator || is_only_chief) {
    index_ = {0, Place{"there is only one"}, ""};
    return;
  }
  const bool is_flag = gathered_.cluster_is_flag;
  mistakes_.Add(
      is_flag ? Place{"--task_index"} : gathered_.task_place,
      is_flag ? "" : "task.index",
      absl::StrCat(
          "is missing; give the position of this process in its list, from 0, ",
          is_flag ? "" : "here or by --task_index ",
          "(JOB_COMPLETION_INDEX and VC_TASK_INDEX are not set, and the host's "
          "name, \"",
          Excerpt(sources_.host_name),
          "\", does not end in '-' and a number)"));
}

void ClusterReader::ReadWithoutCluster() {
  const bool is_first = !index_.has_value() || index_->value == 0;
  const TaskType type = gathered_.type.has_value()
                            ? TypeNamed(gathered_.type->value)
                            : TaskType::kWorker;
  if (type == TaskType::kEvaluator) {
    spec_.standalone = false;
    spec_.self = {TaskType::kEvaluator, is_first ? 0 : index_->value};
    spec_.type_from = spec_.index_from =
        gathered_.task_flag.empty() ? gathered_.variable : gathered_.task_flag;
    return;
  }
  if (!gathered_.task_flag.empty()) {
    mistakes_.Add(Place{gathered_.task_flag}, "",
                  "names a task, but there is no cluster that it could belong "
                  "to; give --cluster or TF_CONFIG");
    return;
  }
  const bool may_be_alone =
      type == TaskType::kChief || type == TaskType::kWorker;
  if (!is_first || !may_be_alone) {
    mistakes_.Add(
        gathered_.task_place, "task",
        absl::StrCat("names a task, but there is no 'cluster' that "
                     "it could belong to; add the cluster, or unset ",
                     gathered_.variable, " to train in this process alone"));
    return;
  }
  spec_.notes.push_back(
      gathered_.variable.empty()
          ? "TF_CONFIG is not set: the whole job runs in this process"
          : absl::StrCat(gathered_.variable,
                         " describes no cluster: the whole job runs in this "
                         "process"));
}

void ClusterReader::ReadWithCluster() {
  spec_.standalone = false;
  spec_.cluster_from = cluster_->source;
  const bool is_sound = cluster_->path.empty()
                            ? mistakes_.empty()
                            : !mistakes_.HasUnder(cluster_->path);
  ResolveType();
  if (type_.has_value()) {
    spec_.self.type = *type_;
    spec_.type_from = gathered_.type->place.source;
    FindIndex();
  }
  if (index_.has_value()) {
    spec_.self.index = index_->value;
    spec_.index_from = index_->place.source;
  }
  if (!is_sound) return;
  ReadPs();
  ReadChief();
  ReadWorkers();
  ReadOthers();
  if (type_.has_value()) CheckWhoIsThere();
  CheckEqualAddresses();
  if (mistakes_.HasUnder(cluster_->path)) return;
  if (type_.has_value() && index_.has_value()) CheckSelf();
  if (mistakes_.empty()) Finish();
}

void ClusterReader::ResolveType() {
  if (!gathered_.type.has_value()) {
    const bool is_wrong =
        mistakes_.HasAt("task") || mistakes_.HasUnder("task.type");
    if (!is_wrong) AddMissingTask();
    return;
  }
  const std::string& name = gathered_.type->value;
  const TaskType known = TypeNamed(name);
  if (known != TaskType::kOther) {
    type_ = known;
    return;
  }
  const std::string meant = MeantType(name);
  if (cluster_->Find(name) != nullptr && !meant.empty()) {
    mistakes_.Add(
        gathered_.type->place, gathered_.type->path,
        absl::StrCat("\"", Excerpt(name),
                     "\" is not a task type, though the cluster lists "
                     "it; did you mean '",
                     meant, "'?"));
    return;
  }
  if (cluster_->Find(name) != nullptr) {
    type_ = TaskType::kOther;
    spec_.other_type = name;
    return;
  }
  const absl::string_view reference = UnexpandedReference(name);
  mistakes_.Add(
      gathered_.type->place, gathered_.type->path,
      reference.empty()
          ? absl::StrCat("unknown task type \"", Excerpt(name), "\"",
                         NearestNameHint(name, {"chief", "worker", "ps",
                                                "evaluator", "stage"}))
          : UnexpandedSentence(reference, gathered_.type->place.source));
}

void ClusterReader::AddMissingTask() {
  if (gathered_.cluster_is_flag && !gathered_.has_task) {
    mistakes_.Add(Place{"--task_type"}, "",
                  absl::StrCat("is missing; say which task of the cluster this "
                               "process is: one of ",
                               kTypes, "; --task_index says which of them"));
  } else if (!gathered_.has_task) {
    mistakes_.Add(cluster_->place, "task",
                  "is missing; say which task this process is, for example "
                  "{\"type\": \"worker\", \"index\": 0}");
  } else {
    mistakes_.Add(gathered_.task_place, "task.type",
                  absl::StrCat("is missing; give one of ", kTypes));
  }
}

const ListedJob* ClusterReader::ListOf(TaskType type) const {
  if (type != TaskType::kChief) return cluster_->Find(TaskTypeName(type));
  const ListedJob* chief = cluster_->Find("chief");
  return chief != nullptr ? chief : cluster_->Find("master");
}

void ClusterReader::ReadPs() {
  const ListedJob* ps = ListOf(TaskType::kPs);
  if (ps == nullptr) {
    // Dynamic workers and no ps: there may be more of them than are seen.
    return;
  }
  // A ps of a Kubeflow job with dynamic workers is alone in its list, whatever
  // its index.
  const bool is_only_self = type_ == TaskType::kPs && is_dynamic() &&
                            !ps->is_object && ps->tasks.size() == 1;
  if (is_only_self && index_.has_value()) {
    spec_.ps.resize(index_->value + 1);
    spec_.ps.back() = ps->tasks.begin()->second;
    spec_.knows_all_ps = false;
    spec_.notes.push_back(absl::StrCat(cluster_->source,
                                       " tells this ps of no other: it is ps ",
                                       index_->value, " at ", spec_.ps.back()));
    return;
  }
  const int count = ps->tasks.rbegin()->first + 1;
  spec_.ps.resize(count);
  for (const auto& [index, address] : ps->tasks) spec_.ps[index] = address;
  spec_.knows_all_ps = count == static_cast<int>(ps->tasks.size());
  if (spec_.knows_all_ps || type_ == TaskType::kPs ||
      (type_.has_value() && !trains_or_serves())) {
    return;
  }
  const auto unknown = absl::c_find(spec_.ps, "");
  mistakes_.Add(ps->place, ps->path,
                absl::StrCat("has task ", count - 1, ", but no task ",
                             unknown - spec_.ps.begin(),
                             "; a worker needs the address of every ps, "
                             "starting at index 0"));
}

void ClusterReader::ReadChief() {
  const ListedJob* chief = cluster_->Find("chief");
  const ListedJob* master = cluster_->Find("master");
  if (chief != nullptr && master != nullptr) {
    mistakes_.Add(master->place, master->path,
                  absl::StrCat("conflicts with '", chief->written,
                               "', which means the same; keep one"));
    return;
  }
  if (chief == nullptr && master == nullptr) return;
  const ListedJob& list = chief != nullptr ? *chief : *master;
  if (chief != nullptr && list.tasks.size() > 1) {
    mistakes_.Add(list.place, list.path,
                  absl::StrCat("has ", list.tasks.size(),
                               " tasks; there is one chief, so make the others "
                               "workers"));
    return;
  }
  if (list.tasks.rbegin()->first + 1 != static_cast<int>(list.tasks.size())) {
    mistakes_.Add(list.place, list.path,
                  "has no task 0, who is the chief; number them from 0");
    return;
  }
  spec_.chief_job = list.name;
  spec_.chief_tasks = static_cast<int>(list.tasks.size());
  for (const auto& task : list.tasks) spec_.workers.push_back(task.second);
  if (spec_.chief_tasks > 1) {
    spec_.notes.push_back(absl::StrCat("of ", spec_.chief_tasks, " tasks '",
                                       list.written,
                                       "' the first is the chief, the others "
                                       "are workers"));
  }
}

void ClusterReader::ReadWorkers() {
  const ListedJob* list = ListOf(TaskType::kWorker);
  spec_.knows_all_workers = !is_dynamic();
  if (list == nullptr) return;
  for (const auto& [index, address] : list->tasks) {
    if (spec_.chief_tasks > 0 && address == spec_.workers[0]) {
      spec_.chief_as_worker = index;
      break;
    }
  }
  const int count = list->tasks.rbegin()->first + 1;
  for (int i = 0; i < count; ++i) {
    if (spec_.chief_as_worker == i) continue;
    const auto task = list->tasks.find(i);
    spec_.workers.push_back(task == list->tasks.end() ? "" : task->second);
  }
  // One alone in an object may be the only one that this process was told of.
  const bool has_gaps = count != static_cast<int>(list->tasks.size());
  if (list->is_object) spec_.knows_all_workers = !has_gaps && count > 1;
}

void ClusterReader::ReadOthers() {
  const ListedJob* evaluators = ListOf(TaskType::kEvaluator);
  if (evaluators != nullptr) {
    for (const auto& task : evaluators->tasks) {
      spec_.evaluators.push_back(task.second);
    }
  }
  const ListedJob* stages = ListOf(TaskType::kStage);
  if (stages != nullptr &&
      stages->tasks.rbegin()->first + 1 == int(stages->tasks.size())) {
    for (const auto& task : stages->tasks) {
      spec_.stages.push_back(task.second);
    }
  } else if (stages != nullptr) {
    mistakes_.Add(stages->place, stages->path,
                  "does not have every task from 0 on; which of them are a "
                  "worker's follows from their numbers, so list all");
  }
  for (const ListedJob& job : cluster_->jobs) {
    if (TypeNamed(job.name) == TaskType::kOther) {
      spec_.other_jobs.push_back(job.written);
    }
  }
}

void ClusterReader::CheckWhoIsThere() {
  if (!trains_or_serves() || mistakes_.HasUnder(cluster_->path)) return;
  if (type_ == TaskType::kPs && is_dynamic()) {
    if (spec_.workers.empty()) spec_.workers.emplace_back();
    return;
  }
  if (type_ == TaskType::kChief && is_dynamic() && !cluster_->has_tasks()) {
    return AddToCluster(
        "names nobody: a TFJob with enableDynamicWorker tells its chief "
        "nothing of ps and workers (kubeflow/trainer#1763); leave out the "
        "Chief replica, so that worker 0 is the chief, or leave out "
        "enableDynamicWorker");
  }
  const std::string found =
      cluster_->has_tasks() ? "only: " + cluster_->JobNames() : "nor others";
  if (spec_.workers.empty()) {
    return AddToCluster(absl::StrCat("has neither 'worker' nor 'chief' tasks, ",
                                     found, "; somebody has to train",
                                     RenamingHint(*cluster_)));
  }
  if (!spec_.stages.empty() && !spec_.knows_all_workers) {
    return AddToCluster(
        "has 'stage' tasks and may not name all workers; which stages are a "
        "worker's follows from how many there are of both, so list all "
        "workers, as in \"worker\": [\"host0:2222\"]");
  }
  if (spec_.ps.empty() && sources_.needs_servers &&
      (spec_.workers.size() > 1 || !spec_.knows_all_workers)) {
    AddToCluster(absl::StrCat(
        "has no 'ps' tasks, ", found, "; the strategy '", sources_.strategy,
        "' trains through parameter servers, so add at least one, as in "
        "\"ps\": [\"host1:2222\"], choose strategy \"multi_worker_mirrored\", "
        "where each worker has a copy, or list one worker alone to train in "
        "its process",
        RenamingHint(*cluster_)));
  } else if (spec_.ps.empty() && sources_.needs_servers &&
             !spec_.stages.empty()) {
    AddToCluster(
        "has 'stage' tasks and no 'ps' tasks; a worker whose stages are in "
        "other processes trains through parameter servers, so add at least "
        "one, as in \"ps\": [\"host1:2222\"]");
  }
}

void ClusterReader::CheckSelf() {
  if (!trains_or_serves()) return;
  const std::string name(TaskTypeName(*type_));
  const ListedJob* list = ListOf(*type_);
  if (list == nullptr) {
    mistakes_.Add(gathered_.type->place, gathered_.type->path,
                  absl::StrCat("is '", name, "', but the cluster has no '",
                               name, "' tasks, only: ", cluster_->JobNames(),
                               type_ == TaskType::kChief
                                   ? "; without them worker 0 is the chief"
                                   : ""));
    return;
  }
  const bool is_known = type_ == TaskType::kPs && !spec_.knows_all_ps
                            ? index_->value < int(spec_.ps.size()) &&
                                  !spec_.ps[index_->value].empty()
                            : list->tasks.count(index_->value) != 0;
  if (is_known) {
    if (type_ != TaskType::kPs && spec_.workers[0].empty()) FindUnknownChief();
    return;
  }
  const size_t count = list->tasks.size();
  const std::string has =
      list->is_object
          ? absl::StrCat("has only task ",
                         absl::StrJoin(list->tasks, ", ",
                                       [](std::string* out, const auto& task) {
                                         absl::StrAppend(out, task.first);
                                       }))
          : absl::StrCat("has ", count, count == 1 ? " task" : " tasks",
                         ", numbered from 0");
  const bool is_host = absl::StartsWith(index_->place.source, "host name");
  mistakes_.Add(index_->place, index_->path,
                absl::StrCat(is_host ? "ends in " : "is ", index_->value,
                             ", but '", list->path, "' ", has));
}

void ClusterReader::FindUnknownChief() {
  const ListedJob& list = *ListOf(TaskType::kWorker);
  const std::string& own = list.tasks.at(index_->value);
  const absl::optional<std::string> chief = WithOrdinal(own, index_->value, 0);
  if (!chief.has_value()) {
    mistakes_.Add(
        list.place, list.path,
        absl::StrCat("has no task 0, who is the chief, and \"", Excerpt(own),
                     "\" does not tell its address; add it, or name "
                     "a 'chief'"));
    return;
  }
  spec_.workers[0] = *chief;
  spec_.notes.push_back(
      absl::StrCat(cluster_->source,
                   " does not tell this worker where worker 0, the chief, "
                   "is; by its own address that is ",
                   *chief));
}

void ClusterReader::CheckEqualAddresses() {
  std::map<std::string, std::string> first;
  for (const TaskType type :
       {TaskType::kPs, TaskType::kChief, TaskType::kWorker, TaskType::kStage}) {
    const ListedJob* list = ListOf(type);
    if (list == nullptr) continue;
    for (const auto& [index, address] : list->tasks) {
      const bool is_chief_again =
          type == TaskType::kWorker && spec_.chief_as_worker == index;
      const bool is_no_address =
          type == TaskType::kWorker && IsPlaceholder(address);
      if (is_chief_again || is_no_address) continue;
      const std::string path = list->PathOf(index);
      const auto [other, is_new] = first.emplace(address, path);
      if (is_new) continue;
      mistakes_.Add(
          list->place, path,
          absl::StrCat("has the address of ", other->second, ", \"",
                       Excerpt(address), "\"; two tasks can't share one"));
    }
  }
}

void ClusterReader::Finish() {
  const bool is_only_worker = spec_.ps.empty() && spec_.worker_index() == 0 &&
                              spec_.workers.size() == 1 &&
                              spec_.knows_all_workers;
  if (is_only_worker) {
    const std::string source = spec_.cluster_from;
    spec_ = ClusterSpec();
    spec_.notes.push_back(absl::StrCat(
        source,
        " has one worker and no ps: the whole job runs in this process"));
    return;
  }
  if (!gathered_.index.has_value()) {
    spec_.notes.push_back(absl::StrCat("the index of this task, ",
                                       index_->value,
                                       ", is from: ", index_->place.source));
  }
}

}  // namespace

absl::StatusOr<ClusterSpec> ReadCluster(const ClusterSources& sources) {
  ASSIGN_OR_RETURN(absl::optional<ClusterSpec> joining, ReadJoining(sources));
  if (joining.has_value()) return *std::move(joining);
  return ClusterReader(sources).Read();
}

absl::StatusOr<ClusterSpec> ParseTfConfig(
    absl::optional<absl::string_view> value) {
  ClusterSources sources;
  if (value.has_value()) {
    sources.environment.emplace_back("TF_CONFIG", *value);
  }
  return ReadCluster(sources);
}

}  // namespace paramd
