#include "coordinator/core/checkpoint_metrics.h"

#include "proto/metric_values.h"

namespace paramd {

v1::Retention RetentionOf(const v1::CheckpointConfig& config,
                          const std::string& best_metric,
                          const v1::Manifest& newest) {
  v1::Retention retention;
  retention.set_keep(config.keep());
  retention.set_every_steps(config.keep_every_steps());
  retention.set_every_hours(config.keep_every_hours());
  retention.set_best(config.keep_best());
  const bool has_accuracy = newest.metrics().count("accuracy") != 0;
  retention.set_metric(!best_metric.empty() ? best_metric
                       : has_accuracy       ? "accuracy"
                                            : "loss");
  retention.set_lower_is_better(LowerIsBetter(retention.metric()));
  return retention;
}

void CheckpointMetrics::Restored(const v1::Manifest& manifest) {
  committed_.Clear();
  *committed_.mutable_metrics() = manifest.metrics();
  committed_.set_metrics_step(manifest.metrics_step());
  newest_ = committed_;
}

void CheckpointMetrics::Evaluated(const v1::Evaluation& evaluation,
                                  uint64_t step) {
  auto& metrics = *newest_.mutable_metrics();
  metrics.clear();
  for (const auto& [name, value] : MetricValues(evaluation)) {
    metrics[name] = value;
  }
  metrics["loss"] = evaluation.loss();
  newest_.set_metrics_step(step);
}

void CheckpointMetrics::Fill(v1::Manifest* manifest) const {
  manifest->MergeFrom(opened_);
}

}  // namespace paramd
