#ifndef PARAMD_CONFIG_STRATEGY_H_
#define PARAMD_CONFIG_STRATEGY_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "config/cluster_spec.h"
#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// "central_storage", as the job file has it.
std::string StrategyName(v1::JobConfig::Strategy strategy);

// Variables are on parameter servers, of other processes or of this one.
bool UsesServers(const v1::JobConfig& job);

// Replicas of the model in one process; at least 1.
uint32_t ReplicasOf(const v1::JobConfig& job);

// Whether the model computes micro-batches of a batch, in stages or in one.
bool IsPipelined(const v1::JobConfig& job);
// Steps that each worker computes at the same time: one, or in a pipeline
// without a flush two (2bw), or one for each stage (pipedream).
uint32_t ConcurrentSteps(const v1::PipelineConfig& pipeline);

// Tells `add` what settings say that the strategy can't do, each by its path.
// REQUIRES: defaults are filled in.
void CheckStrategySettings(
    const v1::JobConfig& job,
    const std::function<void(const std::string& path,
                             absl::string_view sentence)>& add);

// INVALID_ARGUMENT, with a sentence that names a strategy that fits, if the
// cluster can't run the job's strategy.
absl::Status CheckStrategyFits(const v1::JobConfig& job,
                               const ClusterSpec& cluster);

}  // namespace paramd

#endif  // PARAMD_CONFIG_STRATEGY_H_
