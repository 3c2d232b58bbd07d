#include "compute/model/metrics.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

double Area(std::vector<Metrics::Score> scores) {
  Metrics metrics;
  metrics.sums.push_back({.kind = Metrics::Kind::kAuc});
  metrics.scores = std::move(scores);
  return metrics.Values()[1].value;
}

TEST(MetricsTest, OfNoExamplesAreZero) {
  EXPECT_EQ(Metrics().mean_loss(), 0);
  EXPECT_EQ(Metrics().accuracy(), 0);
}

TEST(MetricsTest, AreMergedByAdding) {
  Metrics first{.loss_sum = 3, .examples = 2, .correct = 1, .labels = 2};
  first.sums.push_back(
      {.kind = Metrics::Kind::kTopK, .k = 3, .sum = 1, .count = 2});
  first.sums.push_back(
      {.kind = Metrics::Kind::kPerplexity, .sum = 3, .count = 2});
  Metrics second{.loss_sum = 1, .examples = 6, .correct = 2, .labels = 6};
  second.sums.push_back(
      {.kind = Metrics::Kind::kTopK, .k = 3, .sum = 3, .count = 6});
  second.sums.push_back(
      {.kind = Metrics::Kind::kPerplexity, .sum = 1, .count = 6});
  Metrics sum;
  sum += first;
  sum += second;
  EXPECT_DOUBLE_EQ(sum.mean_loss(), 0.5);
  EXPECT_DOUBLE_EQ(sum.accuracy(), 3.0 / 8);
  const std::vector<NamedValue> values = sum.Values();
  ASSERT_EQ(values.size(), 3u);
  EXPECT_EQ(values[0].name, "loss");
  EXPECT_EQ(values[1].name, "top_3");
  EXPECT_DOUBLE_EQ(values[1].value, 0.5);
  EXPECT_EQ(values[2].name, "perplexity");
  EXPECT_DOUBLE_EQ(values[2].value, std::exp(0.5));
}

TEST(MetricsTest, AnAreaCountsTheOrderedPairsAndHalfOfTheTies) {
  EXPECT_DOUBLE_EQ(
      Area({{0.1f, false}, {0.4f, false}, {0.35f, true}, {0.8f, true}}), 0.75);
  EXPECT_DOUBLE_EQ(Area({{1, true}, {1, false}, {1, false}}), 0.5);
  EXPECT_DOUBLE_EQ(Area({{2, false}, {1, true}}), 0);
  EXPECT_DOUBLE_EQ(Area({{1, false}, {2, true}, {2, false}, {3, true}}), 0.875);
}

TEST(MetricsTest, AnAreaOfOneKindOrOfNaNIsNaN) {
  EXPECT_TRUE(std::isnan(Area({})));
  EXPECT_TRUE(std::isnan(Area({{1, true}, {2, true}})));
  EXPECT_TRUE(std::isnan(
      Area({{std::numeric_limits<float>::quiet_NaN(), true}, {2, false}})));
}

TEST(MetricsTest, AnAreaOfManyScoresWithANaNIsNaN) {
  // More than std::sort puts in order by insertion.
  std::vector<Metrics::Score> scores;
  for (int i = 0; i < 1000; ++i) {
    scores.push_back({i % 3 == 0 ? std::numeric_limits<float>::quiet_NaN()
                                 : static_cast<float>(i * 7 % 31),
                      i % 2 == 0});
  }
  EXPECT_TRUE(std::isnan(Area(scores)));
}

double AreaOverGroups(std::vector<Metrics::Score> scores,
                      std::vector<int64_t> groups) {
  Metrics metrics;
  metrics.sums.push_back({.kind = Metrics::Kind::kGroupAuc});
  metrics.scores = std::move(scores);
  metrics.groups = std::move(groups);
  EXPECT_EQ(metrics.Values()[1].name, "group_auc");
  return metrics.Values()[1].value;
}

TEST(MetricsTest, AnAreaOverGroupsIsTheMeanOfTheirsByTheirSize) {
  // Groups of 2 and of 3: all pairs, and one of two; half of the other is a
  // tie.
  EXPECT_DOUBLE_EQ(
      AreaOverGroups({{1, true}, {1, false}, {0, false}, {9, false}, {8, true}},
                     {-5, 7, -5, 7, 7}),
      (2 * 1.0 + 3 * 0.5) / 5);
  EXPECT_DOUBLE_EQ(
      AreaOverGroups({{1, true}, {1, false}, {0, false}, {8, false}, {8, true}},
                     {-5, 7, -5, 7, 7}),
      (2 * 1.0 + 3 * 0.75) / 5);
  // One group is an area.
  EXPECT_DOUBLE_EQ(
      AreaOverGroups(
          {{0.1f, false}, {0.4f, false}, {0.35f, true}, {0.8f, true}},
          {1, 1, 1, 1}),
      0.75);
}

TEST(MetricsTest, AGroupOfOneKindDoesNotCount) {
  EXPECT_DOUBLE_EQ(
      AreaOverGroups({{1, true}, {0, false}, {5, true}, {6, true}, {7, false}},
                     {1, 1, 2, 2, 3}),
      1);
  EXPECT_TRUE(std::isnan(AreaOverGroups({{1, true}, {0, false}}, {1, 2})));
  EXPECT_TRUE(std::isnan(AreaOverGroups({}, {})));
  EXPECT_TRUE(std::isnan(AreaOverGroups(
      {{std::numeric_limits<float>::quiet_NaN(), true}, {2, false}}, {1, 1})));
}

double RecallAt(uint32_t k, std::vector<Metrics::Score> scores,
                std::vector<int64_t> groups, std::vector<float> weights = {}) {
  Metrics metrics;
  metrics.sums.push_back({.kind = Metrics::Kind::kGroupRecall, .k = k});
  metrics.scores = std::move(scores);
  metrics.groups = std::move(groups);
  metrics.weighted = !weights.empty();
  metrics.score_weights = std::move(weights);
  EXPECT_EQ(metrics.Values()[1].name, absl::StrCat("recall_at_", k));
  return metrics.Values()[1].value;
}

TEST(MetricsTest, ARecallIsTheMeanOfGroupsThatHaveAPositive) {
  // Of group 1 two of three positives are among the first two of four; of
  // group 2 the only one is third; group 3 has none.
  const std::vector<Metrics::Score> scores = {
      {1, true},  {9, true},  {3, false}, {5, true},
      {-1, true}, {0, false}, {2, false}, {7, false}};
  const std::vector<int64_t> groups = {1, 1, 1, 1, 2, 2, 2, 3};
  EXPECT_DOUBLE_EQ(RecallAt(2, scores, groups), (2.0 / 3 + 0) / 2);
  EXPECT_DOUBLE_EQ(RecallAt(3, scores, groups), (2.0 / 3 + 1) / 2);
  EXPECT_DOUBLE_EQ(RecallAt(100, scores, groups), 1);
}

TEST(MetricsTest, OfEqualScoresARecallCountsThoseThatThereIsRoomFor) {
  // Two of three equal ones are among the first three, wherever they stand.
  for (const std::vector<int>& order :
       {std::vector<int>{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}}) {
    const std::vector<Metrics::Score> all = {
        {5, false}, {1, true}, {1, false}, {1, true}};
    std::vector<Metrics::Score> scores;
    for (const int i : order) scores.push_back(all[i]);
    EXPECT_DOUBLE_EQ(RecallAt(3, scores, {4, 4, 4, 4}), 2.0 / 3);
  }
}

TEST(MetricsTest, ARecallCountsPositivesByWeightAndNoneOfWeightZero) {
  const std::vector<Metrics::Score> scores = {
      {4, false}, {3, true}, {2, true}, {1, false}};
  EXPECT_DOUBLE_EQ(RecallAt(1, scores, {1, 1, 1, 1}, {0, 3, 1, 1}), 0.75);
  EXPECT_TRUE(std::isnan(RecallAt(1, scores, {1, 1, 1, 1}, {1, 0, 0, 1})));
  EXPECT_TRUE(std::isnan(RecallAt(1, {}, {})));
  EXPECT_TRUE(std::isnan(
      RecallAt(1, {{std::numeric_limits<float>::quiet_NaN(), true}}, {1})));
}

TEST(MetricsTest, AreasOverGroupsDoNotDependOnTheOrderOfBatches) {
  std::vector<Metrics> batches;
  for (int b = 0; b < 7; ++b) {
    Metrics& batch = batches.emplace_back();
    batch.sums.push_back({.kind = Metrics::Kind::kGroupAuc});
    for (int i = 0; i < 50; ++i) {
      const int n = b * 50 + i;
      batch.scores.push_back({static_cast<float>(n * 37 % 101), n % 3 == 0});
      batch.groups.push_back(n * 13 % 11 - 5);
    }
  }
  Metrics forward;
  Metrics backward;
  for (size_t b = 0; b < batches.size(); ++b) {
    forward += batches[b];
    backward += batches[batches.size() - 1 - b];
  }
  const double value = forward.Values()[1].value;
  EXPECT_GT(value, 0.3);
  EXPECT_LT(value, 0.7);
  EXPECT_EQ(backward.Values()[1].value, value);
}

TEST(MetricsTest, AreasOfReplicasAreThatOfAllTheirScores) {
  Metrics first;
  first.sums.push_back({.kind = Metrics::Kind::kAuc});
  Metrics second = first;
  first.scores = {{0.1f, false}, {0.8f, true}};
  second.scores = {{0.4f, false}, {0.35f, true}};
  first += second;
  EXPECT_DOUBLE_EQ(first.Values()[1].value, 0.75);
}

TEST(MetricsTest, EntropyAndCalibrationOfReplicasAreThoseOfAllTheirExamples) {
  using Kind = Metrics::Kind;
  Metrics all;
  for (const double part : {1.0, 3.0}) {
    Metrics one;
    one.sums.push_back({.kind = Kind::kNormalisedEntropy,
                        .sum = 2 * part,
                        .count = 4 * part,
                        .positives = part});
    one.sums.push_back({.kind = Kind::kCalibration, .sum = 1, .count = part});
    all += one;
  }
  const std::vector<NamedValue> values = all.Values();
  EXPECT_EQ(values[1].name, "normalised_entropy");
  EXPECT_DOUBLE_EQ(values[1].value,
                   -0.5 / (std::log(0.25) / 4 + std::log(0.75) * 3 / 4));
  EXPECT_EQ(values[2].name, "calibration");
  EXPECT_DOUBLE_EQ(values[2].value, 0.5);
}

TEST(MetricsTest, BucketsOfReplicasAddUpAndOutputsDropTheirs) {
  Metrics one;
  one.sums.push_back({.kind = Metrics::Kind::kCalibration});
  Metrics all = one;  // Of no example.
  one.buckets.resize(Metrics::kBuckets);
  one.buckets[3] = {.count = 2, .predicted = 0.75, .positives = 1};
  all += one;
  all += one;
  all += Metrics(all);
  ASSERT_EQ(all.buckets.size(), 10u);
  EXPECT_EQ(all.buckets[3].count, 8);
  EXPECT_EQ(all.buckets[3].predicted, 3);
  EXPECT_EQ(all.buckets[3].positives, 4);
  EXPECT_EQ(all.buckets[4].count, 0);
  Metrics of_outputs;
  of_outputs.outputs = {all};
  of_outputs.DropBuckets();
  EXPECT_TRUE(of_outputs.outputs[0].buckets.empty());
}

TEST(MetricsTest, BucketsOfSomeExamplesAloneAreNone) {
  Metrics older;
  older.sums.push_back({.kind = Metrics::Kind::kCalibration, .sum = 1});
  Metrics newer = older;
  newer.buckets.resize(Metrics::kBuckets);
  newer.buckets[3] = {.count = 4, .predicted = 1, .positives = 1};
  for (const auto& order :
       {std::vector<Metrics>{newer, older, newer}, {older, newer, newer}}) {
    Metrics all;
    for (const Metrics& one : order) all += one;
    EXPECT_EQ(all.sums[0].sum, 3);
    EXPECT_TRUE(all.buckets.empty());
  }
}

// Of the examples of which a feature has the value.
Metrics SliceOf(const std::string& feature, uint32_t value, uint64_t examples,
                std::vector<Metrics::Score> scores) {
  Metrics slice{.loss_sum = 2.0 * static_cast<double>(examples),
                .examples = examples};
  slice.sums.push_back({.kind = Metrics::Kind::kAuc});
  slice.scores = std::move(scores);
  slice.feature = feature;
  slice.value = value;
  return slice;
}

TEST(MetricsTest, SlicesAreMergedByFeatureAndValueInAnyOrder) {
  Metrics first{.loss_sum = 3, .examples = 2};
  first.slices = {SliceOf("device", 2, 1, {{0.1f, false}, {0.8f, true}}),
                  SliceOf("place", 0, 1, {{1, true}})};
  Metrics second{.loss_sum = 1, .examples = 6};
  second.slices = {SliceOf("device", 0, 3, {{1, true}, {2, false}}),
                   SliceOf("device", 2, 3, {{0.4f, false}, {0.35f, true}})};
  Metrics forward;
  forward += first;
  forward += second;
  Metrics backward;
  backward += second;
  backward += first;
  for (const Metrics& sum : {forward, backward}) {
    EXPECT_DOUBLE_EQ(sum.mean_loss(), 0.5) << "slices count in no total";
    ASSERT_EQ(sum.Values().size(), 1u);
    ASSERT_EQ(sum.slices.size(), 3u);
    EXPECT_EQ(sum.slices[0].feature, "device");
    EXPECT_EQ(sum.slices[0].value, 0u);
    EXPECT_EQ(sum.slices[0].Values()[1].value, 0);
    EXPECT_EQ(sum.slices[1].value, 2u);
    EXPECT_EQ(sum.slices[1].examples, 4u);
    EXPECT_DOUBLE_EQ(sum.slices[1].mean_loss(), 2);
    EXPECT_DOUBLE_EQ(sum.slices[1].Values()[1].value, 0.75);
    EXPECT_EQ(sum.slices[2].feature, "place");
    EXPECT_TRUE(std::isnan(sum.slices[2].Values()[1].value))
        << "it has no negative";
  }
}

TEST(MetricsTest, OfASliceInWhichNothingCountsNothingIsANumber) {
  Metrics slice = SliceOf("device", 1, 0, {});
  slice.sums.push_back({.kind = Metrics::Kind::kAccuracy});
  slice.sums.push_back({.kind = Metrics::Kind::kPerplexity});
  slice.sums.push_back({.kind = Metrics::Kind::kMeanSquaredError});
  slice.outputs.push_back({.output = "click"});
  for (const NamedValue& value : slice.Values()) {
    EXPECT_TRUE(std::isnan(value.value)) << value.name;
  }
  EXPECT_EQ(slice.Values().back().name, "click/loss");
  slice.feature.clear();  // Of all examples means of nothing are 0.
  EXPECT_EQ(slice.Values()[0].value, 0);
  EXPECT_EQ(slice.Values()[2].value, 0);
}

TEST(MetricsTest, WhereNothingIsThereToCompareWithTheyAreNaN) {
  using Kind = Metrics::Kind;
  for (const double positives : {0.0, 4.0}) {
    Metrics metrics;
    metrics.sums.push_back({.kind = Kind::kNormalisedEntropy,
                            .sum = 2,
                            .count = 4,
                            .positives = positives});
    EXPECT_TRUE(std::isnan(metrics.Values()[1].value));
  }
  Metrics metrics;
  metrics.sums.push_back({.kind = Kind::kNormalisedEntropy});
  metrics.sums.push_back({.kind = Kind::kCalibration, .sum = 2});
  for (int i : {1, 2}) EXPECT_TRUE(std::isnan(metrics.Values()[i].value));
}

}  // namespace
}  // namespace paramd
