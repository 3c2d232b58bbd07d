#include "config/configuration.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "config/batch_rule.h"
#include "config/strategy.h"

namespace paramd {

absl::StatusOr<Configuration> LoadConfiguration(JobSources job,
                                                ClusterSources cluster) {
  // Of a job that can't be loaded nobody knows whether it needs servers.
  cluster.needs_servers = false;
  absl::StatusOr<ClusterSpec> spec = ReadCluster(cluster);
  job.check_input_files = spec.ok() && spec->worker_index() >= 0;
  absl::StatusOr<LoadedJob> loaded = LoadJob(job);
  if (loaded.ok()) {
    // The sentence about a cluster without servers names what trains.
    cluster.strategy = StrategyName(loaded->config.strategy());
    cluster.needs_servers = UsesServers(loaded->config);
    spec = ReadCluster(cluster);
  }
  if (!loaded.ok() && !spec.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(loaded.status().message(), "\n", spec.status().message()));
  }
  if (!loaded.ok()) return loaded.status();
  if (!spec.ok()) return spec.status();
  v1::JobConfig* const config = &loaded->config;
  const absl::Status fits = CheckStrategyFits(*config, *spec);
  if (!fits.ok()) return fits;
  // One that joins is not told how many there are.
  if (spec->joins()) return Configuration{*std::move(loaded), *std::move(spec)};
  const size_t workers =
      (spec->standalone ? 1 : spec->workers.size()) * ReplicasOf(*config);
  const absl::Status divided =
      DeriveBatch(static_cast<uint32_t>(std::max<size_t>(workers, 1)), config);
  if (!divided.ok()) return divided;
  return Configuration{*std::move(loaded), *std::move(spec)};
}

}  // namespace paramd
