#include "config/strategy.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

using Job = v1::JobConfig;

// Of a cluster of workers alone.
absl::Status CheckWorkersFit(const Job& job, const ClusterSpec& cluster) {
  if (!cluster.knows_all_workers) {
    return absl::InvalidArgumentError(
        "strategy: \"multi_worker_mirrored\" needs the addresses of all "
        "workers, but this process is not told them (enableDynamicWorker); "
        "leave that out, or add a ps and choose \"parameter_server\"");
  }
  if (job.all_reduce().fewest_workers() > cluster.workers.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "all_reduce.fewest_workers: is ", job.all_reduce().fewest_workers(),
        ", but the cluster has ", cluster.workers.size(), " workers"));
  }
  return absl::OkStatus();
}

bool HasSeveralReplicas(Job::Strategy strategy) {
  return strategy != Job::ONE_DEVICE && strategy != Job::MULTI_WORKER_MIRRORED;
}

// Of a worker the first stages are in processes of their own, if the cluster
// has such tasks; its last one never is.
absl::Status CheckStagesFit(const Job& job, const ClusterSpec& cluster) {
  const size_t stages = cluster.stages.size();
  const size_t workers = cluster.workers.size();
  const v1::PipelineConfig& pipeline = job.pipeline();
  const uint32_t devices = std::max(1u, pipeline.stages()) /
                           std::max(1u, pipeline.stages_per_device());
  const bool takes_part = !cluster.standalone &&
                          cluster.self.type != TaskType::kEvaluator &&
                          cluster.self.type != TaskType::kOther;
  if (stages == 0 || !takes_part) return absl::OkStatus();
  const std::string has =
      absl::StrCat("stage: the cluster has ", stages, " stage tasks");
  const auto refuse = [&](const auto&... sentence) {
    return absl::InvalidArgumentError(absl::StrCat(has, sentence...));
  };
  if (workers == 0 || stages % workers != 0) {
    return refuse(" for ", workers,
                  " workers; each worker takes as many, so list a multiple of "
                  "the workers");
  }
  if (devices == 1) {
    return refuse(
        ", but the job's pipeline is on one device, which is the worker; give "
        "pipeline.stages, or leave the stage tasks out");
  }
  if (stages / workers >= devices) {
    return refuse(", ", stages / workers,
                  " for each worker, and the pipeline is on ", devices,
                  " devices, the last of which is the worker itself; list at "
                  "most ",
                  devices - 1,
                  " for each worker, or give more pipeline.stages");
  }
  if (ConcurrentSteps(pipeline) > 1) {
    return refuse(
        ", but a pipeline without a flush has all of its stages in the "
        "worker; choose pipeline.schedule 1f1b, gpipe, interleaved, "
        "zero_bubble or naive, or leave the stage tasks out");
  }
  if (ReplicasOf(job) > 1) {
    return refuse(", but replicas is ", job.replicas(),
                  ", and they are of one model in the worker; give one replica "
                  "and more workers, or leave the stage tasks out");
  }
  if (job.model().custom()) {
    return refuse(
        ", but the model is custom, and a program computes all of it; leave "
        "the stage tasks out");
  }
  return absl::OkStatus();
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

bool IsPipelined(const v1::JobConfig& job) {
  return job.pipeline().stages() > 1 || job.pipeline().micro_batches() > 1;
}

uint32_t ConcurrentSteps(const v1::PipelineConfig& pipeline) {
  const bool is_cut = pipeline.stages() > 1 || pipeline.micro_batches() > 1;
  if (!is_cut) return 1;
  switch (pipeline.schedule()) {
    case v1::PipelineConfig::SCHEDULE_2BW:
      return 2;
    case v1::PipelineConfig::SCHEDULE_PIPEDREAM:
      return std::max(pipeline.stages(), 1u);
    default:
      return 1;
  }
}

void CheckStrategySettings(
    const Job& job,
    const std::function<void(const std::string& path,
                             absl::string_view sentence)>& add) {
  const std::string name = StrategyName(job.strategy());
  if (ReplicasOf(job) > 1 && !HasSeveralReplicas(job.strategy())) {
    add("replicas",
        absl::StrCat("is ", job.replicas(), ", but strategy \"", name,
                     "\" has one in each process; \"parameter_server\", "
                     "\"mirrored\" or \"central_storage\" has several"));
  }
  if (ReplicasOf(job) > 1 && job.push_every() > 1 && UsesServers(job)) {
    add("push_every",
        absl::StrCat("is ", job.push_every(), ", but with ", job.replicas(),
                     " replicas each push is the sum of one gradient of each; "
                     "leave it out, or give one replica"));
  }
  if (UsesServers(job)) return;
  if (job.replication() > 1) {
    add("replication",
        absl::StrCat("is ", job.replication(), ", but with strategy \"", name,
                     "\" there are no servers that could have a second copy; "
                     "leave it out"));
  }
  if (job.strategy() == Job::MULTI_WORKER_MIRRORED &&
      job.checkpoint().incremental() > 0) {
    add("checkpoint.incremental",
        absl::StrCat("is ", job.checkpoint().incremental(),
                     ", but with strategy \"", name,
                     "\" a worker that comes back takes "
                     "one checkpoint whole; leave it out"));
  }
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
  if (cluster.joins()) {
    if (UsesServers(job)) return absl::OkStatus();  // The chief knows the rest.
    return absl::InvalidArgumentError(absl::StrCat(
        "--join: strategy \"", StrategyName(job.strategy()),
        "\" has no servers that one more worker could push to; leave --join "
        "out, or choose strategy \"parameter_server\""));
  }
  if (job.replication() > 1 && (cluster.standalone || cluster.ps.size() < 2)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "replication: is ", job.replication(),
        ", which needs at least two ps tasks, so that each has somebody to "
        "tell; there ",
        cluster.standalone       ? "is one process, without any"
        : cluster.ps.size() == 1 ? "is one"
                                 : "is none",
        "; start more, or leave it out"));
  }
  // An evaluator reads checkpoints, whoever writes them.
  if (UsesServers(job)) return CheckStagesFit(job, cluster);
  if (cluster.standalone || cluster.self.type == TaskType::kEvaluator) {
    return absl::OkStatus();
  }
  const std::string name = StrategyName(job.strategy());
  if (!cluster.ps.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "strategy: \"", name, "\" has no servers, but the cluster has ",
        cluster.ps.size(), " ps tasks; choose \"parameter_server\", which ",
        "fits such a cluster"));
  }
  if (!cluster.stages.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("stage: the cluster has ", cluster.stages.size(),
                     " stage tasks, but with strategy \"", name,
                     "\" a worker computes all of its stages itself; choose "
                     "\"parameter_server\", or leave the stage tasks out"));
  }
  if (job.strategy() == Job::MULTI_WORKER_MIRRORED) {
    return CheckWorkersFit(job, cluster);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "strategy: \"", name, "\" runs in one process, but the cluster has ",
      cluster.workers.size(),
      " workers; choose \"multi_worker_mirrored\", "
      "where each has a copy, for the same sums"));
}

}  // namespace paramd
