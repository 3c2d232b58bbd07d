#include "config/cluster_spec.h"

#include <map>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "config/json_value.h"
#include "config/mistakes.h"
#include "config/nearest_name.h"

namespace paramd {
namespace {

using Kind = JsonValue::Kind;

constexpr TaskType kTaskTypes[] = {TaskType::kChief, TaskType::kWorker,
                                   TaskType::kPs, TaskType::kEvaluator};
constexpr absl::string_view kExample =
    R"({"cluster": {"worker": ["host0:2222"], "ps": ["host1:2222"]}, )"
    R"("task": {"type": "worker", "index": 0}})";

std::vector<std::string> TaskTypeNames() {
  std::vector<std::string> names;
  for (const TaskType type : kTaskTypes) names.emplace_back(TaskTypeName(type));
  return names;
}

bool IsWordCharacter(char c) { return absl::ascii_isalnum(c) || c == '_'; }

// The first "$(NAME)", "${NAME}", "$NAME" or "%name%" in `text`; else empty.
absl::string_view UnexpandedReference(absl::string_view text) {
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    const char c = text[i];
    if (c != '$' && c != '%') continue;
    const bool is_enclosed = text[i + 1] == '(' || text[i + 1] == '{';
    size_t end = i + 1 + (c == '$' && is_enclosed ? 1 : 0);
    const size_t begin = end;
    while (end < text.size() && IsWordCharacter(text[end])) ++end;
    if (end == begin) continue;
    const char closing = end < text.size() ? text[end] : '\0';
    if (c == '$' && !is_enclosed) return text.substr(i, end - i);
    if (closing == '%' || closing == ')' || closing == '}') {
      return text.substr(i, end + 1 - i);
    }
  }
  return "";
}

std::string UnexpandedSentence(absl::string_view reference) {
  return absl::StrCat("the variable reference `", Excerpt(reference),
                      "` was not expanded; define that variable before "
                      "TF_CONFIG (Kubernetes expands $(NAME) of variables that "
                      "stand earlier in the same container)");
}

// Reads one TF_CONFIG. Used once.
class TfConfigReader {
 public:
  absl::StatusOr<ClusterSpec> Read(absl::string_view text);

 private:
  using Path = std::string;

  void Add(const JsonValue& value, const Path& path,
           absl::string_view sentence) {
    mistakes_.Add(source_.At(value.line), path, sentence);
  }
  // True if the object means "alone", or is a mistake without a cluster.
  bool IsWithoutCluster(const JsonValue& root);
  void ReadCluster(const JsonValue& cluster);
  std::vector<std::string> ReadAddresses(const JsonValue& cluster,
                                         TaskType type);
  void JoinWorkers(const JsonValue& cluster);
  void CheckEqualAddresses(const JsonValue& cluster);
  void ReadTask(const JsonValue& root);
  absl::optional<TaskType> ReadTaskType(const JsonValue& task);
  absl::optional<int> ReadTaskIndex(const JsonValue& task);
  void CheckTask(const JsonValue& task);

  JsonSource source_ = {"TF_CONFIG"};
  Mistakes mistakes_;
  std::map<TaskType, std::vector<std::string>> lists_;
  std::vector<std::string> jobs_;  // every name in the cluster
  ClusterSpec spec_;
};

absl::StatusOr<ClusterSpec> TfConfigReader::Read(absl::string_view text) {
  source_.has_lines = absl::StrContains(absl::StripAsciiWhitespace(text), "\n");
  if (absl::StripAsciiWhitespace(text).empty()) {
    mistakes_.Add(source_.At(0), "",
                  "is set but empty; unset it to train in this process alone, "
                  "or describe the cluster");
    return mistakes_.ToStatus();
  }
  const absl::optional<JsonValue> root =
      ParseJson(text, source_, {}, &mistakes_);
  if (!root.has_value()) {
    const absl::string_view reference = UnexpandedReference(text);
    if (!reference.empty()) {
      mistakes_.Add(source_.At(0), "", UnexpandedSentence(reference));
    }
    return mistakes_.ToStatus();
  }
  if (root->kind != Kind::kObject) {
    Add(*root, "",
        absl::StrCat("wants an object such as ", kExample, "; found ",
                     root->Describe()));
    return mistakes_.ToStatus();
  }
  if (!IsWithoutCluster(*root)) {
    spec_.standalone = false;
    ReadCluster(*root->Find("cluster"));
    ReadTask(*root);
  }
  if (!mistakes_.empty()) return mistakes_.ToStatus();
  // One worker that knows nobody else needs no servers.
  if (spec_.ps.empty()) return ClusterSpec();
  return spec_;
}

bool TfConfigReader::IsWithoutCluster(const JsonValue& root) {
  const JsonValue* cluster = root.Find("cluster");
  const JsonValue* task = root.Find("task");
  const bool is_nobody =
      cluster == nullptr || cluster->kind == Kind::kNull ||
      (cluster->kind == Kind::kObject && cluster->members.empty());
  if (!is_nobody) return false;
  const bool has_task = task != nullptr && !task->members.empty();
  if (has_task) {
    Add(*task, "task",
        "names a task, but there is no 'cluster' that it could belong to; add "
        "the cluster, or unset TF_CONFIG to train in this process alone");
    return true;
  }
  // A misspelt "cluster" must not quietly become a job of one process.
  if (cluster != nullptr || task != nullptr) return true;
  static constexpr absl::string_view kHarmless[] = {
      "model_dir", "session_master", "eval_session_master", "rpc_layer",
      "service"};
  for (const JsonMember& member : root.members) {
    if (absl::c_linear_search(kHarmless, member.name)) continue;
    Add(member.value, Excerpt(member.name),
        absl::StrCat("there is no 'cluster' beside this key",
                     NearestName(member.name, {"cluster"}).empty()
                         ? ""
                         : "; did you mean "
                           "'cluster'?",
                     "; TF_CONFIG looks like ", kExample));
  }
  return true;
}

void TfConfigReader::ReadCluster(const JsonValue& cluster) {
  if (cluster.kind != Kind::kObject) {
    Add(cluster, "cluster",
        absl::StrCat("wants an object with the lists ",
                     absl::StrJoin(TaskTypeNames(), ", "), "; found ",
                     cluster.Describe()));
    return;
  }
  for (const JsonMember& job : cluster.members) {
    jobs_.push_back(Excerpt(job.name));
  }
  for (const TaskType type : kTaskTypes) {
    lists_[type] = ReadAddresses(cluster, type);
  }
  if (mistakes_.HasUnder("cluster")) return;
  JoinWorkers(cluster);
  const std::string found = absl::StrJoin(jobs_, ", ");
  if (spec_.workers.empty()) {
    Add(cluster, "cluster",
        absl::StrCat("has neither 'worker' nor 'chief' tasks, only: ", found,
                     "; somebody has to train"));
  } else if (spec_.ps.empty() && spec_.workers.size() > 1) {
    Add(cluster, "cluster",
        absl::StrCat("has no 'ps' tasks, only: ", found,
                     "; several workers train through parameter servers, so "
                     "add at least one, as in \"ps\": [\"host1:2222\"]"));
  }
  CheckEqualAddresses(cluster);
}

std::vector<std::string> TfConfigReader::ReadAddresses(const JsonValue& cluster,
                                                       TaskType type) {
  std::vector<std::string> addresses;
  const std::string name(TaskTypeName(type));
  const JsonValue* list = cluster.Find(name);
  if (list == nullptr || list->kind == Kind::kNull) return addresses;
  const std::string path = absl::StrCat("cluster.", name);
  if (list->kind == Kind::kObject && list->members.empty()) return addresses;
  if (list->kind != Kind::kArray) {
    Add(*list, path,
        absl::StrCat("wants a list, for example [\"host0:2222\"]; found ",
                     list->Describe()));
    return addresses;
  }
  for (size_t i = 0; i < list->elements.size(); ++i) {
    const JsonValue& element = list->elements[i];
    const std::string at = absl::StrCat(path, "[", i, "]");
    if (element.kind != Kind::kString) {
      Add(element, at,
          absl::StrCat("wants an address, for example \"host0:2222\"; found ",
                       element.Describe()));
      continue;
    }
    const absl::optional<std::string> wrong = WrongAddress(element.text);
    if (wrong.has_value()) Add(element, at, *wrong);
    addresses.push_back(element.text);
  }
  return addresses;
}

void TfConfigReader::JoinWorkers(const JsonValue& cluster) {
  const std::vector<std::string>& chief = lists_[TaskType::kChief];
  const std::vector<std::string>& worker = lists_[TaskType::kWorker];
  if (chief.size() > 1) {
    Add(*cluster.Find("chief"), "cluster.chief",
        absl::StrCat("has ", chief.size(),
                     " tasks; there is one chief, so make the others workers"));
  }
  spec_.ps = lists_[TaskType::kPs];
  spec_.workers = chief;
  spec_.has_chief_list = !chief.empty();
  spec_.chief_is_worker_0 =
      spec_.has_chief_list && !worker.empty() && worker[0] == chief[0];
  spec_.workers.insert(spec_.workers.end(),
                       worker.begin() + (spec_.chief_is_worker_0 ? 1 : 0),
                       worker.end());
}

void TfConfigReader::CheckEqualAddresses(const JsonValue& cluster) {
  std::map<std::string, std::string> first;
  const auto check = [&](TaskType type, const std::string& address, size_t i) {
    const std::string path =
        absl::StrCat("cluster.", TaskTypeName(type), "[", i, "]");
    const auto [other, is_new] = first.emplace(address, path);
    if (is_new) return;
    Add(*cluster.Find(TaskTypeName(type)), path,
        absl::StrCat("has the address of ", other->second, ", \"",
                     Excerpt(address), "\"; two tasks can't share one"));
  };
  for (const TaskType type :
       {TaskType::kPs, TaskType::kChief, TaskType::kWorker}) {
    const std::vector<std::string>& list = lists_[type];
    for (size_t i = 0; i < list.size(); ++i) {
      const bool is_chief_again =
          type == TaskType::kWorker && i == 0 && spec_.chief_is_worker_0;
      if (!is_chief_again) check(type, list[i], i);
    }
  }
}

void TfConfigReader::ReadTask(const JsonValue& root) {
  const JsonValue* task = root.Find("task");
  if (task == nullptr || task->kind != Kind::kObject) {
    Add(task == nullptr ? root : *task, "task",
        absl::StrCat(task == nullptr ? "is missing" : "wants an object",
                     "; say which task this process is, for example {\"type\": "
                     "\"worker\", \"index\": 0}"));
    return;
  }
  const absl::optional<TaskType> type = ReadTaskType(*task);
  const absl::optional<int> index = ReadTaskIndex(*task);
  if (!type.has_value() || !index.has_value()) return;
  spec_.self = {*type, *index};
  if (!mistakes_.HasUnder("cluster")) CheckTask(*task);
}

absl::optional<TaskType> TfConfigReader::ReadTaskType(const JsonValue& task) {
  const JsonValue* type = task.Find("type");
  if (type == nullptr || type->kind != Kind::kString) {
    Add(type == nullptr ? task : *type, "task.type",
        absl::StrCat(type == nullptr
                         ? "is missing"
                         : "wants a string, found " + type->Describe(),
                     "; give one of ", absl::StrJoin(TaskTypeNames(), ", ")));
    return absl::nullopt;
  }
  for (const TaskType known : kTaskTypes) {
    if (type->text == TaskTypeName(known)) return known;
  }
  const absl::string_view reference = UnexpandedReference(type->text);
  Add(*type, "task.type",
      reference.empty()
          ? absl::StrCat("unknown task type ", type->Describe(),
                         NearestNameHint(type->text, TaskTypeNames()))
          : UnexpandedSentence(reference));
  return absl::nullopt;
}

absl::optional<int> TfConfigReader::ReadTaskIndex(const JsonValue& task) {
  const JsonValue* index = task.Find("index");
  if (index == nullptr) {
    Add(task, "task.index",
        "is missing; give the position of this process in its list, from 0");
    return absl::nullopt;
  }
  int number = 0;
  const bool is_number = index->kind == Kind::kString
                             ? absl::SimpleAtoi(index->text, &number)
                             : index->kind == Kind::kNumber &&
                                   index->is_whole &&
                                   absl::SimpleAtoi(index->Describe(), &number);
  if (is_number && number >= 0) return number;
  const absl::string_view reference = UnexpandedReference(index->text);
  Add(*index, "task.index",
      reference.empty() ? absl::StrCat("wants a whole number from 0, found ",
                                       index->Describe())
                        : UnexpandedSentence(reference));
  return absl::nullopt;
}

void TfConfigReader::CheckTask(const JsonValue& task) {
  // An evaluator may be left out of the cluster.
  if (spec_.self.type == TaskType::kEvaluator) return;
  const std::string name(TaskTypeName(spec_.self.type));
  const size_t count = lists_[spec_.self.type].size();
  if (count == 0) {
    Add(task, "task.type",
        absl::StrCat("is '", name, "', but the cluster has no '", name,
                     "' tasks, only: ", absl::StrJoin(jobs_, ", ")));
  } else if (static_cast<size_t>(spec_.self.index) >= count) {
    Add(task, "task.index",
        absl::StrCat("is ", spec_.self.index, ", but 'cluster.", name, "' has ",
                     count, count == 1 ? " task" : " tasks",
                     ", numbered from 0"));
  }
}

}  // namespace

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
  }
  return "";
}

std::string TaskName(const TaskId& task) {
  return absl::StrCat(TaskTypeName(task.type), "-", task.index);
}

int ClusterSpec::worker_index() const {
  if (standalone || self.type == TaskType::kChief) return 0;
  if (self.type != TaskType::kWorker) return -1;
  return self.index + (has_chief_list && !chief_is_worker_0 ? 1 : 0);
}

std::string ClusterSpec::self_address() const {
  if (standalone || self.type == TaskType::kEvaluator) return "";
  return is_ps() ? ps[self.index] : workers[worker_index()];
}

TaskId ClusterSpec::WorkerTask(int index) const {
  if (!has_chief_list) return {TaskType::kWorker, index};
  if (index == 0) return {TaskType::kChief, 0};
  return {TaskType::kWorker, chief_is_worker_0 ? index : index - 1};
}

absl::StatusOr<ClusterSpec> ParseTfConfig(
    absl::optional<absl::string_view> value) {
  if (!value.has_value()) return ClusterSpec();
  return TfConfigReader().Read(*value);
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
  const auto& workers = cluster.workers;
  const bool is_chief_apart =
      cluster.has_chief_list && !cluster.chief_is_worker_0;
  std::vector<std::string> lists;
  if (cluster.has_chief_list) {
    lists.push_back(list("chief", workers.begin(), workers.begin() + 1));
  }
  lists.push_back(list("worker", workers.begin() + (is_chief_apart ? 1 : 0),
                       workers.end()));
  lists.push_back(list("ps", cluster.ps.begin(), cluster.ps.end()));
  return absl::StrCat("{\"cluster\":{", absl::StrJoin(lists, ","),
                      "},\"task\":{\"type\":\"", TaskTypeName(task.type),
                      "\",\"index\":", task.index, "}}");
}

absl::optional<std::string> WrongAddress(absl::string_view address) {
  const std::string quoted = absl::StrCat("\"", Excerpt(address), "\"");
  if (address.empty()) return "is empty; wants host:port";
  const absl::string_view reference = UnexpandedReference(address);
  if (!reference.empty()) return UnexpandedSentence(reference);
  if (absl::StrContains(address, "://")) {
    return absl::StrCat(quoted, " has a scheme; write host:port alone");
  }
  const size_t colon = address.rfind(':');
  const bool ends_in_brackets = address.back() == ']';
  if (colon == absl::string_view::npos || ends_in_brackets) {
    return absl::StrCat(quoted, " has no port; write host:port");
  }
  absl::string_view host = address.substr(0, colon);
  const absl::string_view port = address.substr(colon + 1);
  const bool is_digits =
      !port.empty() && absl::c_all_of(port, absl::ascii_isdigit);
  int number = 0;
  if (!is_digits) {
    return absl::StrCat(quoted, " has \"", Excerpt(port),
                        "\" for a port; wants a number");
  }
  if (!absl::SimpleAtoi(port, &number) || number < 1 || number > 65535) {
    return absl::StrCat(quoted, " has port ", Excerpt(port),
                        "; ports are from 1 to 65535");
  }
  const bool has_brackets = absl::StartsWith(host, "[") &&
                            absl::EndsWith(host, "]") && host.size() > 2;
  if (has_brackets) host = host.substr(1, host.size() - 2);
  const bool is_ipv6 = absl::StrContains(host, ":");
  const auto is_allowed = [is_ipv6](char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_' ||
           (is_ipv6 && (c == ':' || c == '%'));
  };
  if (host.empty() || host.size() > 253 || (has_brackets && !is_ipv6) ||
      !absl::c_all_of(host, is_allowed)) {
    return absl::StrCat(quoted, " has \"", Excerpt(host),
                        "\" for a host; wants a name or an IP address");
  }
  return absl::nullopt;
}

}  // namespace paramd
