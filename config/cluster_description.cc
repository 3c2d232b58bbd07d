#include "config/cluster_description.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "config/json_value.h"

namespace paramd {

std::string ListedJob::PathOf(int index) const {
  return absl::StrCat(path, "[", index, "]");
}

const ListedJob* ClusterDescription::Find(absl::string_view name) const {
  for (const ListedJob& job : jobs) {
    if (job.name == name && !job.tasks.empty()) return &job;
  }
  return nullptr;
}

bool ClusterDescription::has_tasks() const {
  return absl::c_any_of(
      jobs, [](const ListedJob& job) { return !job.tasks.empty(); });
}

std::string ClusterDescription::JobNames() const {
  std::vector<std::string> names;
  for (const ListedJob& job : jobs) {
    if (!job.tasks.empty()) names.push_back(Excerpt(job.written));
  }
  return absl::StrJoin(names, ", ");
}

}  // namespace paramd
