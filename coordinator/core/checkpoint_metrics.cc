#include "coordinator/core/checkpoint_metrics.h"

namespace paramd {

v1::Retention RetentionOf(const v1::CheckpointConfig& config) {
  v1::Retention retention;
  retention.set_keep(config.keep());
  retention.set_every_steps(config.keep_every_steps());
  retention.set_every_hours(config.keep_every_hours());
  retention.set_best(config.keep_best());
  const bool by_loss = config.best_metric() == v1::LOSS;
  retention.set_metric(by_loss ? "loss" : "accuracy");
  retention.set_lower_is_better(by_loss);
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
  metrics["accuracy"] = static_cast<double>(evaluation.correct()) /
                        static_cast<double>(evaluation.examples());
  metrics["loss"] = evaluation.loss();
  newest_.set_metrics_step(step);
}

void CheckpointMetrics::Fill(v1::Manifest* manifest) const {
  manifest->MergeFrom(opened_);
}

}  // namespace paramd
