#include "config/configuration.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace paramd {

absl::StatusOr<Configuration> LoadConfiguration(JobSources job,
                                                ClusterSources cluster) {
  absl::StatusOr<ClusterSpec> spec = ReadCluster(cluster);
  job.check_input_files = spec.ok() && spec->worker_index() >= 0;
  absl::StatusOr<LoadedJob> loaded = LoadJob(job);
  if (loaded.ok()) {
    // The sentence about a cluster without servers names what trains.
    cluster.strategy = loaded->config.staleness();
    spec = ReadCluster(cluster);
  }
  if (!loaded.ok() && !spec.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(loaded.status().message(), "\n", spec.status().message()));
  }
  if (!loaded.ok()) return loaded.status();
  if (!spec.ok()) return spec.status();
  return Configuration{*std::move(loaded), *std::move(spec)};
}

}  // namespace paramd
