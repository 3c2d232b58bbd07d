// A loss over the items of a batch: beside plain sums in float64, what it
// refuses, and what is predicted.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "compute/device/testing/test_device.h"
#include "compute/model/exchange.h"
#include "compute/model/in_batch.h"
#include "compute/model/network.h"
#include "compute/model/network_batch.h"
#include "compute/model/network_plan.h"

namespace paramd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kExamples = 13;
constexpr uint64_t kNumbers = 4;  // Of a user, and of an item.
constexpr uint64_t kWidth = 3;    // Of their vectors.

struct PairsCase {
  std::string name = {};
  double temperature = 1;
  bool corrected = false;
  bool weighted = false;
  uint64_t items = 1000;
};

const std::vector<PairsCase>& PairsCases() {
  static const auto* const cases =
      new std::vector<PairsCase>{{.name = "plain"},
                                 {.name = "hits", .items = 4},
                                 {.name = "cold", .temperature = 0.25},
                                 {.name = "warm", .temperature = 5, .items = 6},
                                 {.name = "corrected", .corrected = true},
                                 {.name = "weighted", .weighted = true},
                                 {.name = "all",
                                  .temperature = 0.5,
                                  .corrected = true,
                                  .weighted = true,
                                  .items = 5}};
  return *cases;
}

InputSpec SpecOf(const PairsCase& one) {
  InputSpec spec{
      {{"x", DType::kFloat32, {2, kNumbers}}, {"item", DType::kInt64, {1}}}};
  if (one.corrected) spec.features.push_back({"count", DType::kFloat32, {1}});
  if (one.weighted) spec.features.push_back({"weight", DType::kFloat32, {}});
  return spec;
}

v1::ModelConfig ConfigOf(const PairsCase& one) {
  v1::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("layers { dense { units: ", kWidth,
                   " } } loss: IN_BATCH_SOFTMAX label: 'item' top_k: 2 "
                   "metrics: [ACCURACY, TOP_K] temperature: ",
                   one.temperature,
                   one.corrected ? " sampling_probability: 'count'" : "",
                   one.weighted ? " example_weight: 'weight'" : ""),
      &config));
  return config;
}

Batch BatchOf(const PairsCase& one, uint64_t examples = kExamples) {
  RandomStream random(3);
  Batch batch;
  batch.Reset(SpecOf(one), examples);
  for (float& value : batch.Find("x")->values<float>()) {
    value = 2 * random.Uniform() - 1;
  }
  for (int64_t& item : batch.Find("item")->values<int64_t>()) {
    item = static_cast<int64_t>(random.Below(one.items) << 40) - 3;
  }
  if (one.corrected) {
    for (float& count : batch.Find("count")->values<float>()) {
      count = static_cast<float>(1 + random.Below(20));
    }
  }
  if (one.weighted) {
    for (float& weight : batch.Find("weight")->values<float>()) {
      weight = 0.5f * static_cast<float>(random.Below(4));
    }
  }
  return batch;
}

struct Pairs {
  explicit Pairs(const PairsCase& one,
                 const Network::MakeDevice& make = MakeTestDevice)
      : model(*Network::Create(ConfigOf(one), SpecOf(one), make)) {
    RandomStream random(5);
    for (const uint64_t size : {kNumbers * kWidth, kWidth}) {
      values.emplace_back(size);
      for (float& value : values.back()) value = 2 * random.Uniform() - 1;
    }
    gradients = values;
    for (const auto& variable : values) weights.emplace_back(variable);
    for (auto& gradient : gradients) spans.push_back(absl::MakeSpan(gradient));
  }

  absl::StatusOr<Metrics> Step(const Batch& batch) {
    return model->Step(weights, batch, {.divisor = kExamples}, spans,
                       [](size_t) {});
  }

  std::unique_ptr<Network> model;
  std::vector<std::vector<float>> values, gradients;
  std::vector<absl::Span<const float>> weights;
  std::vector<absl::Span<float>> spans;
};

// Kernel and bias, in float64.
using Variables = std::vector<std::vector<double>>;

Variables Wide(const std::vector<std::vector<float>>& values) {
  Variables wide;
  for (const auto& one : values) wide.emplace_back(one.begin(), one.end());
  return wide;
}

// Vector `side` of an example, of which there are two.
std::vector<double> VectorOf(const Variables& variables, const Batch& batch,
                             uint64_t example, uint64_t side) {
  const auto x = batch.Find("x")->values<float>().subspan(
      (2 * example + side) * kNumbers, kNumbers);
  std::vector<double> vector = variables[1];
  for (uint64_t i = 0; i < kNumbers; ++i) {
    for (uint64_t w = 0; w < kWidth; ++w) {
      vector[w] += double{x[i]} * variables[0][i * kWidth + w];
    }
  }
  return vector;
}

double ProductOf(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double WeightOf(const Batch& batch, uint64_t example) {
  const Column* const weights = batch.Find("weight");
  return weights == nullptr ? 1 : double{weights->values<float>()[example]};
}

struct Wanted {
  double loss_sum = 0;
  double weight = 0;
  double best = 0;  // Weight of those whose own item is the best of the batch,
  double second = 0;  // or among the best two.
};

Wanted WantedOf(const PairsCase& one, const Variables& variables,
                const Batch& batch) {
  const auto items = batch.Find("item")->values<int64_t>();
  const auto score = [&](uint64_t i, uint64_t j) {
    const double product = ProductOf(VectorOf(variables, batch, i, 0),
                                     VectorOf(variables, batch, j, 1));
    const double count =
        one.corrected ? double{batch.Find("count")->values<float>()[j]} : 1;
    return product / one.temperature - std::log(count);
  };
  Wanted wanted;
  for (uint64_t i = 0; i < batch.size(); ++i) {
    const double own = score(i, i);
    double sum = std::exp(own);
    int above = 0;
    for (uint64_t j = 0; j < batch.size(); ++j) {
      if (items[j] == items[i] || WeightOf(batch, j) == 0) continue;
      sum += std::exp(score(i, j));
      above += score(i, j) > own ? 1 : 0;
    }
    const double weight = WeightOf(batch, i);
    wanted.loss_sum += weight * (std::log(sum) - own);
    wanted.weight += weight;
    if (above == 0) wanted.best += weight;
    if (above < 2) wanted.second += weight;
  }
  return wanted;
}

constexpr double kFloat32 = 0x1p-24;  // What rounding loses, at most.

// How numbers lie in a computation, and how often they are rounded until a
// score is there: a vector's numbers, and what is made of these.
struct Rounding {
  double unit = kFloat32;
  double of_vectors = kNumbers + 1;
  double of_scores = kWidth + 2;
};

// What rounding moves a score by, at most: so many times a unit of the sum of
// the magnitudes that it is made of.
double ScoreError(const PairsCase& one, const Variables& variables,
                  const Batch& batch, const Rounding& rounding) {
  Variables sizes = variables;
  for (auto& variable : sizes) {
    for (double& value : variable) value = std::abs(value);
  }
  Batch positive;
  positive.CopyExamples(batch, 0, batch.size());
  for (float& value : positive.Find("x")->values<float>()) {
    value = std::abs(value);
  }
  double largest = 0;
  for (uint64_t i = 0; i < batch.size(); ++i) {
    for (uint64_t j = 0; j < batch.size(); ++j) {
      largest = std::max(largest, ProductOf(VectorOf(sizes, positive, i, 0),
                                            VectorOf(sizes, positive, j, 1)));
    }
  }
  const double roundings = 2 * rounding.of_vectors + rounding.of_scores;
  double correction = 0;
  if (one.corrected) {
    for (const float count : batch.Find("count")->values<float>()) {
      correction = std::max(correction, std::abs(std::log(double{count})));
    }
  }
  // A correction is rounded once, and once with the product.
  return rounding.unit * roundings * largest / one.temperature +
         2 * kFloat32 * correction;
}

// How far a sum of losses may be off, where each score may be off by so much:
// -log softmax by twice that, and by the roundings of its own sum.
double LossError(const Batch& batch, double score_error) {
  double weight = 0;
  for (uint64_t i = 0; i < batch.size(); ++i) weight += WeightOf(batch, i);
  const auto roundings = static_cast<double>(batch.size()) + 4;
  return weight * (2 * score_error + roundings * kFloat32);
}

// The same of the numbers of a gradient: shares of the softmax are off by a
// factor, and products and sums are rounded as those of scores.
double GradientError(const std::vector<std::vector<float>>& gradients,
                     double score_error, const Rounding& rounding) {
  double largest = 0;
  for (const auto& gradient : gradients) {
    for (const float value : gradient) {
      largest = std::max<double>(largest, std::abs(value));
    }
  }
  const double roundings =
      2 * rounding.of_vectors + rounding.of_scores + kExamples;
  return largest * (2 * score_error + roundings * rounding.unit);
}

using InBatchTest = OnTestDevice;

TEST_F(InBatchTest, LossAndMetricsAreThoseOfPlainSums) {
  for (const PairsCase& one : PairsCases()) {
    SCOPED_TRACE(one.name);
    Pairs pairs(one);
    const Batch batch = BatchOf(one);
    const Wanted wanted = WantedOf(one, Wide(pairs.values), batch);
    const auto stepped = pairs.Step(batch);
    ASSERT_TRUE(stepped.ok()) << stepped.status();
    EXPECT_EQ(stepped->examples, kExamples);
    EXPECT_NEAR(stepped->loss_sum, wanted.loss_sum,
                1e-5 * (10 + wanted.loss_sum));
    const std::vector<NamedValue> values = stepped->Values();
    ASSERT_EQ(values.size(), 3u);
    EXPECT_NEAR(values[0].value, wanted.loss_sum / kExamples, 1e-4);
    EXPECT_EQ(values[1].name, "accuracy");
    EXPECT_NEAR(values[1].value, wanted.best / wanted.weight, 1e-9);
    EXPECT_EQ(values[2].name, "top_2");
    EXPECT_NEAR(values[2].value, wanted.second / wanted.weight, 1e-9);
    const auto evaluated = pairs.model->Evaluate(pairs.weights, batch);
    ASSERT_TRUE(evaluated.ok()) << evaluated.status();
    EXPECT_EQ(evaluated->loss_sum, stepped->loss_sum);
    EXPECT_EQ(evaluated->correct, stepped->correct);
  }
}

TEST_F(InBatchTest, GradientsAreThoseOfPlainSums) {
  constexpr double kStep = 1e-5;
  for (const PairsCase& one : PairsCases()) {
    SCOPED_TRACE(one.name);
    Pairs pairs(one);
    const Batch batch = BatchOf(one);
    ASSERT_TRUE(pairs.Step(batch).ok());
    Variables variables = Wide(pairs.values);
    for (size_t v = 0; v < variables.size(); ++v) {
      for (size_t i = 0; i < variables[v].size(); ++i) {
        const double before = variables[v][i];
        variables[v][i] = before + kStep;
        const double above = WantedOf(one, variables, batch).loss_sum;
        variables[v][i] = before - kStep;
        const double below = WantedOf(one, variables, batch).loss_sum;
        variables[v][i] = before;
        EXPECT_NEAR(double{pairs.gradients[v][i]},
                    (above - below) / (2 * kStep) / kExamples, 1e-4)
            << "variable " << v << ", element " << i;
      }
    }
  }
}

TEST_F(InBatchTest, InTwoBytesTheyAreNear) {
  // Numbers of the input, weights and outputs are rounded to two bytes; sums
  // are of float32.
  for (const auto& [format, unit] :
       {std::pair(ComputeFormat::kBf16, 0x1p-8),
        std::pair(ComputeFormat::kFp16, 0x1p-11)}) {
    const Rounding rounding{.unit = unit, .of_vectors = 3, .of_scores = 0};
    for (const PairsCase& one : PairsCases()) {
      SCOPED_TRACE(one.name);
      const Batch batch = BatchOf(one);
      Pairs wide(one);
      Pairs half(one, [format = format] {
        std::unique_ptr<Device> device = MakeTestDevice();
        device->SetComputeFormat(format);
        return device;
      });
      const auto wanted = wide.Step(batch);
      const auto found = half.Step(batch);
      ASSERT_TRUE(wanted.ok() && found.ok()) << found.status();
      const double off = ScoreError(one, Wide(wide.values), batch, rounding);
      EXPECT_NEAR(found->loss_sum, wanted->loss_sum, LossError(batch, off));
      const double most = GradientError(wide.gradients, off, rounding);
      for (size_t v = 0; v < wide.gradients.size(); ++v) {
        for (size_t i = 0; i < wide.gradients[v].size(); ++i) {
          EXPECT_NEAR(half.gradients[v][i], wide.gradients[v][i], most);
        }
      }
    }
  }
}

TEST_F(InBatchTest, TheSameBatchGivesTheSameBits) {
  const PairsCase& one = PairsCases().back();
  Pairs pairs(one);
  Pairs again(one);
  const Batch batch = BatchOf(one);
  // One that is larger before.
  ASSERT_TRUE(again.Step(BatchOf(one, 40)).ok());
  EXPECT_EQ(pairs.Step(batch)->loss_sum, again.Step(batch)->loss_sum);
  EXPECT_EQ(pairs.gradients, again.gradients);
}

TEST_F(InBatchTest, OnlyTheProportionsOfProbabilitiesMatter) {
  const PairsCase one{.corrected = true};
  Pairs pairs(one);
  Batch batch = BatchOf(one);
  const double loss = pairs.Step(batch)->loss_sum;
  const auto gradients = pairs.gradients;
  double off = ScoreError(one, Wide(pairs.values), batch, {});
  for (float& count : batch.Find("count")->values<float>()) count /= 1024;
  off += ScoreError(one, Wide(pairs.values), batch, {});
  EXPECT_NEAR(pairs.Step(batch)->loss_sum, loss, LossError(batch, off));
  const double most = GradientError(gradients, off, {});
  for (size_t i = 0; i < gradients[0].size(); ++i) {
    EXPECT_NEAR(pairs.gradients[0][i], gradients[0][i], most);
  }
}

TEST_F(InBatchTest, AnExampleOfWeightZeroIsAsIfItWereNotThere) {
  const PairsCase one{.weighted = true};
  Pairs pairs(one);
  Batch batch = BatchOf(one);
  const auto weights = batch.Find("weight")->values<float>();
  std::fill(weights.begin(), weights.end(), 1.0f);
  std::fill(weights.begin() + 8, weights.end(), 0.0f);
  const double loss = pairs.Step(batch)->loss_sum;
  const auto gradients = pairs.gradients;
  Batch others;
  others.CopyExamples(batch, 0, 8);
  const auto alone = pairs.Step(others);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->examples, 8u);
  // Both are off.
  const double off = 2 * ScoreError(one, Wide(pairs.values), batch, {});
  EXPECT_NEAR(alone->loss_sum, loss, LossError(batch, off));
  const double most = GradientError(gradients, off, {});
  for (size_t i = 0; i < gradients[0].size(); ++i) {
    EXPECT_NEAR(pairs.gradients[0][i], gradients[0][i], most);
  }
}

TEST_F(InBatchTest, OneExampleTeachesNothing) {
  const PairsCase one;
  Pairs pairs(one);
  const auto metrics = pairs.Step(BatchOf(one, 1));
  ASSERT_TRUE(metrics.ok()) << metrics.status();
  EXPECT_EQ(metrics->loss_sum, 0);
  EXPECT_EQ(metrics->examples, 1u);
  for (const auto& gradient : pairs.gradients) {
    EXPECT_THAT(gradient, ::testing::Each(0));
  }
}

TEST_F(InBatchTest, AWeightThatIsNotFiniteShowsInTheLoss) {
  for (const float bad :
       {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    const PairsCase one;
    Pairs pairs(one);
    pairs.values[0][1] = bad;
    EXPECT_FALSE(std::isfinite(pairs.Step(BatchOf(one))->loss_sum));
  }
}

TEST_F(InBatchTest, APredictionIsTheProductOfThePair) {
  const PairsCase one = PairsCases().back();
  Pairs pairs(one);
  const Batch batch = BatchOf(one);
  // It needs neither items nor what is said of them.
  Batch alone;
  alone.Reset({{SpecOf(one).features[0]}}, batch.size());
  const auto from = batch.Find("x")->values<float>();
  std::copy(from.begin(), from.end(), alone.Find("x")->values<float>().begin());
  Batch out;
  const absl::Status predicted =
      pairs.model->Predict(pairs.weights, alone, &out);
  ASSERT_TRUE(predicted.ok()) << predicted;
  ASSERT_EQ(out.columns.size(), 1u);
  EXPECT_EQ(out.columns[0].name(), "prediction");
  const auto scores = out.columns[0].values<float>();
  ASSERT_EQ(scores.size(), kExamples);
  const Variables variables = Wide(pairs.values);
  const double off = ScoreError({}, variables, batch, {});
  for (uint64_t i = 0; i < kExamples; ++i) {
    EXPECT_NEAR(double{scores[i]},
                ProductOf(VectorOf(variables, batch, i, 0),
                          VectorOf(variables, batch, i, 1)),
                off);
  }
}

TEST_F(InBatchTest, AProcessorsMemoryMustHoldTheScoresOfABatch) {
  EXPECT_TRUE(CheckScoresFit(65536, /*training=*/true, 0).ok());
  EXPECT_TRUE(CheckScoresFit(1000, /*training=*/true, 8000000).ok());
  EXPECT_TRUE(CheckScoresFit(1001, /*training=*/false, 8000000).ok());
  const absl::Status refused =
      CheckScoresFit(65536, /*training=*/true, uint64_t{8} << 30);
  EXPECT_EQ(refused,
            absl::ResourceExhaustedError(
                "a batch of 65536 examples needs 32768 MiB for the scores of "
                "in_batch_softmax, each example's with each item; this process "
                "may have 8192 MiB in all, in which those of 32768 would fit"));
  // More than any machine has, before anything of it is made.
  const PairsCase one;
  Pairs pairs(one, nullptr);
  Batch batch;
  batch.Reset(SpecOf(one), uint64_t{1} << 20);
  const absl::Status stepped = pairs.Step(batch).status();
  EXPECT_TRUE(absl::IsResourceExhausted(stepped)) << stepped;
  EXPECT_THAT(std::string(stepped.message()),
              HasSubstr("a batch of 1048576 examples needs 8388608 MiB for the "
                        "scores of in_batch_softmax"));
}

TEST_F(InBatchTest, AFactorOfNoughtWouldLeaveEachExampleOut) {
  const PairsCase one;
  const auto plan = *PlanNetwork(ConfigOf(one), SpecOf(one));
  const Batch batch = BatchOf(one);
  std::vector<float> values(kExamples * 2 * kWidth, 0.5f);
  const std::unique_ptr<Device> device = MakeTestDevice();
  Exchange exchange(device.get(), plan->variables.size());
  const Tensor outputs = {
      values.data(), DType::kFloat32, {kExamples, 2, kWidth}};
  EXPECT_DEATH(exchange.ComputeLoss(*plan, outputs, TargetsOf(*plan, batch),
                                    /*scale=*/0, /*gradient=*/{}),
               "an example whose factor is 0 is no negative of others");
}

TEST_F(InBatchTest, AProbabilityWithoutALogarithmIsNamedByExample) {
  const PairsCase one{.corrected = true};
  Pairs pairs(one);
  for (const auto& [count, text] :
       {std::pair(0.0f, "0"), std::pair(-2.0f, "-2"),
        std::pair(std::nanf(""), "nan"),
        std::pair(std::numeric_limits<float>::infinity(), "inf")}) {
    Batch batch = BatchOf(one);
    batch.Find("count")->values<float>()[2] = count;
    const absl::Status stepped = pairs.Step(batch).status();
    EXPECT_TRUE(absl::IsDataLoss(stepped)) << stepped;
    EXPECT_THAT(std::string(stepped.message()),
                HasSubstr(absl::StrCat(
                    "example 2 of the batch: the sampling probability 'count' "
                    "is ",
                    text, "; it must be a finite number above 0")));
    EXPECT_EQ(pairs.model->Evaluate(pairs.weights, batch).status(), stepped);
  }
}

// What is said of a model that can't be.
std::string Refused(const v1::ModelConfig& config, const InputSpec& spec) {
  const auto made = Network::Create(config, spec, MakeTestDevice);
  EXPECT_TRUE(absl::IsInvalidArgument(made.status())) << made.status();
  return std::string(made.status().message());
}

TEST_F(InBatchTest, OutputsThatAreNoPairsAreRefused) {
  const PairsCase one;
  for (const auto& [dims, text] :
       {std::pair(Dims{3, kNumbers}, "gives 3x3"),
        std::pair(Dims{kNumbers}, "gives 3"),
        std::pair(Dims{2, 2, kNumbers}, "gives 2x2x3")}) {
    InputSpec spec = SpecOf(one);
    spec.features[0].dims = dims;
    const std::string refused = Refused(ConfigOf(one), spec);
    EXPECT_THAT(refused, HasSubstr("needs two vectors of one length for each "
                                   "example, 2x16 say"));
    EXPECT_THAT(refused, HasSubstr(text));
  }
}

TEST_F(InBatchTest, ALabelThatIsNoItemIsRefused) {
  const PairsCase one;
  const auto with = [&](const FeatureSpec& label) {
    InputSpec spec = SpecOf(one);
    spec.features[1] = label;
    return Refused(ConfigOf(one), spec);
  };
  EXPECT_EQ(with({"other", DType::kInt64, {}}),
            "the loss reads the feature 'item'; the input has 'x', 'other'");
  EXPECT_THAT(with({"item", DType::kInt32, {}, 9}),
              AllOf(HasSubstr("needs one int64 as the label"),
                    HasSubstr("the stage \"cast\" makes an int64 of it")));
  EXPECT_THAT(
      with({"item", DType::kInt64, {2}}),
      AllOf(HasSubstr("needs one int64 as the label"), HasSubstr("hash_keys")));
  EXPECT_THAT(with({"item", DType::kFloat32, {}}),
              HasSubstr("needs one int64 as the label"));
}

TEST_F(InBatchTest, WhatCantBeAProbabilityIsRefused) {
  const PairsCase one{.corrected = true};
  const auto with = [&](const FeatureSpec& count) {
    InputSpec spec = SpecOf(one);
    spec.features[2] = count;
    return Refused(ConfigOf(one), spec);
  };
  EXPECT_EQ(with({"other", DType::kFloat32, {}}),
            "sampling_probability is the feature 'count'; the input has 'x', "
            "'item', 'other': csv.features make one of a column");
  EXPECT_EQ(with({"count", DType::kFloat32, {2}}),
            "sampling_probability needs one float32 for each example; 'count' "
            "is float32 of 2");
  EXPECT_THAT(with({"count", DType::kInt32, {}, 9}),
              HasSubstr("the stage \"cast\" makes a float32 of it"));
}

TEST_F(InBatchTest, WhatIsOfClassesOrOfOneModelIsRefused) {
  const PairsCase one;
  v1::ModelConfig smoothed = ConfigOf(one);
  smoothed.set_label_smoothing(0.1);
  EXPECT_THAT(Refused(smoothed, SpecOf(one)),
              HasSubstr("are of softmax_cross_entropy; the loss is "
                        "in_batch_softmax"));
  v1::ModelConfig ignoring = ConfigOf(one);
  ignoring.set_ignore_label(-1);
  EXPECT_EQ(Refused(ignoring, SpecOf(one)),
            "label_smoothing, class_weights and ignore_label are of "
            "softmax_cross_entropy; the loss is in_batch_softmax");
  v1::ModelConfig area = ConfigOf(one);
  area.add_metrics(v1::ModelConfig::AUC);
  EXPECT_THAT(Refused(area, SpecOf(one)),
              HasSubstr("the metric auc can't be had of the loss "
                        "in_batch_softmax"));
  v1::ModelConfig several = ConfigOf(one);
  v1::ModelConfig::Output* const output = several.add_outputs();
  output->set_name("chosen");
  output->set_label("item");
  output->set_loss(several.loss());
  EXPECT_EQ(Refused(several, SpecOf(one)),
            "the output 'chosen': the loss in_batch_softmax is of a model with "
            "one loss: give it as the model's, without outputs");
}

}  // namespace
}  // namespace paramd
