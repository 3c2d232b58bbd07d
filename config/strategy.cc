#include "config/strategy.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

using Job = v1::JobConfig;

bool HasSeveralReplicas(Job::Strategy strategy) {
  return strategy == Job::MIRRORED || strategy == Job::CENTRAL_STORAGE ||
         strategy == Job::MULTI_WORKER_MIRRORED;
}

}  // namespace

std::string StrategyName(Job::Strategy strategy) {
  if (strategy == Job::STRATEGY_UNSPECIFIED) strategy = Job::PARAMETER_SERVER;
  return absl::AsciiStrToLower(Job::Strategy_Name(strategy));
}

bool UsesServers(const Job& job) {
  return job.strategy() == Job::STRATEGY_UNSPECIFIED ||
         job.strategy() == Job::PARAMETER_SERVER;
}

uint32_t ReplicasOf(const Job& job) {
  return std::max<uint32_t>(job.replicas(), 1);
}

void CheckStrategySettings(
    const Job& job,
    const std::function<void(const std::string& path,
                             absl::string_view sentence)>& add) {
  const std::string name = StrategyName(job.strategy());
  if (ReplicasOf(job) > 1 && !HasSeveralReplicas(job.strategy())) {
    add("replicas",
        absl::StrCat("is ", job.replicas(), ", but strategy \"", name,
                     "\" has one in each process; \"mirrored\" or "
                     "\"central_storage\" has several"));
  }
  if (ReplicasOf(job) > 1 && job.model().custom()) {
    add("replicas",
        absl::StrCat("is ", job.replicas(), ", but a model that the program "
                     "computes itself has one in each process; give 1"));
  }
  if (!job.backup_and_restore().directory().empty()) {
    add("backup_and_restore.directory",
        "is not there yet; a run goes on from its checkpoints when it is "
        "started with the same run_dir: give checkpoint.every_steps");
  }
  if (UsesServers(job)) return;
  if (job.has_staleness() && job.staleness() != "sync") {
    add("staleness",
        absl::StrCat("is \"", job.staleness(), "\", but with strategy \"", name,
                     "\" each step is the sum of all gradients; leave it out, "
                     "or choose strategy \"parameter_server\""));
  }
  if (job.push_every() > 1) {
    add("push_every",
        absl::StrCat("makes no sense with strategy \"", name,
                     "\", which pushes nothing; use accumulate, or choose "
                     "strategy \"parameter_server\""));
  }
  if (job.backup_workers() > 0) {
    add("backup_workers",
        absl::StrCat("makes no sense with strategy \"", name,
                     "\", where every gradient counts; strategy "
                     "\"parameter_server\" leaves out the slowest"));
  }
}

absl::Status CheckStrategyFits(const Job& job, const ClusterSpec& cluster) {
  if (UsesServers(job) || cluster.standalone) return absl::OkStatus();
  const std::string name = StrategyName(job.strategy());
  if (!cluster.ps.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "strategy: \"", name, "\" has no servers, but the cluster has ",
        cluster.ps.size(), " ps tasks; choose \"parameter_server\", which ",
        "fits such a cluster"));
  }
  if (job.strategy() == Job::MULTI_WORKER_MIRRORED) {
    return absl::InvalidArgumentError(absl::StrCat(
        "strategy: \"", name, "\" of several processes is not there yet; with ",
        "the ", cluster.workers.size(), " workers of this cluster choose ",
        "\"parameter_server\" with staleness \"sync\" and add a ps"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "strategy: \"", name, "\" runs in one process, but the cluster has ",
      cluster.workers.size(), " workers; choose \"parameter_server\" and add "
      "a ps"));
}

}  // namespace paramd
