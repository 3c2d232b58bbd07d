#include "proto/metric_values.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

v1::MetricSum Sum(const std::string& name, double sum, double count,
                  bool exp = false) {
  v1::MetricSum message;
  message.set_name(name);
  message.set_sum(sum);
  message.set_count(count);
  message.set_exp(exp);
  return message;
}

TEST(MetricValuesTest, TheAccuracyComesFirstAndTheOthersByName) {
  v1::Evaluation evaluation;
  evaluation.set_examples(8);
  for (const char* name : {"top_5", "auc", "accuracy"}) {
    (*evaluation.mutable_metrics())[name] = 0.5;
  }
  EXPECT_THAT(
      MetricValues(evaluation),
      ElementsAre(Pair("accuracy", 0.5), Pair("auc", 0.5), Pair("top_5", 0.5)));
  EXPECT_EQ(EvaluationText(evaluation),
            "accuracy 0.5, auc 0.5, top_5 0.5, loss 0");
}

TEST(MetricValuesTest, CountsOfAnEarlierVersionGiveTheAccuracy) {
  v1::Evaluation evaluation;
  evaluation.set_examples(8);
  evaluation.set_correct(6);
  EXPECT_THAT(MetricValues(evaluation), ElementsAre(Pair("accuracy", 0.75)));
}

TEST(MetricValuesTest, AModelThatNamesNoMetricHasNone) {
  v1::Evaluation evaluation;
  evaluation.set_examples(8);
  EXPECT_THAT(MetricValues(evaluation), IsEmpty());
  evaluation.set_labels(80);
  evaluation.set_correct(40);
  EXPECT_THAT(MetricValues(evaluation), IsEmpty());
}

TEST(MetricValuesTest, ThoseOfSlicesAreNamedAfterFeatureAndValue) {
  v1::Evaluation evaluation;
  evaluation.set_examples(8);
  (*evaluation.mutable_metrics())["auc"] = 0.5;
  for (const uint32_t value : {0u, 12u}) {
    v1::EvaluatedSlice* const slice = evaluation.add_slices();
    slice->set_feature("device");
    slice->set_value(value);
    slice->set_loss(0.25);
    (*slice->mutable_metrics())["click/auc"] = 0.75;
    (*slice->mutable_metrics())["accuracy"] = 0.875;
  }
  EXPECT_THAT(MetricValues(evaluation), ElementsAre(Pair("auc", 0.5)));
  EXPECT_EQ(SliceName(evaluation.slices(1)), "device=12");
  EXPECT_THAT(
      SliceValues(evaluation),
      ElementsAre(Pair("loss/device=0", 0.25), Pair("accuracy/device=0", 0.875),
                  Pair("click/auc/device=0", 0.75),
                  Pair("loss/device=12", 0.25),
                  Pair("accuracy/device=12", 0.875),
                  Pair("click/auc/device=12", 0.75)));
}

TEST(MetricSumTest, ValuesOfReplicasAreThoseOfAllTheirExamples) {
  MetricSums sums;
  *sums.Add() = Sum("perplexity", 6, 2, /*exp=*/true);
  MetricSums more;
  *more.Add() = Sum("perplexity", 2, 6, /*exp=*/true);
  *more.Add() = Sum("accuracy", 3, 4);
  AddMetrics(more, &sums);
  ASSERT_EQ(sums.size(), 2);
  EXPECT_DOUBLE_EQ(MetricValue(sums[0]), std::exp(1));
  EXPECT_DOUBLE_EQ(MetricValue(sums[1]), 0.75);
  SubtractMetrics(more, &sums);
  EXPECT_DOUBLE_EQ(MetricValue(sums[0]), std::exp(3));
  EXPECT_TRUE(std::isnan(MetricValue(sums[1])));
}

TEST(MetricValuesTest, OfErrorsAndEntropiesTheLowerIsBetter) {
  for (const char* name :
       {"loss", "perplexity", "mse", "normalised_entropy", "click/loss"}) {
    EXPECT_TRUE(LowerIsBetter(name)) << name;
  }
  for (const char* name :
       {"accuracy", "top_5", "auc", "group_auc", "recall_at_5", "click/auc"}) {
    EXPECT_FALSE(LowerIsBetter(name)) << name;
  }
}

}  // namespace
}  // namespace paramd
