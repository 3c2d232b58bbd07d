#include "worker/metric_messages.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

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

TEST(MetricMessagesTest, AStepSendsSumsButOfTheArea) {
  Metrics metrics = OfSequences();
  metrics.sums.push_back(
      {.kind = Metrics::Kind::kTopK, .k = 3, .sum = 6, .count = 6});
  metrics.sums.push_back({.kind = Metrics::Kind::kAuc, .count = 6});
  metrics.sums.push_back({.kind = Metrics::Kind::kGroupAuc, .count = 6});
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

}  // namespace
}  // namespace paramd
