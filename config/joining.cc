#include "config/joining.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "config/json_value.h"
#include "config/mistakes.h"
#include "config/task_address.h"

namespace paramd {
namespace {

void CheckAddressOf(const GivenFlag& flag, Mistakes* mistakes) {
  const auto wrong = WrongAddress(flag.value, flag.name);
  if (wrong.has_value()) mistakes->Add(Place{flag.name}, "", *wrong);
}

// "TF_CONFIG says that it is ps-0"; empty: nothing says which task it is.
std::string WhoSaysOtherwise(const GatheredCluster& gathered) {
  const auto& type = gathered.type;
  const auto& index = gathered.index;
  if (!type.has_value() && !index.has_value()) return "";
  const std::string name =
      type.has_value() ? Excerpt(type->value) : std::string("task");
  return absl::StrCat(
      type.has_value() ? type->place.source : index->place.source,
      " says that it is ", name,
      index.has_value() ? absl::StrCat("-", index->value) : "");
}

}  // namespace

absl::StatusOr<absl::optional<ClusterSpec>> ReadJoining(
    const ClusterSources& sources) {
  const auto join = FindFlag(sources.join, "join", sources.environment);
  const auto listen = FindFlag(sources.listen, "listen", sources.environment);
  Mistakes mistakes;
  if (!join.has_value()) {
    if (!listen.has_value()) return absl::optional<ClusterSpec>();
    mistakes.Add(Place{listen->name}, "",
                 "is where a worker that joins listens; give --join too, or "
                 "leave it out");
    return mistakes.ToStatus();
  }
  CheckAddressOf(*join, &mistakes);
  if (listen.has_value()) CheckAddressOf(*listen, &mistakes);
  const GatheredCluster gathered = GatherCluster(sources, &mistakes);
  const std::string otherwise = WhoSaysOtherwise(gathered);
  if (!otherwise.empty()) {
    mistakes.Add(Place{join->name}, "",
                 absl::StrCat("is for a process that the cluster does not "
                              "name, but ",
                              otherwise, "; leave one of them out"));
  }
  if (!mistakes.empty()) return mistakes.ToStatus();
  ClusterSpec spec;
  spec.standalone = false;
  spec.join = join->value;
  // Of which it is not told yet.
  spec.ps = {""};
  spec.workers = {join->value, listen.has_value() ? listen->value : ""};
  spec.knows_all_ps = false;
  spec.knows_all_workers = false;
  spec.self = {TaskType::kWorker, 1};
  spec.cluster_from = join->name;
  spec.type_from = join->name;
  spec.index_from = join->name;
  if (gathered.cluster.has_tasks()) {
    spec.notes.push_back(absl::StrCat("the cluster in ",
                                      gathered.cluster.source,
                                      " is not looked at: the chief tells it"));
  }
  return absl::optional<ClusterSpec>(std::move(spec));
}

}  // namespace paramd
