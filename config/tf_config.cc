#include "config/tf_config.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "config/json_value.h"
#include "config/nearest_name.h"
#include "config/task_address.h"
#include "config/variable_reference.h"

namespace paramd {
namespace {

using Kind = JsonValue::Kind;

constexpr absl::string_view kExample =
    R"({"cluster": {"worker": ["host0:2222"], "ps": ["host1:2222"]}, )"
    R"("task": {"type": "worker", "index": 0}})";
// Of all jobs of a flag together.
constexpr size_t kMostExpanded = 2 * kMostTasks;
constexpr absl::string_view kListExample = R"(["host0:2222", "host1:2222"])";

bool IsNothing(const JsonValue* value) {
  return value == nullptr || value->kind == Kind::kNull ||
         (value->kind == Kind::kObject && value->members.empty()) ||
         (value->kind == Kind::kArray && value->elements.empty());
}

// How Vertex AI calls the pools, by their number.
std::string JobOfPool(uint64_t pool) {
  static constexpr absl::string_view kJobs[] = {"chief", "worker", "ps",
                                                "evaluator"};
  return pool < 4 ? std::string(kJobs[pool]) : absl::StrCat("workerpool", pool);
}

std::string JobOfWritten(absl::string_view written) {
  constexpr absl::string_view kPool = "workerpool";
  uint32_t pool = 0;
  if (!absl::StartsWith(written, kPool) ||
      !absl::SimpleAtoi(written.substr(kPool.size()), &pool)) {
    return std::string(written);
  }
  return JobOfPool(pool);
}

// A whole number in [0, kMostTasks), written as a number or as text.
absl::optional<int> IndexIn(const JsonValue& value) {
  int number = -1;
  if (value.kind == Kind::kString) {
    if (!absl::SimpleAtoi(value.text, &number)) return absl::nullopt;
  } else if (value.kind == Kind::kNumber && value.number >= 0 &&
             value.number < kMostTasks) {
    number = static_cast<int>(value.number);
    if (number != value.number) return absl::nullopt;
  }
  if (number < 0 || number >= kMostTasks) return absl::nullopt;
  return number;
}

// Reads one value. Used once.
class Reader {
 public:
  Reader(absl::string_view source, absl::string_view text, Mistakes* mistakes)
      : source_{std::string(source)}, text_(text), mistakes_(*mistakes) {
    source_.has_lines =
        absl::StrContains(absl::StripAsciiWhitespace(text), "\n");
    description_.source = std::string(source);
    description_.place = description_.task_place = source_.At(0);
  }

  ClusterDescription ReadVariable(const WantedOfCluster& wanted);
  ClusterDescription ReadFlag();

 private:
  using Path = std::string;

  void Add(const JsonValue& value, const Path& path,
           absl::string_view sentence) {
    mistakes_.Add(source_.At(value.line), path, sentence);
  }
  // Nullopt, with a mistake added, if the text is no JSON.
  absl::optional<JsonValue> Parse();
  // The key under which the cluster stands: "cluster", "sparseCluster".
  Path KeyOfCluster(const JsonValue& root);
  void CheckWithoutCluster(const JsonValue& root);
  void ReadCluster(const JsonValue& cluster, const Path& path);
  void ReadPools(const JsonValue& pools, const Path& path);
  void ReadJob(const JsonValue& tasks, absl::string_view name,
               absl::string_view written, const Path& path);
  void ReadObjectOfTasks(const JsonValue& tasks, ListedJob* job);
  // Adds a task unless its address is wrong.
  void ReadTaskAddress(const JsonValue& value, int index, ListedJob* job);
  void ReadTask(const JsonValue& task, const WantedOfCluster& wanted);
  void ReadTaskType(const JsonValue& task);
  void ReadTaskIndex(const JsonValue& task);
  void ReadJobWithRanges(absl::string_view text);

  JsonSource source_;
  const absl::string_view text_;
  Mistakes& mistakes_;
  ClusterDescription description_;
  size_t expanded_ = 0;  // addresses written out from ranges
};

ClusterDescription Reader::ReadVariable(const WantedOfCluster& wanted) {
  if (absl::StripAsciiWhitespace(text_).empty()) {
    mistakes_.Add(source_.At(0), "",
                  "is set but empty; unset it to train in this process alone, "
                  "or describe the cluster");
    return std::move(description_);
  }
  const absl::optional<JsonValue> root = Parse();
  if (!root.has_value()) return std::move(description_);
  if (root->kind != Kind::kObject) {
    Add(*root, "",
        absl::StrCat("wants an object such as ", kExample, "; found ",
                     root->Describe()));
    return std::move(description_);
  }
  const Path key = KeyOfCluster(*root);
  if (wanted.cluster && key.empty()) CheckWithoutCluster(*root);
  if (wanted.cluster && !key.empty()) ReadCluster(*root->Find(key), key);
  const JsonValue* task = root->Find("task");
  if (!IsNothing(task)) ReadTask(*task, wanted);
  return std::move(description_);
}

absl::optional<JsonValue> Reader::Parse() {
  absl::optional<JsonValue> root = ParseJson(text_, source_, {}, &mistakes_);
  if (root.has_value()) return root;
  const absl::string_view reference = UnexpandedReference(text_);
  if (!reference.empty()) {
    mistakes_.Add(source_.At(0), "",
                  UnexpandedSentence(reference, source_.name));
  }
  return absl::nullopt;
}

Reader::Path Reader::KeyOfCluster(const JsonValue& root) {
  const JsonValue* cluster = root.Find("cluster");
  const JsonValue* sparse = root.Find("sparseCluster");
  if (!IsNothing(cluster) && !IsNothing(sparse)) {
    Add(*sparse, "sparseCluster", "conflicts with 'cluster'; keep one");
  }
  if (cluster != nullptr && (!IsNothing(cluster) || IsNothing(sparse))) {
    return "cluster";
  }
  return sparse == nullptr ? "" : "sparseCluster";
}

void Reader::CheckWithoutCluster(const JsonValue& root) {
  // `environment` and `job` come with a task or a cluster, never alone.
  const bool has_task = !IsNothing(root.Find("task"));
  for (const JsonMember& member : root.members) {
    static constexpr absl::string_view kHarmless[] = {
        "model_dir", "session_master", "eval_session_master",
        "rpc_layer", "service",        "task"};
    static constexpr absl::string_view kWithTask[] = {"environment", "job",
                                                      "open_ports"};
    if (absl::c_linear_search(kHarmless, member.name) ||
        (has_task && absl::c_linear_search(kWithTask, member.name))) {
      continue;
    }
    const bool is_near = !NearestName(member.name, {"cluster"}).empty() ||
                         absl::StrContains(member.name, "cluster");
    Add(member.value, Excerpt(member.name),
        absl::StrCat("there is no 'cluster' beside this key",
                     is_near ? "; did you mean 'cluster'?" : "", "; ",
                     source_.name, " looks like ", kExample));
  }
}

void Reader::ReadCluster(const JsonValue& cluster, const Path& path) {
  description_.path = path;
  description_.place = source_.At(cluster.line);
  if (cluster.kind == Kind::kNull) return;
  if (cluster.kind != Kind::kObject) {
    Add(cluster, path,
        absl::StrCat("wants an object with the lists chief, worker, ps, "
                     "evaluator, stage; found ",
                     cluster.Describe()));
    return;
  }
  for (const JsonMember& job : cluster.members) {
    description_.has_cluster = true;
    const Path inside =
        absl::StrCat(path, path.empty() ? "" : ".", Excerpt(job.name));
    if (job.name == "worker_pools") {
      ReadPools(job.value, inside);
    } else {
      ReadJob(job.value, JobOfWritten(job.name), job.name, inside);
    }
  }
}

void Reader::ReadPools(const JsonValue& pools, const Path& path) {
  if (pools.kind != Kind::kArray) {
    if (pools.kind == Kind::kNull) return;
    Add(pools, path,
        absl::StrCat("wants a list of objects with 'index' and 'replicas'; "
                     "found ",
                     pools.Describe()));
    return;
  }
  for (size_t i = 0; i < pools.elements.size(); ++i) {
    const JsonValue& pool = pools.elements[i];
    const Path inside = absl::StrCat(path, "[", i, "]");
    const JsonValue* index = pool.Find("index");
    const absl::optional<int> number =
        index == nullptr ? absl::nullopt : IndexIn(*index);
    if (!number.has_value()) {
      Add(pool, inside + ".index",
          "wants the number of the pool: 0 for the chief, 1 workers, 2 ps, 3 "
          "evaluators");
      continue;
    }
    const JsonValue* replicas = pool.Find("replicas");
    if (replicas == nullptr) continue;
    ReadJob(*replicas, JobOfPool(*number), absl::StrCat("pool ", *number),
            inside + ".replicas");
  }
}

void Reader::ReadJob(const JsonValue& tasks, absl::string_view name,
                     absl::string_view written, const Path& path) {
  ListedJob job;
  job.name = std::string(name);
  job.written = std::string(written);
  job.path = path;
  job.place = source_.At(tasks.line);
  job.is_object = tasks.kind == Kind::kObject;
  const bool is_known = job.name == "chief" || job.name == "master" ||
                        job.name == "worker" || job.name == "ps" ||
                        job.name == "evaluator" || job.name == "stage";
  const bool is_list = tasks.kind == Kind::kArray;
  if (absl::c_any_of(description_.jobs, [&](const ListedJob& other) {
        return other.name == job.name;
      })) {
    Add(tasks, path,
        absl::StrCat("'", Excerpt(name), "' is given twice; keep one"));
  } else if (is_known && !is_list && !job.is_object &&
             tasks.kind != Kind::kNull) {
    Add(tasks, path,
        absl::StrCat("wants a list, for example ", kListExample, "; found ",
                     tasks.Describe()));
  } else if (is_known && tasks.elements.size() > kMostTasks) {
    Add(tasks, path,
        absl::StrCat("has ", tasks.elements.size(), " tasks; at most ",
                     kMostTasks, " are admitted"));
  } else if (is_known) {
    for (size_t i = 0; i < tasks.elements.size(); ++i) {
      ReadTaskAddress(tasks.elements[i], static_cast<int>(i), &job);
    }
    ReadObjectOfTasks(tasks, &job);
  } else if (!IsNothing(&tasks)) {
    // Nobody waits for tasks of other jobs: their addresses don't matter.
    job.tasks.emplace(0, "");
  }
  description_.jobs.push_back(std::move(job));
}

void Reader::ReadObjectOfTasks(const JsonValue& tasks, ListedJob* job) {
  for (const JsonMember& task : tasks.members) {
    JsonValue key;
    key.kind = Kind::kString;
    key.text = task.name;
    const absl::optional<int> index = IndexIn(key);
    if (index.has_value() && job->tasks.count(*index) == 0) {
      ReadTaskAddress(task.value, *index, job);
      continue;
    }
    Add(task.value, job->path,
        absl::StrCat("\"", Excerpt(task.name), "\" ",
                     index.has_value() ? "stands for a task given before"
                                       : "is not an index",
                     "; keys are the numbers of tasks, from 0, as in "
                     "{\"0\": \"host0:2222\"}"));
  }
}

void Reader::ReadTaskAddress(const JsonValue& value, int index,
                             ListedJob* job) {
  if (value.kind != Kind::kString) {
    Add(value, job->PathOf(index),
        absl::StrCat("wants an address, for example \"host0:2222\"; found ",
                     value.Describe()));
    return;
  }
  const absl::optional<std::string> wrong =
      WrongAddress(value.text, source_.name);
  if (wrong.has_value()) return Add(value, job->PathOf(index), *wrong);
  job->tasks.emplace(index, value.text);
}

void Reader::ReadTask(const JsonValue& task, const WantedOfCluster& wanted) {
  description_.has_task = true;
  description_.task_place = source_.At(task.line);
  if (task.kind != Kind::kObject) {
    if (!wanted.task_type && !wanted.task_index) return;
    Add(task, "task",
        absl::StrCat("wants an object, found ", task.Describe(),
                     "; say which task this process is, for example {\"type\": "
                     "\"worker\", \"index\": 0}"));
    return;
  }
  if (wanted.task_type) ReadTaskType(task);
  const JsonValue* type = task.Find("type");
  if (type != nullptr)
    description_.type_beside_index = JobOfWritten(type->text);
  if (wanted.task_index) ReadTaskIndex(task);
}

void Reader::ReadTaskType(const JsonValue& task) {
  const JsonValue* pool = task.Find("worker_pool_index");
  const JsonValue* type = task.Find("type");
  if (type == nullptr && pool != nullptr) {
    const absl::optional<int> number = IndexIn(*pool);
    const Path path = "task.worker_pool_index";
    if (number.has_value()) {
      description_.task_type = {JobOfPool(*number), source_.At(pool->line),
                                path};
    } else {
      Add(*pool, path,
          absl::StrCat("wants a whole number from 0, found ",
                       pool->Describe()));
    }
    return;
  }
  if (type == nullptr || type->kind == Kind::kNull) return;
  if (type->kind != Kind::kString) {
    Add(*type, "task.type",
        absl::StrCat("wants a string, found ", type->Describe(),
                     "; give one of chief, worker, ps, evaluator, stage"));
    return;
  }
  const absl::string_view reference = UnexpandedReference(type->text);
  if (!reference.empty()) {
    Add(*type, "task.type", UnexpandedSentence(reference, source_.name));
    return;
  }
  description_.task_type = {JobOfWritten(type->text), source_.At(type->line),
                            "task.type"};
}

void Reader::ReadTaskIndex(const JsonValue& task) {
  const bool is_pool = task.Find("index") == nullptr;
  const JsonValue* index = task.Find(is_pool ? "replica_index" : "index");
  const Path path = is_pool ? "task.replica_index" : "task.index";
  if (index == nullptr || index->kind == Kind::kNull) return;
  const absl::optional<int> number = IndexIn(*index);
  if (number.has_value()) {
    description_.task_index = {*number, source_.At(index->line), path};
    return;
  }
  const absl::string_view reference = UnexpandedReference(index->text);
  if (!reference.empty()) {
    Add(*index, path, UnexpandedSentence(reference, source_.name));
    return;
  }
  const bool is_empty = index->kind == Kind::kString && index->text.empty();
  Add(*index, path,
      is_empty ? "is empty (an unset variable leaves such a hole); wants a "
                 "whole number from 0"
               : absl::StrCat("wants a whole number from 0 to ", kMostTasks - 1,
                              ", found ", index->Describe()));
}

ClusterDescription Reader::ReadFlag() {
  const absl::string_view text = absl::StripAsciiWhitespace(text_);
  if (absl::StartsWith(text, "{")) {
    const absl::optional<JsonValue> root = Parse();
    if (root.has_value()) ReadCluster(*root, "");
    return std::move(description_);
  }
  source_.has_lines = false;
  if (text.empty()) {
    mistakes_.Add(source_.At(0), "",
                  "is empty; write for example ps=ps-{0..3}.train:7077 "
                  "worker=worker-{0..7}.train:7077");
  }
  for (const absl::string_view job :
       absl::StrSplit(text, absl::ByAnyChar("; \t\r\n"), absl::SkipEmpty())) {
    ReadJobWithRanges(job);
    if (expanded_ > kMostExpanded) break;
  }
  return std::move(description_);
}

void Reader::ReadJobWithRanges(absl::string_view text) {
  description_.has_cluster = true;
  const size_t equals = text.find('=');
  if (equals == absl::string_view::npos || equals == 0) {
    mistakes_.Add(source_.At(0), "",
                  absl::StrCat("\"", Excerpt(text),
                               "\" names no job; write job=address,address, "
                               "for example ps=ps-{0..3}.train:7077"));
    return;
  }
  const absl::string_view name = text.substr(0, equals);
  const Path path = Excerpt(name);
  // The same as a list of JSON.
  JsonValue list;
  list.kind = Kind::kArray;
  for (const absl::string_view part :
       absl::StrSplit(text.substr(equals + 1), ',', absl::SkipEmpty())) {
    const absl::StatusOr<std::vector<std::string>> addresses =
        ExpandRanges(part);
    if (!addresses.ok()) {
      mistakes_.Add(source_.At(0), path, addresses.status().message());
      continue;
    }
    expanded_ += addresses->size();
    if (expanded_ > kMostExpanded) {
      mistakes_.Add(source_.At(0), path,
                    absl::StrCat("the flag stands for more than ",
                                 kMostExpanded, " addresses; nobody has that"));
      return;
    }
    for (const std::string& address : *addresses) {
      JsonValue element;
      element.kind = Kind::kString;
      element.text = address;
      list.elements.push_back(std::move(element));
    }
  }
  ReadJob(list, JobOfWritten(name), name, path);
}

}  // namespace

ClusterDescription DescribeTfConfig(absl::string_view variable,
                                    absl::string_view text,
                                    const WantedOfCluster& wanted,
                                    Mistakes* mistakes) {
  return Reader(variable, text, mistakes).ReadVariable(wanted);
}

ClusterDescription DescribeClusterFlag(absl::string_view source,
                                       absl::string_view text,
                                       Mistakes* mistakes) {
  return Reader(source, text, mistakes).ReadFlag();
}

}  // namespace paramd
