#include "worker/metric_messages.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"

#include "base/shorten.h"
#include "base/status_macros.h"
#include "proto/metric_values.h"

namespace paramd {
namespace {

// The metric that has this name, without numbers; nothing if none has.
absl::optional<Metrics::Sum> MetricNamed(absl::string_view name) {
  using Kind = Metrics::Kind;
  for (const Kind kind :
       {Kind::kAccuracy, Kind::kPerplexity, Kind::kMeanSquaredError, Kind::kAuc,
        Kind::kGroupAuc, Kind::kNormalisedEntropy, Kind::kCalibration}) {
    const Metrics::Sum sum = {.kind = kind};
    if (sum.name() == name) return sum;
  }
  for (const auto& [kind, prefix] :
       {std::pair(Kind::kTopK, absl::string_view("top_")),
        std::pair(Kind::kGroupRecall, absl::string_view("recall_at_"))}) {
    Metrics::Sum sum = {.kind = kind};
    if (absl::ConsumePrefix(&name, prefix) && absl::SimpleAtoi(name, &sum.k)) {
      return sum;
    }
  }
  return absl::nullopt;
}

// `prefix`: of their names.
void AddSums(const Metrics& metrics, const std::string& prefix,
             MetricSums* sums) {
  for (const Metrics::Sum& sum : metrics.sums) {
    if (sum.is_of_outputs()) continue;
    const bool is_accuracy =
        sum.kind == Metrics::Kind::kAccuracy && !metrics.weighted;
    v1::MetricSum* const message = sums->Add();
    message->set_name(absl::StrCat(prefix, sum.name()));
    message->set_sum(is_accuracy ? static_cast<double>(metrics.correct)
                                 : sum.sum);
    message->set_count(is_accuracy ? static_cast<double>(metrics.labels)
                                   : sum.count);
    message->set_exp(sum.kind == Metrics::Kind::kPerplexity);
  }
}

// `calibrated`: the message has the metric.
absl::Status TakeBuckets(const v1::BatchMetrics& message, bool calibrated,
                         Metrics* metrics) {
  const int numbers = message.calibration_buckets_size();
  if (numbers == 0) return absl::OkStatus();
  if (!calibrated || numbers != 3 * Metrics::kBuckets) {
    return absl::InvalidArgumentError(absl::StrCat(
        numbers, " numbers of buckets are there; a calibration has ",
        3 * Metrics::kBuckets));
  }
  for (int i = 0; i < numbers; i += 3) {
    metrics->buckets.push_back(
        {.count = message.calibration_buckets(i),
         .predicted = message.calibration_buckets(i + 1),
         .positives = message.calibration_buckets(i + 2)});
  }
  return absl::OkStatus();
}

// The outputs and the slices of a message.
absl::Status TakeParts(const v1::BatchMetrics& message, Metrics* metrics) {
  metrics->output = message.output();
  for (const v1::BatchMetrics& one : message.outputs()) {
    if (!one.outputs().empty() || !one.slices().empty()) {
      return absl::InvalidArgumentError("an output has parts of its own");
    }
    ASSIGN_OR_RETURN(metrics->outputs.emplace_back(), MetricsOf(one));
  }
  metrics->feature = message.feature();
  metrics->value = message.value();
  for (const v1::BatchMetrics& one : message.slices()) {
    if (one.feature().empty() || !one.slices().empty()) {
      return absl::InvalidArgumentError(
          "a slice names no feature, or has slices of its own");
    }
    ASSIGN_OR_RETURN(metrics->slices.emplace_back(), MetricsOf(one));
  }
  return absl::OkStatus();
}

}  // namespace

void SetMetrics(const Metrics& metrics, v1::ComputeGradientResult* result) {
  result->set_loss(metrics.loss_sum);
  result->set_examples(metrics.examples);
  result->clear_metrics();
  AddSums(metrics, "", result->mutable_metrics());
  for (const Metrics& one : metrics.outputs) {
    const std::string prefix = absl::StrCat(one.output, "/");
    v1::MetricSum* const loss = result->add_metrics();
    loss->set_name(absl::StrCat(prefix, "loss"));
    loss->set_sum(one.loss_sum);
    loss->set_count(static_cast<double>(one.examples));
    AddSums(one, prefix, result->mutable_metrics());
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
  evaluation->clear_calibration_buckets();
  AddCalibrationBuckets(metrics, evaluation);
  evaluation->clear_slices();
  for (const Metrics& slice : metrics.slices) {
    v1::EvaluatedSlice* const message = evaluation->add_slices();
    message->set_feature(slice.feature);
    message->set_value(slice.value);
    message->set_examples(slice.examples);
    for (const NamedValue& value : slice.Values()) {
      if (value.name == "loss") {
        message->set_loss(value.value);
      } else {
        (*message->mutable_metrics())[value.name] = value.value;
      }
    }
  }
}

void AddCalibrationBuckets(const Metrics& metrics, v1::Evaluation* evaluation) {
  for (const Metrics& one : metrics.outputs) {
    AddCalibrationBuckets(one, evaluation);
  }
  if (metrics.buckets.empty()) return;
  v1::CalibrationBuckets* const all = evaluation->add_calibration_buckets();
  all->set_output(metrics.output);
  for (size_t i = 0; i < metrics.buckets.size(); ++i) {
    const Metrics::Bucket& bucket = metrics.buckets[i];
    if (bucket.count == 0) continue;
    v1::CalibrationBuckets::Bucket* const one = all->add_buckets();
    one->set_from(static_cast<double>(i) / Metrics::kBuckets);
    one->set_to(static_cast<double>(i + 1) / Metrics::kBuckets);
    one->set_count(bucket.count);
    one->set_predicted(bucket.predicted / bucket.count);
    one->set_observed(bucket.positives / bucket.count);
  }
}

v1::BatchMetrics BatchMetricsOf(const Metrics& metrics) {
  v1::BatchMetrics message;
  message.set_examples(metrics.examples);
  message.set_loss_sum(metrics.loss_sum);
  message.set_correct(metrics.correct);
  message.set_labels(metrics.labels);
  for (const Metrics::Sum& sum : metrics.sums) {
    v1::MetricSum* const added = message.add_metrics();
    added->set_name(sum.name());
    added->set_sum(sum.sum);
    added->set_count(sum.count);
    added->set_exp(sum.kind == Metrics::Kind::kPerplexity);
    added->set_positives(sum.positives);
  }
  for (const Metrics::Bucket& bucket : metrics.buckets) {
    message.add_calibration_buckets(bucket.count);
    message.add_calibration_buckets(bucket.predicted);
    message.add_calibration_buckets(bucket.positives);
  }
  for (const Metrics::Score& score : metrics.scores) {
    message.add_scores(score.score);
    message.add_positives(score.positive);
  }
  message.mutable_groups()->Add(metrics.groups.begin(), metrics.groups.end());
  message.mutable_score_weights()->Add(metrics.score_weights.begin(),
                                       metrics.score_weights.end());
  // Without scores one says that there are weights.
  if (metrics.weighted && metrics.scores.empty()) message.add_score_weights(1);
  message.set_output(metrics.output);
  for (const Metrics& one : metrics.outputs) {
    *message.add_outputs() = BatchMetricsOf(one);
  }
  message.set_feature(metrics.feature);
  message.set_value(metrics.value);
  for (const Metrics& one : metrics.slices) {
    *message.add_slices() = BatchMetricsOf(one);
  }
  return message;
}

absl::StatusOr<Metrics> MetricsOf(const v1::BatchMetrics& message) {
  Metrics metrics;
  metrics.examples = message.examples();
  metrics.loss_sum = message.loss_sum();
  metrics.correct = message.correct();
  metrics.labels = message.labels();
  metrics.weighted = message.score_weights_size() > 0;
  const auto counts = [&](Metrics::Kind kind) {
    return std::any_of(
        metrics.sums.begin(), metrics.sums.end(),
        [&](const Metrics::Sum& sum) { return sum.kind == kind; });
  };
  for (const v1::MetricSum& added : message.metrics()) {
    const auto sum = MetricNamed(added.name());
    if (!sum.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no metric '", Shortened(added.name()), "'"));
    }
    metrics.sums.push_back(*sum);
    metrics.sums.back().sum = added.sum();
    metrics.sums.back().count = added.count();
    metrics.sums.back().positives = added.positives();
  }
  RETURN_IF_ERROR(
      TakeBuckets(message, counts(Metrics::Kind::kCalibration), &metrics));
  const bool grouped =
      counts(Metrics::Kind::kGroupAuc) || counts(Metrics::Kind::kGroupRecall);
  const bool scored = grouped || counts(Metrics::Kind::kAuc);
  const int scores = message.scores_size();
  if (message.positives_size() != scores ||
      message.groups_size() != (grouped ? scores : 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat(scores, " scores have ", message.positives_size(),
                     " labels and ", message.groups_size(), " groups"));
  }
  if (metrics.weighted && message.score_weights_size() != std::max(scores, 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        scores, " scores have ", message.score_weights_size(), " weights"));
  }
  if (scores > 0 && !scored) {
    return absl::InvalidArgumentError(
        absl::StrCat(scores, " scores are there, but no area is counted"));
  }
  for (int i = 0; i < scores; ++i) {
    metrics.scores.push_back(
        {.score = message.scores(i), .positive = message.positives(i)});
  }
  metrics.groups.assign(message.groups().begin(), message.groups().end());
  if (scores > 0) {
    metrics.score_weights.assign(message.score_weights().begin(),
                                 message.score_weights().end());
  }
  RETURN_IF_ERROR(TakeParts(message, &metrics));
  return metrics;
}

}  // namespace paramd
