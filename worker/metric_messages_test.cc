#include "worker/metric_messages.h"

#include <cmath>

#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"

#include "proto/message_json.h"
#include "proto/metric_values.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// A sequence model's, of two examples with three labels each.
Metrics OfSequences() {
  Metrics metrics{.loss_sum = 4, .examples = 2, .correct = 5, .labels = 6};
  metrics.sums.push_back({.kind = Metrics::Kind::kAccuracy, .count = 6});
  metrics.sums.push_back(
      {.kind = Metrics::Kind::kPerplexity, .sum = 12, .count = 6});
  return metrics;
}

TEST(MetricMessagesTest, AnEvaluationHasTheAccuracyOfLabels) {
  v1::Evaluation evaluation;
  SetMetrics(OfSequences(), &evaluation);
  EXPECT_EQ(evaluation.examples(), 2u);
  EXPECT_EQ(evaluation.labels(), 6u);
  EXPECT_EQ(evaluation.correct(), 5u);
  EXPECT_EQ(evaluation.loss(), 2);
  EXPECT_THAT(
      MetricValues(evaluation),
      ElementsAre(Pair("accuracy", 5.0 / 6), Pair("perplexity", std::exp(2))));
}

TEST(MetricMessagesTest, AModelWithoutAccuracySendsNone) {
  Metrics metrics{.loss_sum = 4, .examples = 2};
  v1::Evaluation evaluation;
  SetMetrics(metrics, &evaluation);
  EXPECT_THAT(MetricValues(evaluation), IsEmpty());
  v1::ComputeGradientResult result;
  SetMetrics(metrics, &result);
  EXPECT_EQ(result.metrics_size(), 0);
}

TEST(MetricMessagesTest, AStepSendsSumsButOfOutputs) {
  Metrics metrics = OfSequences();
  metrics.sums.push_back(
      {.kind = Metrics::Kind::kTopK, .k = 3, .sum = 6, .count = 6});
  metrics.sums.push_back({.kind = Metrics::Kind::kAuc, .count = 6});
  metrics.sums.push_back({.kind = Metrics::Kind::kGroupAuc, .count = 6});
  metrics.sums.push_back({.kind = Metrics::Kind::kGroupRecall, .k = 3});
  metrics.sums.push_back({.kind = Metrics::Kind::kNormalisedEntropy});
  metrics.sums.push_back({.kind = Metrics::Kind::kCalibration});
  v1::ComputeGradientResult result;
  SetMetrics(metrics, &result);
  EXPECT_EQ(result.loss(), 4);
  EXPECT_EQ(result.examples(), 2u);
  ASSERT_EQ(result.metrics_size(), 3);
  EXPECT_EQ(result.metrics(0).name(), "accuracy");
  EXPECT_EQ(MetricValue(result.metrics(0)), 5.0 / 6);
  EXPECT_EQ(MetricValue(result.metrics(1)), std::exp(2));
  EXPECT_EQ(result.metrics(2).name(), "top_3");
}

// Of every kind of metric.
Metrics OfEverything() {
  Metrics metrics{
      .loss_sum = 0.1 + 0.2, .examples = 3, .correct = 2, .labels = 3};
  using Kind = Metrics::Kind;
  for (const Kind kind :
       {Kind::kAccuracy, Kind::kTopK, Kind::kPerplexity,
        Kind::kMeanSquaredError, Kind::kAuc, Kind::kGroupAuc,
        Kind::kGroupRecall, Kind::kNormalisedEntropy, Kind::kCalibration}) {
    metrics.sums.push_back(
        {.kind = kind,
         .k = kind == Kind::kTopK || kind == Kind::kGroupRecall ? 7u : 0u,
         .sum = 1.0 / 3,
         .count = 3,
         .positives = 0.1});
  }
  metrics.buckets.resize(Metrics::kBuckets);
  metrics.buckets[2] = {.count = 3, .predicted = 0.7, .positives = 1.0 / 3};
  metrics.scores = {{0.1f, true}, {1e-40f, false}, {-0.0f, true}};
  metrics.groups = {int64_t{1} << 62, -5, 0};
  return metrics;
}

Metrics OfWeights() {
  Metrics metrics = OfEverything();
  metrics.weighted = true;
  metrics.score_weights = {0.1f, 0, 1e20f};
  return metrics;
}

// With slices, of which one has several outputs.
Metrics OfSlices() {
  Metrics metrics = OfEverything();
  metrics.slices = {OfEverything(), Metrics{.loss_sum = 1, .examples = 2}};
  metrics.slices[0].feature = "device";
  metrics.slices[1].feature = "device";
  metrics.slices[1].value = 4294967295u;
  metrics.slices[1].outputs = {OfWeights()};
  metrics.slices[1].outputs[0].output = "click";
  return metrics;
}

void ExpectSame(const Metrics& found, const Metrics& expected) {
  EXPECT_EQ(found.examples, expected.examples);
  EXPECT_EQ(found.loss_sum, expected.loss_sum);
  EXPECT_EQ(found.correct, expected.correct);
  EXPECT_EQ(found.labels, expected.labels);
  EXPECT_EQ(found.groups, expected.groups);
  EXPECT_EQ(found.weighted, expected.weighted);
  EXPECT_EQ(found.score_weights, expected.score_weights);
  ASSERT_EQ(found.scores.size(), expected.scores.size());
  for (size_t i = 0; i < found.scores.size(); ++i) {
    EXPECT_EQ(found.scores[i].score, expected.scores[i].score);
    EXPECT_EQ(found.scores[i].positive, expected.scores[i].positive);
  }
  ASSERT_EQ(found.sums.size(), expected.sums.size());
  for (size_t i = 0; i < found.sums.size(); ++i) {
    EXPECT_EQ(found.sums[i].name(), expected.sums[i].name());
    EXPECT_EQ(found.sums[i].k, expected.sums[i].k);
    EXPECT_EQ(found.sums[i].sum, expected.sums[i].sum);
    EXPECT_EQ(found.sums[i].count, expected.sums[i].count);
    EXPECT_EQ(found.sums[i].positives, expected.sums[i].positives);
  }
  ASSERT_EQ(found.buckets.size(), expected.buckets.size());
  for (size_t i = 0; i < found.buckets.size(); ++i) {
    EXPECT_EQ(found.buckets[i].count, expected.buckets[i].count);
    EXPECT_EQ(found.buckets[i].predicted, expected.buckets[i].predicted);
    EXPECT_EQ(found.buckets[i].positives, expected.buckets[i].positives);
  }
  EXPECT_EQ(found.output, expected.output);
  EXPECT_EQ(found.feature, expected.feature);
  EXPECT_EQ(found.value, expected.value);
  ASSERT_EQ(found.outputs.size(), expected.outputs.size());
  for (size_t i = 0; i < found.outputs.size(); ++i) {
    ExpectSame(found.outputs[i], expected.outputs[i]);
  }
  ASSERT_EQ(found.slices.size(), expected.slices.size());
  for (size_t i = 0; i < found.slices.size(); ++i) {
    ExpectSame(found.slices[i], expected.slices[i]);
  }
}

TEST(MetricMessagesTest, OfABatchEveryBitComesBackAlsoAsJson) {
  Metrics without_scores = OfSequences();
  without_scores.weighted = true;
  for (const Metrics& metrics : {OfEverything(), OfSequences(), OfWeights(),
                                 OfSlices(), without_scores, Metrics()}) {
    const v1::BatchMetrics message = BatchMetricsOf(metrics);
    const auto back = MetricsOf(message);
    ASSERT_TRUE(back.ok()) << back.status();
    ExpectSame(*back, metrics);
    const auto text = MessageJson(message);
    ASSERT_TRUE(text.ok()) << text.status();
    v1::BatchMetrics read;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(*text, &read).ok());
    const auto again = MetricsOf(read);
    ASSERT_TRUE(again.ok()) << again.status();
    ExpectSame(*again, metrics);
  }
}

TEST(MetricMessagesTest, AccuracyIsThatOfWeightedLabels) {
  v1::ComputeGradientResult result;
  Metrics metrics = OfSequences();
  metrics.weighted = true;
  metrics.sums[0] = {
      .kind = Metrics::Kind::kAccuracy, .sum = 0.5, .count = 2.5};
  SetMetrics(metrics, &result);
  EXPECT_EQ(MetricValue(result.metrics(0)), 0.2);
  v1::Evaluation evaluation;
  SetMetrics(metrics, &evaluation);
  EXPECT_EQ(evaluation.metrics().at("accuracy"), 0.2);
  EXPECT_EQ(evaluation.correct(), 5u);
}

TEST(MetricMessagesTest, AnEvaluationHasThoseOfEachSlice) {
  Metrics metrics = OfSequences();
  metrics.slices = {OfSequences(), Metrics()};
  metrics.slices[0].feature = "device";
  metrics.slices[0].value = 3;
  metrics.slices[1].feature = "place";
  v1::Evaluation evaluation;
  evaluation.add_slices()->set_feature("old");
  SetMetrics(metrics, &evaluation);
  EXPECT_EQ(evaluation.metrics_size(), 2) << "the totals alone";
  ASSERT_EQ(evaluation.slices_size(), 2);
  const v1::EvaluatedSlice& slice = evaluation.slices(0);
  EXPECT_EQ(SliceName(slice), "device=3");
  EXPECT_EQ(slice.examples(), 2u);
  EXPECT_EQ(slice.loss(), 2);
  EXPECT_THAT(
      MetricValues(slice),
      ElementsAre(Pair("accuracy", 5.0 / 6), Pair("perplexity", std::exp(2))));
  EXPECT_EQ(evaluation.slices(1).examples(), 0u);
  EXPECT_TRUE(std::isnan(evaluation.slices(1).loss()));
}

TEST(MetricMessagesTest, AnEvaluationHasTheBucketsOfEachOutput) {
  Metrics metrics;
  metrics.outputs = {OfSequences(), OfEverything()};
  metrics.outputs[1].output = "click";
  v1::Evaluation evaluation;
  evaluation.add_calibration_buckets()->set_output("old");
  SetMetrics(metrics, &evaluation);
  ASSERT_EQ(evaluation.calibration_buckets_size(), 1);
  const v1::CalibrationBuckets& click = evaluation.calibration_buckets(0);
  EXPECT_EQ(click.output(), "click");
  ASSERT_EQ(click.buckets_size(), 1) << "the others have no example";
  EXPECT_EQ(click.buckets(0).from(), 0.2);
  EXPECT_EQ(click.buckets(0).to(), 0.3);
  EXPECT_EQ(click.buckets(0).count(), 3);
  EXPECT_EQ(click.buckets(0).predicted(), 0.7 / 3);
  EXPECT_EQ(click.buckets(0).observed(), 1.0 / 3 / 3);
}

TEST(MetricMessagesTest, BucketsOfAnotherNumberOrMetricAreRefused) {
  v1::BatchMetrics message = BatchMetricsOf(OfEverything());
  message.add_calibration_buckets(1);
  EXPECT_EQ(MetricsOf(message).status(),
            absl::InvalidArgumentError(
                "31 numbers of buckets are there; a calibration has 30"));
  message = BatchMetricsOf(OfSequences());
  message.mutable_calibration_buckets()->Resize(30, 0);
  EXPECT_TRUE(absl::IsInvalidArgument(MetricsOf(message).status()));
}

TEST(MetricMessagesTest, SlicesAndOutputsHaveNoPartsOfTheirOwn) {
  v1::BatchMetrics message = BatchMetricsOf(OfSlices());
  *message.mutable_slices(0)->add_slices() = message.slices(1);
  EXPECT_EQ(MetricsOf(message).status(),
            absl::InvalidArgumentError(
                "a slice names no feature, or has slices of its own"));
  message = BatchMetricsOf(OfSlices());
  message.mutable_slices(1)->clear_feature();
  EXPECT_EQ(MetricsOf(message).status(),
            absl::InvalidArgumentError(
                "a slice names no feature, or has slices of its own"));
  message = BatchMetricsOf(OfSlices());
  *message.mutable_slices(1)->mutable_outputs(0)->add_outputs() =
      BatchMetricsOf(OfSequences());
  EXPECT_EQ(MetricsOf(message).status(),
            absl::InvalidArgumentError("an output has parts of its own"));
}

TEST(MetricMessagesTest, WhatIsNoBatchsIsRefused) {
  v1::BatchMetrics message = BatchMetricsOf(OfEverything());
  message.mutable_metrics(1)->set_name("top_many");
  EXPECT_EQ(MetricsOf(message).status(),
            absl::InvalidArgumentError("there is no metric 'top_many'"));
  message = BatchMetricsOf(OfEverything());
  message.add_positives(true);
  EXPECT_EQ(MetricsOf(message).status(),
            absl::InvalidArgumentError("3 scores have 4 labels and 3 groups"));
  message.clear_metrics();
  message.clear_calibration_buckets();
  message.clear_groups();
  message.mutable_positives()->RemoveLast();
  EXPECT_EQ(
      MetricsOf(message).status(),
      absl::InvalidArgumentError("3 scores are there, but no area is counted"));
  message = BatchMetricsOf(OfWeights());
  message.mutable_score_weights()->RemoveLast();
  EXPECT_EQ(MetricsOf(message).status(),
            absl::InvalidArgumentError("3 scores have 2 weights"));
  message = BatchMetricsOf(OfEverything());
  message.clear_groups();
  EXPECT_TRUE(absl::IsInvalidArgument(MetricsOf(message).status()));
}

}  // namespace
}  // namespace paramd
