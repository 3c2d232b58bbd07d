#include "compute/model/loss.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace paramd {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Outputs and a label, and the loss over them.
struct Case {
  Loss::Options options;
  Dims outputs;  // Of one example.
  std::vector<double> values;
  std::vector<int32_t> classes;  // The label, or
  std::vector<float> numbers;
  std::vector<float> weights = {};  // Of examples.
  std::vector<int64_t> groups = {};

  // With each example as often as its weight, a whole number, says.
  Case Repeated() const {
    Case repeated = *this;
    repeated.weights.clear();
    const auto repeat = [&](const auto& from, auto* to) {
      to->clear();
      const size_t size = from.size() / weights.size();
      for (size_t i = 0; i < weights.size(); ++i) {
        for (int times = 0; times < static_cast<int>(weights[i]); ++times) {
          to->insert(to->end(), from.begin() + i * size,
                     from.begin() + (i + 1) * size);
        }
      }
    };
    repeat(values, &repeated.values);
    repeat(classes, &repeated.classes);
    repeat(numbers, &repeated.numbers);
    repeat(groups, &repeated.groups);
    return repeated;
  }

  Metrics Compute(const std::vector<double>& at, double scale,
                  std::vector<double>* gradient) const {
    const Loss loss(options, outputs);
    const uint64_t examples = at.size() / SizeOf(outputs);
    Dims dims = {examples};
    dims.insert(dims.end(), outputs.begin(), outputs.end());
    const ConstTensor target =
        classes.empty() ? ConstTensor(numbers.data(), DType::kFloat32,
                                      {examples, numbers.size() / examples})
                        : ConstTensor(classes.data(), DType::kInt32,
                                      {examples, classes.size() / examples});
    EXPECT_TRUE(loss.Check(target, [](uint64_t) { return ""; }).ok());
    Tensor into;
    if (gradient != nullptr) into = {gradient->data(), DType::kFloat64, dims};
    return loss.Compute(ConstTensor(at.data(), DType::kFloat64, dims), target,
                        scale, into, /*scored=*/true, groups, weights);
  }

  Metrics Compute() const { return Compute(values, 1, nullptr); }

  void ExpectGradientsMatchDifferences() const {
    constexpr double kScale = 0.5;
    constexpr double kStep = 1e-5;
    std::vector<double> gradient(values.size(), kNaN);
    EXPECT_EQ(Compute(values, kScale, &gradient).loss_sum, Compute().loss_sum);
    for (size_t i = 0; i < values.size(); ++i) {
      std::vector<double> moved = values;
      moved[i] = values[i] + kStep;
      const double above = Compute(moved, 1, nullptr).loss_sum;
      moved[i] = values[i] - kStep;
      const double below = Compute(moved, 1, nullptr).loss_sum;
      EXPECT_NEAR(gradient[i], kScale * (above - below) / (2 * kStep), 1e-8)
          << i;
    }
  }
};

Case Softmax(Dims outputs, std::vector<double> values,
             std::vector<int32_t> classes) {
  return {.options = {.kind = v1::SOFTMAX_CROSS_ENTROPY},
          .outputs = std::move(outputs),
          .values = std::move(values),
          .classes = std::move(classes),
          .numbers = {}};
}

Case Numbers(v1::Loss kind, Dims outputs, std::vector<double> values,
             std::vector<float> numbers) {
  return {.options = {.kind = kind},
          .outputs = std::move(outputs),
          .values = std::move(values),
          .classes = {},
          .numbers = std::move(numbers)};
}

TEST(SoftmaxCrossEntropyTest, LossIsMinusTheLogOfTheLabelsProbability) {
  const Metrics result =
      Softmax({3}, {0, 0, 0, 0, std::log(3.0), 0}, {2, 1}).Compute();
  EXPECT_NEAR(result.loss_sum, std::log(3.0) + std::log(5.0 / 3), 1e-12);
  EXPECT_EQ(result.examples, 2u);
}

TEST(SoftmaxCrossEntropyTest, CorrectIsWhereTheLabelHasTheLargestOutput) {
  const Metrics result = Softmax({2}, {1, 2, 2, 1, 3, 3}, {1, 1, 0}).Compute();
  EXPECT_EQ(result.correct, 2u);
  EXPECT_DOUBLE_EQ(result.accuracy(), 2.0 / 3);
}

TEST(SoftmaxCrossEntropyTest, LargeOutputsDoNotOverflow) {
  const Case large = Softmax({2}, {1e308, -1e308}, {0});
  std::vector<double> gradient(2);
  EXPECT_EQ(large.Compute(large.values, 1, &gradient).loss_sum, 0);
  EXPECT_EQ(gradient[0], 0);
}

TEST(LossTest, AnOutputThatIsNotFiniteShowsInTheLoss) {
  for (const double bad : {kNaN, std::numeric_limits<double>::infinity()}) {
    for (size_t place = 0; place < 3; ++place) {
      std::vector<double> outputs = {1, 2, 3};
      outputs[place] = bad;
      EXPECT_FALSE(
          std::isfinite(Softmax({3}, outputs, {0}).Compute().loss_sum));
      for (const auto kind : {v1::MEAN_SQUARED_ERROR, v1::KL_DIVERGENCE,
                              v1::BINARY_CROSS_ENTROPY}) {
        EXPECT_FALSE(std::isfinite(
            Numbers(kind, {3}, outputs, {0, 0.5, 0.5}).Compute().loss_sum));
      }
    }
  }
}

TEST(SoftmaxCrossEntropyTest, NoLabelIsRightAmongOutputsThatAreNoNumbers) {
  Case loss = Softmax({3}, {kNaN, kNaN, kNaN, 1, kNaN, 2}, {0, 2});
  loss.options.metrics = {{.kind = Metrics::Kind::kTopK, .k = 2}};
  const Metrics metrics = loss.Compute();
  EXPECT_EQ(metrics.labels, 2u);
  EXPECT_EQ(metrics.correct, 0u);
  EXPECT_EQ(metrics.Values()[1].value, 0);
}

const std::vector<double> kOutputs = {0.5, -1, 2, 0.25, 1, -0.5, 0, 3};

TEST(LossTest, SoftmaxCrossEntropyGradientsMatchDifferences) {
  Case loss = Softmax({4}, kOutputs, {2, 1});
  loss.ExpectGradientsMatchDifferences();
  loss.options.label_smoothing = 0.2;
  loss.ExpectGradientsMatchDifferences();
  loss.options.class_weights = {1, 0.25, 3, 2};
  loss.ExpectGradientsMatchDifferences();
  Case places = Softmax({2, 4}, kOutputs, {2, 1});
  places.ExpectGradientsMatchDifferences();
  places.options.ignore_label = 2;
  places.ExpectGradientsMatchDifferences();
}

TEST(LossTest, OtherGradientsMatchDifferences) {
  Numbers(v1::BINARY_CROSS_ENTROPY, {4}, kOutputs, {0, 1, 1, 0, 0.5, 1, 0, 0})
      .ExpectGradientsMatchDifferences();
  Numbers(v1::MEAN_SQUARED_ERROR, {2, 2}, kOutputs, {0, 1, 5, 0, -3, 1, 0, 0})
      .ExpectGradientsMatchDifferences();
  Numbers(v1::KL_DIVERGENCE, {4}, kOutputs,
          {0.5, 0.5, 0, 0, 0.1f, 0.2f, 0.3f, 0.4f})
      .ExpectGradientsMatchDifferences();
}

TEST(LossTest, SmoothingSpreadsTheLabelEvenly) {
  Case loss = Softmax({2}, {0, std::log(3.0)}, {1});
  loss.options.label_smoothing = 0.2;
  EXPECT_NEAR(loss.Compute().loss_sum,
              -(0.9 * std::log(0.75) + 0.1 * std::log(0.25)), 1e-12);
}

TEST(LossTest, WeightsAreFactorsOfTheirClass) {
  Case loss = Softmax({2}, {0, 0, 0, 0}, {0, 1});
  loss.options.class_weights = {1, 5};
  EXPECT_NEAR(loss.Compute().loss_sum, 6 * std::log(2.0), 1e-12);
}

TEST(LossTest, AnIgnoredLabelCountsInNothing) {
  Case loss = Softmax({3, 2}, {0, 0, 9, 0, 0, 1}, {0, -1, 1});
  loss.options.ignore_label = -1;
  loss.options.metrics = {{.kind = Metrics::Kind::kPerplexity}};
  const Metrics result = loss.Compute();
  const double first = std::log(2.0);
  const double last = std::log(1 + std::exp(-1.0));
  EXPECT_NEAR(result.loss_sum, (first + last) / 2, 1e-12);
  EXPECT_EQ(result.examples, 1u);
  EXPECT_EQ(result.labels, 2u);
  EXPECT_EQ(result.correct, 2u);
  EXPECT_NEAR(result.Values()[1].value, std::exp((first + last) / 2), 1e-12);

  Case all = Softmax({2}, {0, 0}, {-1});
  all.options.ignore_label = -1;
  std::vector<double> gradient(2, kNaN);
  EXPECT_EQ(all.Compute(all.values, 1, &gradient).loss_sum, 0);
  EXPECT_EQ(gradient, (std::vector<double>{0, 0}));
  EXPECT_EQ(all.Compute().examples, 0u);

  // Nor does an example without another one: the mean is over the others.
  Case some = Softmax({2}, {0, 0, 0, 0, 9, 0}, {0, 1, -1});
  some.options.ignore_label = -1;
  EXPECT_EQ(some.Compute().examples, 2u);
  EXPECT_NEAR(some.Compute().mean_loss(), std::log(2.0), 1e-12);
}

TEST(LossTest, TopKCountsLabelsAmongTheLargest) {
  Case loss = Softmax({4}, {4, 3, 2, 1, 1, 1, 1, 1, 9, 8, 7, 6}, {1, 1, 3});
  loss.options.metrics = {{.kind = Metrics::Kind::kTopK, .k = 2}};
  EXPECT_DOUBLE_EQ(loss.Compute().Values()[1].value, 2.0 / 3);
}

TEST(LossTest, MeansAreOverTheOutputsOfAnExample) {
  EXPECT_DOUBLE_EQ(
      Numbers(v1::MEAN_SQUARED_ERROR, {2}, {1, 2, 3, 4}, {1, 0, 0, 4})
          .Compute()
          .mean_loss(),
      (4.0 / 2 + 9.0 / 2) / 2);
  EXPECT_NEAR(
      Numbers(v1::BINARY_CROSS_ENTROPY, {2}, {0, 0}, {1, 0}).Compute().loss_sum,
      std::log(2.0), 1e-12);
}

TEST(LossTest, DivergenceFromTheSameProbabilitiesIsZero) {
  const Case same =
      Numbers(v1::KL_DIVERGENCE, {2}, {0, std::log(3.0)}, {0.25, 0.75});
  EXPECT_NEAR(same.Compute().loss_sum, 0, 1e-7);
}

TEST(LossTest, ScoresAreOfBinaryAndOfTwoClasses) {
  Case binary = Numbers(v1::BINARY_CROSS_ENTROPY, {1}, {0.1, 0.4, 0.35, 0.8},
                        {0, 0, 1, 1});
  binary.options.metrics = {{.kind = Metrics::Kind::kAuc}};
  EXPECT_DOUBLE_EQ(binary.Compute().Values()[1].value, 0.75);
  Case two = Softmax({2}, {0, 0.1, 0, 0.4, 0, 0.35, 0, 0.8}, {0, 0, 1, 1});
  two.options.metrics = {{.kind = Metrics::Kind::kAuc}};
  EXPECT_DOUBLE_EQ(two.Compute().Values()[1].value, 0.75);
}

// Labels may be numbers between; a training step counts neither.
TEST(LossTest, EntropyAndCalibrationAreOfTheProbabilities) {
  const Loss loss({.kind = v1::BINARY_CROSS_ENTROPY,
                   .metrics = {{.kind = Metrics::Kind::kNormalisedEntropy},
                               {.kind = Metrics::Kind::kCalibration}}},
                  {1});
  const std::vector<float> outputs = {std::log(3.0f), -1000};
  const std::vector<float> labels = {0.5f, 0};
  const auto compute = [&](bool scored) {
    return loss.Compute(ConstTensor(outputs.data(), DType::kFloat32, {2, 1}),
                        ConstTensor(labels.data(), DType::kFloat32, {2, 1}), 1,
                        Tensor(), scored);
  };
  const Metrics metrics = compute(true);
  EXPECT_TRUE(metrics.scores.empty());
  const double entropy = -(std::log(0.75) + std::log(0.25)) / 4;
  const double known = -std::log(0.25) / 4 - std::log(0.75) * 3 / 4;
  EXPECT_NEAR(metrics.Values()[1].value, entropy / known, 1e-7);
  EXPECT_NEAR(metrics.Values()[2].value, 0.75 / 0.5, 1e-7);
  // 0 is in the first bucket, 0.75 in that from 0.7.
  const std::vector<Metrics::Bucket>& buckets = metrics.buckets;
  ASSERT_EQ(buckets.size(), 10u);
  EXPECT_EQ(buckets[0].count, 1);
  EXPECT_EQ(buckets[0].predicted, 0);
  EXPECT_EQ(buckets[7].count, 1);
  EXPECT_NEAR(buckets[7].predicted, 0.75, 1e-7);
  EXPECT_EQ(buckets[7].positives, 0.5);
  EXPECT_TRUE(compute(false).buckets.empty());
  EXPECT_EQ(compute(false).sums[0].count, 0);
}

// Two classes: the score is the difference. Certainty is in the last bucket;
// what is not a number in none.
TEST(LossTest, ABucketCountsExamplesAsOftenAsTheirWeightSays) {
  const Loss loss({.kind = v1::SOFTMAX_CROSS_ENTROPY,
                   .metrics = {{.kind = Metrics::Kind::kCalibration}}},
                  {2});
  const std::vector<float> outputs = {0,     1000, 5,   5, 0,
                                      -0.1f, NAN,  0.f, 3, 1003};
  const std::vector<int32_t> labels = {1, 0, 1, 1, 0};
  const std::vector<float> weights = {2, 3, 0.5f, 1, 1};
  const Metrics metrics =
      loss.Compute(ConstTensor(outputs.data(), DType::kFloat32, {5, 2}),
                   ConstTensor(labels.data(), DType::kInt32, {5}), 1, Tensor(),
                   /*scored=*/true, {}, weights);
  const std::vector<Metrics::Bucket>& buckets = metrics.buckets;
  ASSERT_EQ(buckets.size(), 10u);
  EXPECT_EQ(buckets[9].count, 3);
  EXPECT_EQ(buckets[9].predicted, 3);
  EXPECT_EQ(buckets[9].positives, 2);
  EXPECT_EQ(buckets[5].count, 3);
  EXPECT_EQ(buckets[5].predicted, 1.5);
  EXPECT_EQ(buckets[5].positives, 0);
  EXPECT_EQ(buckets[4].count, 0.5);
  EXPECT_EQ(buckets[4].positives, 0.5);
}

TEST(LossTest, AScoreHasTheGroupOfItsExample) {
  const std::vector<float> outputs = {0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6};
  const std::vector<int64_t> groups = {7, -1, 7};
  // Two places of two classes each, or two numbers of two outputs.
  const Loss places({.kind = v1::SOFTMAX_CROSS_ENTROPY,
                     .ignore_label = 9,
                     .metrics = {{.kind = Metrics::Kind::kGroupAuc},
                                 {.kind = Metrics::Kind::kAuc}}},
                    {2, 2});
  const std::vector<int32_t> labels = {0, 9, 1, 0, 1, 0};
  const Metrics metrics = places.Compute(
      ConstTensor(outputs.data(), DType::kFloat32, {3, 2, 2}),
      ConstTensor(labels.data(), DType::kInt32, {3, 2}), 1, Tensor(),
      /*scored=*/true, groups);
  EXPECT_EQ(metrics.groups, std::vector<int64_t>({7, -1, -1, 7, 7}));
  EXPECT_EQ(metrics.scores.size(), 5u);
  // Of group 7: 1 false, 5 true, 6 false; of -1: 3 true, 4 false.
  EXPECT_DOUBLE_EQ(metrics.Values()[1].value, (3 * 0.5 + 2 * 0.0) / 5);
  const Loss binary({.kind = v1::BINARY_CROSS_ENTROPY,
                     .metrics = {{.kind = Metrics::Kind::kGroupAuc}}},
                    {4});
  const std::vector<float> numbers(12, 1);
  const auto compute = [&](bool scored) {
    return binary.Compute(ConstTensor(outputs.data(), DType::kFloat32, {3, 4}),
                          ConstTensor(numbers.data(), DType::kFloat32, {3, 4}),
                          1, Tensor(), scored, groups);
  };
  EXPECT_EQ(compute(true).groups,
            std::vector<int64_t>({7, 7, 7, 7, -1, -1, -1, -1, 7, 7, 7, 7}));
  EXPECT_TRUE(compute(false).groups.empty());
}

TEST(LossTest, LabelsOutOfRangeAreNamed) {
  const Loss classes({.kind = v1::SOFTMAX_CROSS_ENTROPY, .ignore_label = -1},
                     {3});
  const std::vector<int32_t> labels = {0, -1, 3};
  const auto name = [](uint64_t i) { return "row " + std::to_string(i); };
  EXPECT_EQ(
      classes.Check(ConstTensor(labels.data(), DType::kInt32, {3}), name),
      absl::DataLossError("row 2: the label is 3; it must be from 0 to 2"));
  const Loss binary({.kind = v1::BINARY_CROSS_ENTROPY}, {1});
  const std::vector<float> numbers = {1, 1.5f};
  EXPECT_EQ(
      binary.Check(ConstTensor(numbers.data(), DType::kFloat32, {2, 1}), name),
      absl::DataLossError("row 1: the label has 1.5; the loss needs numbers "
                          "from 0 to 1"));
}

TEST(LossTest, PredictionsAreProbabilitiesWhereThereAreClasses) {
  const std::vector<float> outputs = {0, std::log(3.0f)};
  std::vector<float> out(2);
  const ConstTensor from(outputs.data(), DType::kFloat32, {1, 2});
  const Tensor to{out.data(), DType::kFloat32, {1, 2}};
  Loss({.kind = v1::SOFTMAX_CROSS_ENTROPY}, {2}).Predict(from, to);
  EXPECT_FLOAT_EQ(out[1], 0.75f);
  Loss({.kind = v1::BINARY_CROSS_ENTROPY}, {2}).Predict(from, to);
  EXPECT_FLOAT_EQ(out[0], 0.5f);
  EXPECT_FLOAT_EQ(out[1], 0.75f);
  Loss({.kind = v1::MEAN_SQUARED_ERROR}, {2}).Predict(from, to);
  EXPECT_EQ(out, outputs);
}

// Of each kind of loss, with every metric that it has.
std::vector<Case> WeightedCases() {
  using Kind = Metrics::Kind;
  Case classes =
      Softmax({2}, {1, 2, 0.5, -1, 0, 0.25, 3, 3, -2, 1}, {1, 0, 1, 0, 0});
  classes.options.label_smoothing = 0.1;
  classes.options.class_weights = {1, 3};
  classes.options.metrics = {
      {.kind = Kind::kAccuracy},   {.kind = Kind::kTopK, .k = 1},
      {.kind = Kind::kPerplexity}, {.kind = Kind::kAuc},
      {.kind = Kind::kGroupAuc},   {.kind = Kind::kNormalisedEntropy},
      {.kind = Kind::kCalibration}};
  Case places = Softmax({2, 3}, {1, 2, 3, 0, 0, 1, 2, 1, 0, 5, 4, 3, 1, 1, 0,
                                 2, 2, 2, 0, 1, 0, 1, 0, 0, 3, 1, 2, 1, 2, 1},
                        {2, -7, 0, 1, -7, 2, 1, 1, 0, 0});
  places.options.ignore_label = -7;
  places.options.metrics = {{.kind = Kind::kAccuracy},
                            {.kind = Kind::kTopK, .k = 2},
                            {.kind = Kind::kPerplexity}};
  Case binary = Numbers(v1::BINARY_CROSS_ENTROPY, {1}, {1, -2, 0.5, 0.5, -1},
                        {1, 0, 0, 1, 1});
  binary.options.metrics = {{.kind = Kind::kAccuracy},
                            {.kind = Kind::kAuc},
                            {.kind = Kind::kGroupAuc},
                            {.kind = Kind::kNormalisedEntropy},
                            {.kind = Kind::kCalibration}};
  Case squares =
      Numbers(v1::MEAN_SQUARED_ERROR, {2}, {1, -2, 0.5, 0.5, -1, 2, 3, 4, 0, 1},
              {1, 0, 0, 1, 1, 2, 4, 4, -1, 0});
  squares.options.metrics = {{.kind = Kind::kMeanSquaredError}};
  Case divergence = Numbers(
      v1::KL_DIVERGENCE, {2, 2},
      {1, -2, 0.5, 0.5, -1, 2, 3, 4, 0, 1, 1, 2, 2, 1, 0, 1, 5, 4, 1, 0},
      {0.5,  0.5,  0.25, 0.75, 1, 0, 0,   1,   0.5,  0.5,
       0.25, 0.75, 1,    0,    0, 1, 0.5, 0.5, 0.25, 0.75});
  std::vector<Case> cases = {classes, places, binary, squares, divergence};
  for (Case& one : cases) {
    one.weights = {2, 0, 1, 3, 1};
    one.groups = {7, 7, 8, 8, 7};
  }
  return cases;
}

// The loss is that of repeated examples, but over the number of examples that
// there are; a mean over weights is a mean over repeated ones.
TEST(WeightedLossTest, AWeightCountsAsIfAnExampleWereThereSoOften) {
  for (const Case& one : WeightedCases()) {
    SCOPED_TRACE(v1::Loss_Name(one.options.kind));
    const Metrics found = one.Compute();
    const Metrics wanted = one.Repeated().Compute();
    EXPECT_EQ(found.examples, 5u);
    EXPECT_EQ(wanted.examples, 7u);
    EXPECT_NEAR(found.loss_sum, wanted.loss_sum, 1e-12);
    const auto found_values = found.Values();
    const auto wanted_values = wanted.Values();
    ASSERT_EQ(found_values.size(), one.options.metrics.size() + 1);
    for (size_t i = 1; i < found_values.size(); ++i) {
      EXPECT_NEAR(found_values[i].value, wanted_values[i].value, 1e-12)
          << found_values[i].name;
    }
  }
}

TEST(WeightedLossTest, GradientsAreThoseOfTheWeightedLoss) {
  for (const Case& one : WeightedCases()) {
    SCOPED_TRACE(v1::Loss_Name(one.options.kind));
    one.ExpectGradientsMatchDifferences();
  }
}

TEST(WeightedLossTest, WeightsOfOneChangeNoBit) {
  for (Case one : WeightedCases()) {
    SCOPED_TRACE(v1::Loss_Name(one.options.kind));
    one.weights.assign(5, 1);
    std::vector<double> weighted(one.values.size());
    const Metrics found = one.Compute(one.values, 0.3, &weighted);
    one.weights.clear();
    std::vector<double> plain(one.values.size());
    const Metrics wanted = one.Compute(one.values, 0.3, &plain);
    EXPECT_EQ(weighted, plain);
    const auto found_values = found.Values();
    const auto wanted_values = wanted.Values();
    for (size_t i = 0; i < found_values.size(); ++i) {
      EXPECT_EQ(found_values[i].value, wanted_values[i].value)
          << found_values[i].name;
    }
  }
}

TEST(WeightedLossTest, OfBatchesTheyAddUp) {
  for (const Case& one : WeightedCases()) {
    SCOPED_TRACE(v1::Loss_Name(one.options.kind));
    Metrics sum;
    for (size_t i = 0; i < one.weights.size(); ++i) {
      Case part = one;
      const auto cut = [&](auto* values) {
        const size_t size = values->size() / one.weights.size();
        *values = {values->begin() + i * size,
                   values->begin() + (i + 1) * size};
      };
      cut(&part.values);
      cut(&part.classes);
      cut(&part.numbers);
      cut(&part.weights);
      cut(&part.groups);
      sum += part.Compute();
    }
    const auto found = sum.Values();
    const auto wanted = one.Compute().Values();
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i].value, wanted[i].value, 1e-12) << found[i].name;
    }
  }
}

TEST(WeightedLossTest, WhereAllWeightsAreZeroNoMeanIsKnown) {
  for (Case one : WeightedCases()) {
    SCOPED_TRACE(v1::Loss_Name(one.options.kind));
    one.weights.assign(5, 0);
    std::vector<double> gradient(one.values.size(), kNaN);
    const Metrics metrics = one.Compute(one.values, 1, &gradient);
    EXPECT_EQ(gradient, std::vector<double>(one.values.size(), 0));
    const auto values = metrics.Values();
    EXPECT_EQ(values[0].value, 0);
    for (size_t i = 1; i < values.size(); ++i) {
      EXPECT_TRUE(std::isnan(values[i].value)) << values[i].name;
    }
  }
}

}  // namespace
}  // namespace paramd
