#include "config/print_config.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "config/json_value.h"
#include "config/setting_reader.h"
#include "config/setting_value.h"

namespace paramd {
namespace {

using Json = nlohmann::ordered_json;

// Longer values (texts of people) don't push the sources off the screen.
constexpr size_t kWidestValue = 44;

std::string RoleOf(const ClusterSpec& cluster) {
  if (cluster.standalone) return "standalone";
  if (cluster.worker_index() >= 0) return "worker";
  return std::string(TaskTypeName(cluster.self.type));
}

// How TF_CONFIG calls the type of this task.
std::string TypeOf(const ClusterSpec& cluster) {
  if (cluster.self.type == TaskType::kOther) return cluster.other_type;
  const bool is_chief = cluster.self.type == TaskType::kChief;
  return is_chief ? cluster.chief_job
                  : std::string(TaskTypeName(cluster.self.type));
}

Json OrNull(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json Addresses(const std::vector<std::string>& addresses) {
  Json list = Json::array();
  for (const std::string& address : addresses) list.push_back(OrNull(address));
  return list;
}

Json JsonOfSettings(const LoadedJob& job) {
  Json settings = Json::object();
  for (const SettingValue& value : ValuesOf(job.config)) {
    const Place origin = OriginOf(job.origins, value.path);
    Json& entry = settings[value.path];
    entry["value"] = Json::parse(value.json, nullptr, /*exceptions=*/false);
    if (entry["value"].is_discarded()) entry["value"] = value.json;
    entry["source"] = OriginKindName(KindOf(origin));
    entry["at"] = origin.ToString();
  }
  return settings;
}

Json JsonOfCluster(const ClusterSpec& cluster) {
  const bool is_alone = cluster.standalone;
  Json json;
  json["source"] = OrNull(cluster.cluster_from);
  json["standalone"] = is_alone;
  json["role"] = RoleOf(cluster);
  Json& task = json["task"];
  if (!is_alone) {
    task["type"] = TypeOf(cluster);
    task["type_source"] = OrNull(cluster.type_from);
    task["index"] = cluster.self.index;
    task["index_source"] = OrNull(cluster.index_from);
  }
  const int worker = cluster.worker_index();
  json["worker_index"] = worker < 0 ? Json() : Json(worker);
  const bool is_ps = !is_alone && cluster.is_ps();
  json["ps_index"] = is_ps ? Json(cluster.self.index) : Json();
  json["is_chief"] = cluster.is_chief();
  json["address"] = OrNull(cluster.self_address());
  json["chief_address"] = OrNull(cluster.chief_address());
  json["ps"] = Addresses(cluster.ps);
  json["workers"] = Addresses(cluster.workers);
  json["evaluators"] = Addresses(cluster.evaluators);
  json["stages"] = Addresses(cluster.stages);
  json["other_jobs"] = Addresses(cluster.other_jobs);
  json["expected_ps"] = is_alone               ? Json(0)
                        : cluster.knows_all_ps ? Json(cluster.ps.size())
                                               : Json();
  json["expected_workers"] = is_alone ? Json(1)
                             : cluster.knows_all_workers
                                 ? Json(cluster.workers.size())
                                 : Json();
  json["notes"] = cluster.notes;
  return json;
}

std::string PrintJson(const LoadedJob& job, const ClusterSpec& cluster) {
  Json json;
  json["job"]["name"] = job.config.name();
  json["job"]["digest"] = job.digest;
  json["settings"] = JsonOfSettings(job);
  json["cluster"] = JsonOfCluster(cluster);
  json["warnings"] = Json::array();
  if (!job.warning.empty()) json["warnings"].push_back(job.warning);
  // Variables and file names may hold anything: never throw.
  return json.dump(2, ' ', /*ensure_ascii=*/true,
                   Json::error_handler_t::replace) +
         "\n";
}

// The rows in columns, the last one ragged.
std::string Columns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], std::min(row[i].size(), kWidestValue));
    }
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const bool is_last = i + 1 == row.size();
      absl::StrAppendFormat(&text, "%-*s%s", is_last ? 0 : int(widths[i]),
                            row[i], is_last ? "\n" : "  ");
    }
  }
  return text;
}

std::string ListOf(const std::vector<std::string>& addresses, bool is_all) {
  const std::string count = is_all ? absl::StrCat(addresses.size(), " expected")
                                   : "how many: unknown";
  const std::string list =
      absl::StrJoin(addresses, ", ", [](std::string* out, const auto& address) {
        absl::StrAppend(out, address.empty() ? "?" : address);
      });
  return absl::StrCat(count, list.empty() ? "" : ": ", list);
}

std::string From(const std::string& source) {
  return source.empty() ? "" : absl::StrCat(" (from ", source, ")");
}

std::vector<std::vector<std::string>> RowsOfCluster(
    const ClusterSpec& cluster) {
  std::vector<std::vector<std::string>> rows;
  if (cluster.standalone) {
    rows.push_back({"role", "standalone: chief, worker and server at once"});
  } else {
    const int worker = cluster.worker_index();
    std::string role = RoleOf(cluster);
    if (worker >= 0) absl::StrAppend(&role, " ", worker);
    if (cluster.is_ps()) absl::StrAppend(&role, " ", cluster.self.index);
    if (cluster.is_chief()) absl::StrAppend(&role, ", the chief");
    rows.push_back({"role", role});
    rows.push_back({"type", absl::StrCat(Excerpt(TypeOf(cluster)),
                                         From(cluster.type_from))});
    rows.push_back(
        {"index", absl::StrCat(cluster.self.index, From(cluster.index_from))});
    const auto known = [](const std::string& address) {
      return address.empty() ? "unknown" : address;
    };
    rows.push_back({"address", known(cluster.self_address())});
    rows.push_back({"chief", known(cluster.chief_address())});
    rows.push_back({"ps", ListOf(cluster.ps, cluster.knows_all_ps)});
    rows.push_back(
        {"workers", ListOf(cluster.workers, cluster.knows_all_workers)});
    if (!cluster.evaluators.empty()) {
      rows.push_back({"evaluators", absl::StrJoin(cluster.evaluators, ", ")});
    }
    if (!cluster.stages.empty()) {
      rows.push_back({"stages", absl::StrJoin(cluster.stages, ", ")});
    }
    for (const std::string& job : cluster.other_jobs) {
      rows.push_back({"other job", Excerpt(job)});
    }
    rows.push_back({"told by", cluster.cluster_from});
  }
  for (const std::string& note : cluster.notes) rows.push_back({"note", note});
  return rows;
}

std::string PrintText(const LoadedJob& job, const ClusterSpec& cluster) {
  std::vector<std::vector<std::string>> settings;
  for (const SettingValue& value : ValuesOf(job.config)) {
    const Place origin = OriginOf(job.origins, value.path);
    const OriginKind kind = KindOf(origin);
    settings.push_back(
        {value.path, value.json,
         kind == OriginKind::kFile ? origin.ToString() : origin.source});
  }
  std::string text =
      absl::StrCat("job ", job.config.name(), ", digest ", job.digest,
                   "\n\nsettings, each with its source\n", Columns(settings),
                   "\ncluster\n", Columns(RowsOfCluster(cluster)));
  if (!job.warning.empty()) absl::StrAppend(&text, "\n", job.warning, "\n");
  return text;
}

}  // namespace

absl::StatusOr<std::string> PrintConfig(const LoadedJob& job,
                                        const ClusterSpec& cluster,
                                        absl::string_view format) {
  if (format == "text") return PrintText(job, cluster);
  if (format == "json") return PrintJson(job, cluster);
  return absl::InvalidArgumentError(
      absl::StrCat("--format is text or json, not '", Excerpt(format), "'"));
}

}  // namespace paramd
