#include "worker/best_metric.h"

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace paramd {

absl::StatusOr<std::string> BestMetric(
    const v1::CheckpointConfig& config,
    const std::vector<std::string>& metrics) {
  const v1::CheckpointConfig::BestMetric wanted = config.best_metric();
  if (wanted == v1::CheckpointConfig::AUTO ||
      wanted == v1::CheckpointConfig::BEST_METRIC_UNSPECIFIED) {
    return std::string();
  }
  const std::string name =
      absl::AsciiStrToLower(v1::CheckpointConfig::BestMetric_Name(wanted));
  if (name == "loss") return name;
  for (const std::string& metric : metrics) {
    const bool is_top_k = wanted == v1::CheckpointConfig::TOP_K &&
                          absl::StartsWith(metric, "top_");
    if (metric == name || is_top_k) return metric;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "checkpoint.best_metric is ", name, "; the model counts ",
      absl::StrJoin(metrics, ", "), metrics.empty() ? "" : " and ",
      "the loss: choose one of these, or add ", name, " to model.metrics"));
}

}  // namespace paramd
