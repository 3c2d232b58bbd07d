// Networks with several outputs, each with a loss of its own.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "base/random.h"
#include "compute/device/testing/test_device.h"
#include "compute/model/network.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using OutputsTest = OnTestDevice;
using Json = nlohmann::json;

constexpr uint64_t kWidth = 5;

const InputSpec kTasks{{FeatureSpec{"x", DType::kFloat32, {kWidth}},
                        FeatureSpec{"click", DType::kFloat32, {}},
                        FeatureSpec{"stars", DType::kInt32, {}, 3},
                        FeatureSpec{"weight", DType::kFloat32, {}},
                        FeatureSpec{"user", DType::kInt64, {}}}};

constexpr char kShared[] =
    "layers { dense { units: 6 name: 'shared' } } layers { tanh {} } ";
constexpr char kClick[] =
    "{ name: 'click' label: 'click' loss: BINARY_CROSS_ENTROPY "
    "  layers { dense { units: 3 name: 'a' } } layers { tanh {} } "
    "  layers { dense { units: 1 name: 'b' } } "
    "  metrics: [ACCURACY, AUC, GROUP_AUC] group: 'user' ";
constexpr char kStars[] =
    "{ name: 'stars' label: 'stars' loss: SOFTMAX_CROSS_ENTROPY "
    "  layers { dense { units: 3 name: 'c' } } metrics: [ACCURACY, TOP_K] "
    "  top_k: 2 ";

v1::ModelConfig Parsed(const std::string& text) {
  v1::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config))
      << text;
  return config;
}

std::string Both(const std::string& of_click = "",
                 const std::string& of_stars = "") {
  return std::string(kShared) + "outputs " + kClick + of_click + "} outputs " +
         kStars + of_stars + "}";
}

Batch SomeBatch(uint64_t size, uint64_t seed = 3) {
  RandomStream random(seed);
  Batch batch;
  batch.Reset(kTasks, size);
  batch.range = {.epoch = 1, .begin = 0, .end = size};
  for (float& value : batch.Find("x")->values<float>()) {
    value = random.Uniform() - 0.5f;
  }
  for (uint64_t i = 0; i < size; ++i) {
    batch.Find("click")->values<float>()[i] =
        static_cast<float>(random.Below(2));
    batch.Find("stars")->values<int32_t>()[i] =
        static_cast<int32_t>(random.Below(3));
    batch.Find("weight")->values<float>()[i] =
        static_cast<float>(random.Below(4)) / 2;
    batch.Find("user")->values<int64_t>()[i] =
        static_cast<int64_t>(random.Below(2));
  }
  return batch;
}

// A network with values that follow from the variables' names.
struct Made {
  explicit Made(const std::string& text, const InputSpec& input = kTasks)
      : model(*Network::Create(Parsed(text), input, MakeTestDevice)) {
    for (const v1::Variable& variable : model->variables()) {
      size_t size = 1;
      for (const uint64_t dimension : variable.shape()) size *= dimension;
      RandomStream random(StableHash(variable.name(), 1));
      for (float& value : values.emplace_back(size)) {
        value = 2 * random.Uniform() - 1;
      }
      gradients.emplace_back(size, std::numeric_limits<float>::quiet_NaN());
    }
    for (const auto& one : values) views.emplace_back(one);
    for (auto& one : gradients) spans.push_back(absl::MakeSpan(one));
  }

  absl::StatusOr<Metrics> Step(const Batch& batch) {
    return model->Step(views, batch,
                       {.divisor = static_cast<double>(batch.size())}, spans,
                       [](size_t) {});
  }
  Metrics Evaluate(const Batch& batch) {
    return *model->Evaluate(views, batch);
  }
  // By name; empty if there is none.
  std::vector<float> GradientOf(const std::string& name) const {
    for (size_t v = 0; v < gradients.size(); ++v) {
      if (model->variables()[v].name() == name) return gradients[v];
    }
    return {};
  }

  std::unique_ptr<Network> model;
  std::vector<std::vector<float>> values, gradients;
  std::vector<absl::Span<const float>> views;
  std::vector<absl::Span<float>> spans;
};

std::map<std::string, double> ValuesOf(const Metrics& metrics) {
  std::map<std::string, double> values;
  for (const NamedValue& value : metrics.Values()) {
    values[value.name] = value.value;
  }
  return values;
}

// The same layers with one of the losses, as a model with one output has it.
std::string Alone(bool click, const std::string& more = "") {
  return std::string(kShared) + "input: 'x' " +
         (click ? "label: 'click' loss: BINARY_CROSS_ENTROPY "
                  "layers { dense { units: 3 name: 'a' } } layers { tanh {} } "
                  "layers { dense { units: 1 name: 'b' } } "
                  "metrics: [ACCURACY, AUC, GROUP_AUC] group: 'user' "
                : "label: 'stars' loss: SOFTMAX_CROSS_ENTROPY "
                  "layers { dense { units: 3 name: 'c' } } "
                  "metrics: [ACCURACY, TOP_K] top_k: 2 ") +
         more;
}

TEST_F(OutputsTest, TheLossIsTheWeightedSumOfThatOfEach) {
  const Batch batch = SomeBatch(9);
  for (const bool weighted : {false, true}) {
    const std::string example_weight =
        weighted ? "example_weight: 'weight' " : "";
    Made both(Both("weight: 0.25", "weight: 3") + "input: 'x' " +
              example_weight);
    Made click(Alone(true, example_weight));
    Made stars(Alone(false, example_weight));
    const Metrics metrics = *both.Step(batch);
    const Metrics of_click = *click.Step(batch);
    const Metrics of_stars = *stars.Step(batch);
    EXPECT_EQ(metrics.examples, 9u);
    EXPECT_NEAR(metrics.loss_sum,
                0.25 * of_click.loss_sum + 3 * of_stars.loss_sum, 1e-5);
    for (const char* const name :
         {"shared/kernel", "shared/bias", "a/kernel", "a/bias", "b/kernel",
          "b/bias", "c/kernel", "c/bias"}) {
      const std::vector<float> found = both.GradientOf(name);
      const std::vector<float> one = click.GradientOf(name);
      const std::vector<float> other = stars.GradientOf(name);
      ASSERT_FALSE(found.empty()) << name;
      for (size_t i = 0; i < found.size(); ++i) {
        const double wanted = (one.empty() ? 0 : 0.25 * double{one[i]}) +
                              (other.empty() ? 0 : 3 * double{other[i]});
        EXPECT_NEAR(found[i], wanted, 1e-5) << name << ", element " << i;
      }
    }
  }
}

TEST_F(OutputsTest, EachHasTheMetricsThatItHasAlone) {
  const Batch batch = SomeBatch(20);
  for (const bool weighted : {false, true}) {
    const std::string more = weighted ? "example_weight: 'weight' " : "";
    Made both(Both() + "input: 'x' " + more);
    const auto found = ValuesOf(both.Evaluate(batch));
    const auto click = ValuesOf(Made(Alone(true, more)).Evaluate(batch));
    const auto stars = ValuesOf(Made(Alone(false, more)).Evaluate(batch));
    EXPECT_EQ(found.size(), 1 + click.size() + stars.size());
    for (const auto& [name, value] : click) {
      EXPECT_NEAR(found.at("click/" + name), value, 1e-6) << name;
    }
    for (const auto& [name, value] : stars) {
      EXPECT_NEAR(found.at("stars/" + name), value, 1e-6) << name;
    }
    EXPECT_NEAR(found.at("loss"), click.at("loss") + stars.at("loss"), 1e-6);
    EXPECT_THAT(both.model->metrics(),
                ElementsAre("click/loss", "click/accuracy", "click/auc",
                            "click/group_auc", "stars/loss", "stars/accuracy",
                            "stars/top_2"));
  }
}

TEST_F(OutputsTest, BatchesAddUpToTheWhole) {
  Made both(Both() + "input: 'x' example_weight: 'weight'");
  const Batch batch = SomeBatch(20);
  Metrics sum;
  for (uint64_t i = 0; i < 20; i += 7) {
    Batch part;
    part.CopyExamples(batch, i, std::min<uint64_t>(20, i + 7));
    sum += both.Evaluate(part);
  }
  const auto found = ValuesOf(sum);
  for (const auto& [name, value] : ValuesOf(both.Evaluate(batch))) {
    EXPECT_NEAR(found.at(name), value, 1e-6) << name;
  }
}

TEST_F(OutputsTest, AnOutputMayHaveWeightsOfItsOwn) {
  Batch batch = SomeBatch(6);
  Made both(Both("", "example_weight: 'weight'") + "input: 'x'");
  const auto weights = batch.Find("weight")->values<float>();
  std::fill(weights.begin(), weights.end(), 0.0f);
  auto found = ValuesOf(*both.Step(batch));
  EXPECT_GT(found.at("click/loss"), 0);
  EXPECT_EQ(found.at("stars/loss"), 0);
  EXPECT_THAT(both.GradientOf("c/kernel"), ::testing::Each(0));
  weights[4] = -1;
  EXPECT_THAT(std::string(both.Step(batch).status().message()),
              HasSubstr("the weight 'weight' is -1; it must be a finite "
                        "number from 0 on"));
}

TEST_F(OutputsTest, AnExampleCountsIfAnyOutputHasALabelForIt) {
  Batch batch = SomeBatch(6);
  Made stars(std::string(kShared) + "input: 'x' outputs " + kStars +
             "ignore_label: -1 } outputs { name: 'again' label: 'stars' "
             "loss: SOFTMAX_CROSS_ENTROPY ignore_label: 2 "
             "layers { dense { units: 3 name: 'c' } } }");
  const std::vector<int32_t> labels = {-1, 2, 0, -1, 1, 2};
  // One for which both know nothing, is not counted; here there is none.
  std::copy(labels.begin(), labels.end(),
            batch.Find("stars")->values<int32_t>().begin());
  EXPECT_TRUE(absl::IsDataLoss(stars.Step(batch).status()));
  Made first(std::string(kShared) + "input: 'x' outputs " + kStars +
             "ignore_label: -1 } outputs { name: 'again' label: 'stars' "
             "loss: SOFTMAX_CROSS_ENTROPY ignore_label: -1 "
             "layers { dense { units: 3 name: 'c' } } }");
  EXPECT_EQ(first.Step(batch)->examples, 4u);
  EXPECT_EQ(first.model->CountedExamples(batch), 4u);
  Made both(Both("", "ignore_label: -1") + "input: 'x'");
  const Metrics metrics = *both.Step(batch);
  EXPECT_EQ(metrics.examples, 6u);
  EXPECT_EQ(metrics.outputs[1].examples, 4u);
  EXPECT_EQ(both.model->CountedExamples(batch), 6u);
}

TEST_F(OutputsTest, APredictionHasAColumnForEach) {
  const Batch batch = SomeBatch(4);
  Made both(Both() + "input: 'x'");
  Batch out, click, stars;
  ASSERT_TRUE(both.model->Predict(both.views, batch, &out).ok());
  Made alone(Alone(true));
  ASSERT_TRUE(alone.model->Predict(alone.views, batch, &click).ok());
  Made other(Alone(false));
  ASSERT_TRUE(other.model->Predict(other.views, batch, &stars).ok());
  ASSERT_EQ(out.columns.size(), 2u);
  EXPECT_EQ(out.columns[0].name(), "click");
  EXPECT_EQ(out.columns[1].name(), "stars");
  const auto expect_near = [](const Column& found, const Column& wanted) {
    const auto values = found.values<float>();
    ASSERT_EQ(values.size(), wanted.values<float>().size());
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(values[i], wanted.values<float>()[i], 1e-6);
    }
  };
  expect_near(out.columns[0], click.columns[0]);
  expect_near(out.columns[1], stars.columns[0]);
}

// Bottom without a head's layers, and one output alone.
TEST_F(OutputsTest, AnOutputWithoutLayersIsWhatTheModelGives) {
  const InputSpec two{{kTasks.features[0], kTasks.features[2]}};
  Made made(
      "layers { dense { units: 3 name: 'c' } } outputs { name: 'stars' "
      "label: 'stars' loss: SOFTMAX_CROSS_ENTROPY }",
      two);
  Made alone(
      "layers { dense { units: 3 name: 'c' } } label: 'stars' "
      "loss: SOFTMAX_CROSS_ENTROPY",
      two);
  const Batch batch = SomeBatch(6);
  EXPECT_EQ(made.Step(batch)->loss_sum, alone.Step(batch)->loss_sum);
  EXPECT_EQ(made.gradients, alone.gradients);
  EXPECT_THAT(made.model->metrics(),
              ElementsAre("stars/loss", "stars/accuracy"));
}

// ---- a mixture of experts ---------------------------------------------------

constexpr char kMixture[] = R"(
  input: "x" example_weight: ""
  layers { dense { units: 6 } } layers { tanh {} }
  layers { mixture { gates: 2
    experts { layers { dense { units: 4 } } layers { tanh {} } }
    experts { layers { dense { units: 4 } } layers { tanh {} } }
    experts { layers { dense { units: 4 } } layers { tanh {} } } } }
  outputs { name: "click" label: "click" loss: BINARY_CROSS_ENTROPY
    example_weight: "weight"
    layers { select { begin: 0 count: 1 } } layers { flatten {} }
    layers { dense { units: 3 } } layers { tanh {} }
    layers { dense { units: 1 } } }
  outputs { name: "stars" label: "stars" loss: SOFTMAX_CROSS_ENTROPY
    weight: 0.5
    layers { select { begin: 1 count: 1 } } layers { flatten {} }
    layers { dense { units: 3 } } })";

void ExpectNear(absl::Span<const float> found, const Json& wanted,
                const std::string& what) {
  ASSERT_EQ(found.size(), wanted.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], wanted[i].get<double>(), 2e-6)
        << what << ", element " << i;
  }
}

// outputs_vectors.py has made the numbers.
TEST_F(OutputsTest, LossGradientsAndPredictionsArePyTorchs) {
  std::ifstream file("compute/model/outputs_vectors.json");
  const Json json = Json::parse(file);
  const size_t examples = json["click"].size();
  Made made(kMixture);
  for (size_t v = 0; v < made.values.size(); ++v) {
    const std::string& name = made.model->variables()[v].name();
    ASSERT_TRUE(json["variables"].contains(name)) << name;
    const auto values = json["variables"][name].get<std::vector<float>>();
    ASSERT_EQ(values.size(), made.values[v].size()) << name;
    std::copy(values.begin(), values.end(), made.values[v].begin());
  }
  Batch batch = SomeBatch(examples);
  const auto fill = [&](const std::string& name, auto zero) {
    const auto values = json[name].get<std::vector<decltype(zero)>>();
    std::copy(values.begin(), values.end(),
              batch.Find(name)->values<decltype(zero)>().begin());
  };
  fill("x", 0.0f);
  fill("click", 0.0f);
  fill("stars", int32_t{0});
  fill("weight", 0.0f);
  const auto found = ValuesOf(*made.Step(batch));
  EXPECT_NEAR(found.at("loss"), json["loss"].get<double>(), 2e-6);
  EXPECT_NEAR(found.at("click/loss"), json["click_loss"].get<double>(), 2e-6);
  EXPECT_NEAR(found.at("stars/loss"), json["stars_loss"].get<double>(), 2e-6);
  EXPECT_EQ(json["gradients"].size(), made.gradients.size());
  for (size_t v = 0; v < made.gradients.size(); ++v) {
    const std::string& name = made.model->variables()[v].name();
    ExpectNear(made.gradients[v], json["gradients"][name], name);
  }
  Batch out;
  ASSERT_TRUE(made.model->Predict(made.views, batch, &out).ok());
  ExpectNear(out.columns[0].values<float>(), json["click_prediction"], "click");
  ExpectNear(out.columns[1].values<float>(), json["stars_prediction"], "stars");
}

TEST_F(OutputsTest, GradientsOfAMixtureMatchDifferences) {
  Made made(kMixture);
  const Batch batch = SomeBatch(5);
  ASSERT_TRUE(made.Step(batch).ok());
  constexpr float kStep = 1.0f / 256;
  for (size_t v = 0; v < made.values.size(); ++v) {
    for (size_t i = 0; i < made.values[v].size(); ++i) {
      float& value = made.values[v][i];
      const float before = value;
      const auto at = [&](float there) {
        value = there;
        return made.Evaluate(batch).loss_sum;
      };
      const double difference =
          (at(before + kStep) - at(before - kStep)) / (2 * kStep);
      value = before;
      EXPECT_NEAR(made.gradients[v][i], difference / 5, 2e-3)
          << made.model->variables()[v].name() << ", element " << i;
    }
  }
}

// ---- what is refused --------------------------------------------------------

TEST_F(OutputsTest, WhatDoesNotFitIsNamedWithItsOutput) {
  const auto refused = [](const std::string& text) {
    return std::string(
        Network::Create(Parsed(text + " input: 'x'"), kTasks, MakeTestDevice)
            .status()
            .message());
  };
  const std::string shared = kShared;
  EXPECT_EQ(refused(Both() + "outputs " + kStars + "}"),
            "two outputs of the model are called 'stars'");
  EXPECT_EQ(refused(shared + "outputs { name: 'buy' loss: MEAN_SQUARED_ERROR "
                             "layers { dense { units: 1 } } }"),
            "the output 'buy': it has no label");
  EXPECT_EQ(refused(shared + "outputs { name: 'buy' label: 'click' "
                             "layers { dense { units: 1 } } }"),
            "the output 'buy': it has no known loss");
  EXPECT_EQ(refused(shared + "outputs { name: 'buy' label: 'bought' "
                             "loss: MEAN_SQUARED_ERROR "
                             "layers { dense { units: 1 } } }"),
            "the output 'buy': the loss reads the feature 'bought'; the input "
            "has 'x', 'click', 'stars', 'weight', 'user'");
  EXPECT_EQ(refused(Both("", "layers { dense { units: 2 name: 'd' } }")),
            "the output 'stars': the last layer 'd' gives 2 values; the input "
            "has 3 classes and needs one each");
  EXPECT_EQ(refused(shared + "outputs { name: 'click' label: 'click' "
                             "loss: BINARY_CROSS_ENTROPY }"),
            "the output 'click': the loss binary_cross_entropy needs a float32 "
            "label of one number for each output; the last layer 'branch' "
            "gives 6 and the label 'click' is float32 of a single value");
  EXPECT_EQ(refused(Both("", "metrics: MSE")),
            "the output 'stars': the metric mse can't be had of the loss "
            "softmax_cross_entropy over 3 outputs");
  EXPECT_THAT(
      refused(Both("", "example_weight: 'stars'")),
      HasSubstr("the output 'stars': example_weight needs one float32"));
  EXPECT_THAT(refused(Both() + "layers { mixture { gates: 2 "
                               "experts { layers { dense { units: 2 } } } "
                               "experts { layers { dense { units: 3 } } } } }"),
              HasSubstr("adds 3 values of expert 2 to 2 of expert 1"));
}

TEST_F(OutputsTest, ALabelOutOfRangeIsNamedWithItsOutput) {
  Batch batch = SomeBatch(3);
  batch.Find("click")->values<float>()[1] = 2;
  EXPECT_THAT(
      std::string(Made(Both() + "input: 'x'").Step(batch).status().message()),
      HasSubstr("the output 'click': example"));
}

}  // namespace
}  // namespace paramd
