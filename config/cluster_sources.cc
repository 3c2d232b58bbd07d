#include "config/cluster_sources.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "config/json_value.h"
#include "config/task_address.h"
#include "config/tf_config.h"
#include "config/variable_reference.h"

namespace paramd {
namespace {

absl::optional<Sourced<int>> IndexIn(absl::string_view value,
                                     const std::string& name,
                                     Mistakes* mistakes) {
  int number = 0;
  if (absl::SimpleAtoi(value, &number) && number >= 0 && number < kMostTasks) {
    return Sourced<int>{number, Place{name}, ""};
  }
  const absl::string_view reference = UnexpandedReference(value);
  mistakes->Add(
      Place{name}, "",
      reference.empty()
          ? absl::StrCat("wants a whole number from 0 to ", kMostTasks - 1,
                         ", found \"", Excerpt(value), "\"")
          : UnexpandedSentence(reference, name));
  return absl::nullopt;
}

bool AreSameType(absl::string_view a, absl::string_view b) {
  if (a == "master") a = "chief";
  if (b == "master") b = "chief";
  return a == b;
}

// TF_CONFIG, or else CLUSTER_SPEC; one that says nothing if neither is set.
ClusterDescription DescribeVariable(const Variables& environment,
                                    const WantedOfCluster& wanted,
                                    Mistakes* mistakes) {
  for (const char* name : {"TF_CONFIG", "CLUSTER_SPEC"}) {
    const absl::optional<std::string> text = FindVariable(environment, name);
    if (text.has_value()) {
      return DescribeTfConfig(name, *text, wanted, mistakes);
    }
  }
  return {};
}

// "--task_from_hostname", or the variable that stands for it, if it is on; else
// empty.
std::string HostNameFlag(const ClusterSources& sources, Mistakes* mistakes) {
  if (sources.task_from_hostname) return "--task_from_hostname";
  const std::string variable = "PARAMD_TASK_FROM_HOSTNAME";
  const absl::optional<std::string> set =
      FindVariable(sources.environment, variable);
  if (!set.has_value() || *set == "false") return "";
  if (*set == "true") return variable;
  mistakes->Add(
      Place{variable}, "",
      absl::StrCat("wants true or false, found \"", Excerpt(*set), "\""));
  return "";
}

std::string FirstLabel(absl::string_view host) {
  return std::string(host.substr(0, host.find_first_of(".:")));
}

struct NamedTask {
  const ListedJob* job = nullptr;
  int index = 0;
  std::string address;
};

// The tasks whose hosts begin with `label`; the chief before the worker that is
// the same process.
std::vector<NamedTask> TasksOfHost(const ClusterDescription& cluster,
                                   absl::string_view label) {
  std::vector<NamedTask> found;
  for (const bool chiefs : {true, false}) {
    for (const ListedJob& job : cluster.jobs) {
      if (AreSameType(job.name, "chief") != chiefs) continue;
      for (const auto& [index, address] : job.tasks) {
        const bool is_listed_again =
            !found.empty() && found.back().address == address;
        if (FirstLabel(address) != label || is_listed_again) continue;
        found.push_back({&job, index, address});
      }
    }
  }
  return found;
}

// Why no task is at this host.
std::string WhyNotThere(const ClusterDescription& cluster,
                        absl::string_view label) {
  const absl::optional<int> ordinal = OrdinalOf(label);
  const std::string* example = nullptr;
  for (const ListedJob& job : cluster.jobs) {
    for (const auto& [index, address] : job.tasks) {
      if (example == nullptr) example = &address;
      const absl::optional<int> present = OrdinalOf(address);
      if (!ordinal.has_value() || !present.has_value()) continue;
      const auto sibling = WithOrdinal(address, *present, *ordinal);
      if (!sibling.has_value() || FirstLabel(*sibling) != label) continue;
      return absl::StrCat("ends in ", *ordinal, ", but '", job.path, "' has ",
                          job.tasks.size(),
                          job.tasks.size() == 1 ? " task" : " tasks",
                          ", and none of them there");
    }
  }
  return absl::StrCat(
      ordinal.has_value() ? "is that of no task of the cluster"
                          : "ends in no index and is that of no task of the "
                            "cluster",
      "; its hosts are called as in \"", Excerpt(*example), "\"");
}

// REQUIRES: gathered->cluster.has_tasks().
void FindTaskByHostName(const std::string& host_name, const std::string& flag,
                        GatheredCluster* gathered, Mistakes* mistakes) {
  const Place place{
      absl::StrCat(flag, ": host name \"", Excerpt(host_name), "\"")};
  const std::string label = FirstLabel(host_name);
  const std::vector<NamedTask> found = TasksOfHost(gathered->cluster, label);
  if (found.size() == 1) {
    gathered->type = {found[0].job->name, place, ""};
    gathered->index = {found[0].index, place, ""};
    return;
  }
  mistakes->Add(
      place, "",
      found.empty()
          ? WhyNotThere(gathered->cluster, label)
          : absl::StrCat("is that of several tasks, at ", found[0].address,
                         " and ", found[1].address,
                         "; give --task_type and --task_index instead"));
}

}  // namespace

absl::optional<GivenFlag> FindFlag(const absl::optional<std::string>& value,
                                   absl::string_view name,
                                   const Variables& environment) {
  if (value.has_value()) return GivenFlag{*value, absl::StrCat("--", name)};
  const std::string variable =
      absl::StrCat("PARAMD_", absl::AsciiStrToUpper(name));
  const absl::optional<std::string> set = FindVariable(environment, variable);
  if (!set.has_value()) return absl::nullopt;
  return GivenFlag{*set, variable};
}

const std::vector<std::string>& ClusterVariables() {
  static const auto* const kVariables = new std::vector<std::string>(
      {"PARAMD_CLUSTER", "PARAMD_TASK_TYPE", "PARAMD_TASK_INDEX",
       "PARAMD_TASK_FROM_HOSTNAME", "PARAMD_JOIN", "PARAMD_LISTEN"});
  return *kVariables;
}

GatheredCluster GatherCluster(const ClusterSources& sources,
                              Mistakes* mistakes) {
  const Variables& environment = sources.environment;
  const auto cluster = FindFlag(sources.cluster, "cluster", environment);
  const auto type = FindFlag(sources.task_type, "task_type", environment);
  const auto index = FindFlag(sources.task_index, "task_index", environment);
  const std::string by_host = HostNameFlag(sources, mistakes);
  const bool asks_task = by_host.empty();
  const WantedOfCluster wanted = {!cluster.has_value(),
                                  asks_task && !type.has_value(),
                                  asks_task && !index.has_value()};
  ClusterDescription variable;
  if (wanted.cluster || wanted.task_type || wanted.task_index) {
    variable = DescribeVariable(environment, wanted, mistakes);
  }
  GatheredCluster gathered;
  gathered.variable = variable.source;
  gathered.has_task = variable.has_task;
  gathered.task_place = variable.task_place;
  gathered.type = variable.task_type;
  gathered.index = variable.task_index;
  if (index.has_value()) {
    gathered.index = IndexIn(index->value, index->name, mistakes);
    gathered.task_flag = index->name;
  } else if (type.has_value() && gathered.index.has_value() &&
             !variable.type_beside_index.empty() &&
             !AreSameType(type->value, variable.type_beside_index)) {
    // SageMaker's ps has another index than the worker whose TF_CONFIG it
    // reads.
    mistakes->Add(Place{"--task_index"}, "",
                  absl::StrCat("is missing; ", type->name, " says '",
                               Excerpt(type->value), "', but the index in ",
                               variable.source, " is that of a '",
                               Excerpt(variable.type_beside_index), "'"));
  }
  if (type.has_value()) {
    gathered.type = {type->value, Place{type->name}, ""};
    gathered.task_flag = type->name;
  }
  gathered.cluster =
      cluster.has_value()
          ? DescribeClusterFlag(cluster->name, cluster->value, mistakes)
          : std::move(variable);
  gathered.cluster_is_flag = cluster.has_value();
  if (by_host.empty()) return gathered;
  if (type.has_value() || index.has_value()) {
    mistakes->Add(Place{by_host}, "",
                  absl::StrCat("conflicts with ", gathered.task_flag,
                               "; both say which task this is: give one"));
    return gathered;
  }
  gathered.task_flag = by_host;
  if (gathered.cluster.has_tasks()) {
    FindTaskByHostName(sources.host_name, by_host, &gathered, mistakes);
  }
  return gathered;
}

absl::optional<Sourced<int>> FindIndexAround(const ClusterSources& sources,
                                             Mistakes* mistakes) {
  for (const char* name : {"JOB_COMPLETION_INDEX", "VC_TASK_INDEX"}) {
    const absl::optional<std::string> value =
        FindVariable(sources.environment, name);
    if (value.has_value()) return IndexIn(*value, name, mistakes);
  }
  const absl::optional<int> ordinal = OrdinalOf(sources.host_name);
  if (!ordinal.has_value()) return absl::nullopt;
  return Sourced<int>{
      *ordinal,
      Place{absl::StrCat("host name \"", Excerpt(sources.host_name), "\"")},
      ""};
}

}  // namespace paramd
