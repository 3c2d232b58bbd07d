#include "worker/best_metric.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace paramd {
namespace {

// Of "click/auc" both words; of "auc" no output.
std::pair<absl::string_view, absl::string_view> OutputAndMetric(
    absl::string_view name) {
  const size_t slash = name.rfind('/');
  if (slash == name.npos) return {"", name};
  return {name.substr(0, slash), name.substr(slash + 1)};
}

}  // namespace

absl::StatusOr<std::string> BestMetric(
    const v1::CheckpointConfig& config,
    const std::vector<std::string>& metrics) {
  const v1::CheckpointConfig::BestMetric wanted = config.best_metric();
  const std::string& output = config.best_output();
  const bool is_auto = wanted == v1::CheckpointConfig::AUTO ||
                       wanted == v1::CheckpointConfig::BEST_METRIC_UNSPECIFIED;
  if (is_auto && output.empty()) return std::string();
  const std::string name =
      is_auto ? std::string("accuracy")
              : absl::AsciiStrToLower(
                    v1::CheckpointConfig::BestMetric_Name(wanted));
  if (name == "loss" && output.empty()) return name;
  for (const std::string& metric : metrics) {
    const auto [of, plain] = OutputAndMetric(metric);
    if (!output.empty() && of != output) continue;
    // Named by their k.
    const bool is_found = wanted == v1::CheckpointConfig::TOP_K
                              ? absl::StartsWith(plain, "top_")
                          : wanted == v1::CheckpointConfig::RECALL_AT_K
                              ? absl::StartsWith(plain, "recall_at_")
                              : plain == name;
    if (is_found) return metric;
  }
  if (is_auto) return absl::StrCat(output, "/loss");
  return absl::InvalidArgumentError(absl::StrCat(
      "checkpoint.best_metric is ", name,
      output.empty() ? "" : absl::StrCat(" of the output '", output, "'"),
      "; the model counts ", absl::StrJoin(metrics, ", "),
      metrics.empty() ? "" : " and ", "the loss: choose one of these, or add ",
      name, output.empty() ? " to model.metrics" : " to the output's metrics"));
}

}  // namespace paramd
