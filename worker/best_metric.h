#ifndef PARAMD_WORKER_BEST_METRIC_H_
#define PARAMD_WORKER_BEST_METRIC_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// The name of what makes a checkpoint better, as the settings best_metric and
// best_output say, where a model may count `metrics` besides the loss, of
// several outputs "click/auc" and so on; empty: auto. INVALID_ARGUMENT naming
// what there is, if the model has no such metric.
absl::StatusOr<std::string> BestMetric(const v1::CheckpointConfig& config,
                                       const std::vector<std::string>& metrics);

}  // namespace paramd

#endif  // PARAMD_WORKER_BEST_METRIC_H_
