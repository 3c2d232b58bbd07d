#include "worker/metric_messages.h"

namespace paramd {

void SetMetrics(const Metrics& metrics, v1::ComputeGradientResult* result) {
  result->set_loss(metrics.loss_sum);
  result->set_examples(metrics.examples);
  result->clear_metrics();
  for (const Metrics::Sum& sum : metrics.sums) {
    if (sum.kind == Metrics::Kind::kAuc ||
        sum.kind == Metrics::Kind::kGroupAuc) {
      continue;
    }
    const bool is_accuracy = sum.kind == Metrics::Kind::kAccuracy;
    v1::MetricSum* const message = result->add_metrics();
    message->set_name(sum.name());
    message->set_sum(is_accuracy ? static_cast<double>(metrics.correct)
                                 : sum.sum);
    message->set_count(is_accuracy ? static_cast<double>(metrics.labels)
                                   : sum.count);
    message->set_exp(sum.kind == Metrics::Kind::kPerplexity);
  }
}

void SetMetrics(const Metrics& metrics, v1::Evaluation* evaluation) {
  evaluation->set_loss(metrics.mean_loss());
  evaluation->set_examples(metrics.examples);
  evaluation->set_correct(metrics.correct);
  evaluation->set_labels(metrics.labels);
  evaluation->clear_metrics();
  for (const NamedValue& value : metrics.Values()) {
    if (value.name == "loss") continue;
    (*evaluation->mutable_metrics())[value.name] = value.value;
  }
}

}  // namespace paramd
