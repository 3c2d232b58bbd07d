#include "compute/model/network.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "compute/device/testing/test_device.h"

namespace paramd {
namespace {

// Of sums of some tens of floats, relative to the largest of them.
constexpr double kRoundings = 64 * std::numeric_limits<float>::epsilon();

using ::testing::ElementsAre;
using ::testing::FloatEq;

using NetworkTest = OnTestDevice;

// "f": flatten, "r": relu, a number: dense.
v1::ModelConfig Config(const std::vector<std::string>& layers) {
  v1::ModelConfig config;
  config.set_loss(v1::SOFTMAX_CROSS_ENTROPY);
  for (const std::string& text : layers) {
    v1::Layer* layer = config.add_layers();
    if (text == "f") {
      layer->mutable_flatten();
    } else if (text == "r") {
      layer->mutable_relu();
    } else {
      layer->mutable_dense()->set_units(
          static_cast<uint32_t>(std::stoul(text)));
    }
  }
  return config;
}

// A model with random weights.
struct Trained {
  Trained(const v1::ModelConfig& config, const InputSpec& input)
      : model(*Network::Create(config, input, MakeTestDevice)) {
    RandomStream random(5);
    for (const v1::Variable& variable : model->variables()) {
      size_t size = 1;
      for (const uint64_t dimension : variable.shape()) size *= dimension;
      values.emplace_back(size);
      for (float& value : values.back()) value = random.Uniform() - 0.5f;
      gradients.emplace_back(size, std::numeric_limits<float>::quiet_NaN());
    }
    for (auto& one : values) weight_views.emplace_back(one);
    for (auto& one : gradients) {
      gradient_views.push_back(absl::MakeSpan(one));
    }
  }

  Metrics Step(
      const Batch& batch, double divisor,
      TrainedModel::Ready ready = [](size_t) {}) {
    return *model->Step(weight_views, batch,
                        {.divisor = divisor, .abandoned = abandoned},
                        gradient_views, ready);
  }

  Metrics Evaluate(const Batch& batch) {
    return *model->Evaluate(weight_views, batch);
  }

  std::unique_ptr<Network> model;
  const std::atomic<bool>* abandoned = nullptr;
  std::vector<std::vector<float>> values, gradients;
  std::vector<absl::Span<const float>> weight_views;
  std::vector<absl::Span<float>> gradient_views;
};

const InputSpec kInput = LabelledImages({2, 3}, 4);

Batch RandomBatch(size_t size, uint64_t seed) {
  RandomStream random(seed);
  Batch batch;
  batch.Reset(kInput, size);
  for (float& value : batch.Find("image")->values<float>()) {
    value = random.Uniform();
  }
  for (int32_t& label : batch.Find("label")->values<int32_t>()) {
    label = static_cast<int32_t>(random.Below(4));
  }
  return batch;
}

std::string Refusal(const v1::ModelConfig& config, const InputSpec& input) {
  const auto model = Network::Create(config, input, MakeTestDevice);
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(model.status().message());
}

TEST_F(NetworkTest, VariablesAreThoseOfTheLayersInOrder) {
  const auto model = *Network::Create(Config({"f", "5", "r", "4"}), kInput);
  std::vector<std::string> names;
  for (const auto& variable : model->variables()) {
    names.push_back(variable.name());
  }
  EXPECT_THAT(names, ElementsAre("dense_1/kernel", "dense_1/bias",
                                 "dense_2/kernel", "dense_2/bias"));
  EXPECT_THAT(model->variables()[0].shape(), ElementsAre(6, 5));
  EXPECT_THAT(model->variables()[2].shape(), ElementsAre(5, 4));
}

TEST_F(NetworkTest, KernelsAndBiasesBeginAsTheModelSays) {
  // Two inputs, three outputs; the kernel inside of a residual has three and
  // three.
  const auto limits = [](v1::ModelConfig::KernelInitializer kind) {
    v1::ModelConfig config = Config({"f", "3"});
    config.add_layers()
        ->mutable_residual()
        ->add_layers()
        ->mutable_dense()
        ->set_units(3);
    config.set_kernel_initializer(kind);
    const auto model =
        Network::Create(config, LabelledImages({1, 2}, 3), MakeTestDevice);
    std::vector<float> highs;
    for (const v1::Variable& variable : (*model)->variables()) {
      const v1::Initializer& initializer = variable.initializer();
      EXPECT_EQ(initializer.low(), -initializer.high());
      highs.push_back(initializer.high());
    }
    return highs;
  };
  const auto near = [](float square) { return FloatEq(std::sqrt(square)); };
  using Model = v1::ModelConfig;
  for (const auto kind :
       {Model::KERNEL_INITIALIZER_UNSPECIFIED, Model::GLOROT_UNIFORM}) {
    EXPECT_THAT(limits(kind),
                ElementsAre(near(6.0f / 5), 0, near(6.0f / 6), 0));
  }
  EXPECT_THAT(limits(Model::HE_UNIFORM),
              ElementsAre(near(6.0f / 2), 0, near(6.0f / 3), 0));
  EXPECT_THAT(limits(Model::LECUN_UNIFORM),
              ElementsAre(near(3.0f / 2), 0, near(3.0f / 3), 0));
  EXPECT_THAT(limits(Model::PYTORCH),
              ElementsAre(near(1.0f / 2), near(1.0f / 2), near(1.0f / 3),
                          near(1.0f / 3)));
}

TEST_F(NetworkTest, GradientsMatchDifferences) {
  Trained trained(Config({"f", "5", "r", "3", "r", "4"}), kInput);
  const Batch batch = RandomBatch(7, 1);
  const float divisor = 3;
  trained.Step(batch, divisor);
  constexpr float kStep = 1.0f / 512;
  for (size_t v = 0; v < trained.values.size(); ++v) {
    for (size_t i = 0; i < trained.values[v].size(); ++i) {
      float& value = trained.values[v][i];
      const float before = value;
      value = before + kStep;
      const double above = trained.Evaluate(batch).loss_sum;
      value = before - kStep;
      const double below = trained.Evaluate(batch).loss_sum;
      value = before;
      EXPECT_NEAR(trained.gradients[v][i],
                  (above - below) / (2 * kStep) / divisor, 2e-3)
          << trained.model->variables()[v].name() << ", element " << i;
    }
  }
}

TEST_F(NetworkTest, TheSameInputsGiveTheSameBitsWhateverCameBefore) {
  const Batch batch = RandomBatch(32, 1);
  Trained first(Config({"f", "64", "r", "4"}), kInput);
  first.Step(batch, 32);
  Trained second(Config({"f", "64", "r", "4"}), kInput);
  second.Step(RandomBatch(50, 2), 50);
  second.Step(RandomBatch(3, 3), 3);
  second.Step(batch, 32);
  for (size_t v = 0; v < first.gradients.size(); ++v) {
    EXPECT_EQ(0,
              std::memcmp(first.gradients[v].data(), second.gradients[v].data(),
                          first.gradients[v].size() * sizeof(float)));
  }
}

TEST_F(NetworkTest, EvaluateAgreesWithTheResultOfAStep) {
  Trained trained(Config({"f", "5", "r", "4"}), kInput);
  const Batch batch = RandomBatch(9, 1);
  const Metrics gradient = trained.Step(batch, 9);
  const Metrics alone = trained.Evaluate(batch);
  EXPECT_EQ(gradient.loss_sum, alone.loss_sum);
  EXPECT_EQ(gradient.correct, alone.correct);
  EXPECT_EQ(alone.examples, 9u);
}

TEST_F(NetworkTest, ABatchWithoutExamplesGivesZeros) {
  Trained trained(Config({"f", "5", "r", "4"}), kInput);
  const Metrics result = trained.Step(Batch(), 32);
  EXPECT_EQ(result.examples, 0u);
  for (const auto& gradient : trained.gradients) {
    EXPECT_THAT(gradient, ::testing::Each(0.0f));
  }
}

TEST_F(NetworkTest, GradientsAreReadyFromTheLastVariableToTheFirst) {
  Trained trained(Config({"f", "5", "r", "4"}), kInput);
  std::vector<size_t> ready;
  trained.Step(RandomBatch(9, 1), 9, [&](size_t variable) {
    ready.push_back(variable);
    EXPECT_THAT(trained.gradients[variable],
                ::testing::Each(::testing::Not(::testing::IsNan())));
  });
  EXPECT_THAT(ready, ElementsAre(3, 2, 1, 0));
}

TEST_F(NetworkTest, NoGradientOfALossThatIsNotFiniteIsReady) {
  Trained trained(Config({"f", "5", "r", "4"}), kInput);
  trained.values[3][0] = std::numeric_limits<float>::quiet_NaN();
  trained.Step(RandomBatch(9, 1), 9,
               [](size_t) { FAIL() << "a gradient of NaN"; });
}

TEST_F(NetworkTest, AnAbandonedGradientIsNotComputed) {
  Trained trained(Config({"f", "5", "r", "4"}), kInput);
  std::atomic<bool> abandoned = true;
  trained.abandoned = &abandoned;
  trained.Step(RandomBatch(9, 1), 9);
  for (const auto& gradient : trained.gradients) {
    EXPECT_THAT(gradient, ::testing::Each(::testing::IsNan()));
  }
  abandoned = false;
  trained.Step(RandomBatch(9, 1), 9);
  for (const auto& gradient : trained.gradients) {
    EXPECT_THAT(gradient, ::testing::Each(::testing::Not(::testing::IsNan())));
  }
}

TEST_F(NetworkTest, ANaNWeightReachesTheLossThroughRelu) {
  Trained trained(Config({"f", "5", "r", "4"}), kInput);
  trained.values[0][0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(trained.Step(RandomBatch(3, 1), 3).loss_sum));
}

TEST_F(NetworkTest, MorePlacesThanLabelsAreRefused) {
  EXPECT_EQ(Refusal(Config({"10"}), LabelledImages({28, 28}, 10)),
            "the loss softmax_cross_entropy needs an int32 label, and for each "
            "of its numbers one output per class; the last layer 'dense_1' "
            "gives 28x10 and the label 'label' is int32 of a single value: put "
            "\"flatten\" before it");
}

TEST_F(NetworkTest, AnOutputThatIsNotFlatIsRefused) {
  EXPECT_EQ(Refusal(Config({"r"}), LabelledImages({28, 28}, 10)),
            "the loss softmax_cross_entropy needs an int32 label, and for each "
            "of its numbers one output per class; the last layer 'relu_1' "
            "gives 28x28 and the label 'label' is int32 of a single value: put "
            "\"flatten\" before it");
}

TEST_F(NetworkTest, FewerOutputsThanClassesAreRefused) {
  EXPECT_EQ(
      Refusal(Config({"f", "20", "r", "9"}), LabelledImages({28, 28}, 10)),
      "the last layer 'dense_2' gives 9 values; the input has 10 classes "
      "and needs one each");
}

TEST_F(NetworkTest, AnInputWithoutItsFeaturesIsRefused) {
  InputSpec unlabelled = kInput;
  unlabelled.features.pop_back();
  EXPECT_EQ(Refusal(Config({"f", "4"}), unlabelled),
            "the loss reads the feature 'label'; the input has 'image'");
  InputSpec unread = kInput;
  unread.features.erase(unread.features.begin());
  EXPECT_EQ(Refusal(Config({"f", "4"}), unread),
            "the input has no feature but 'label' that the model could read");
  InputSpec two = kInput;
  two.features.push_back(FeatureSpec{.name = "depth", .dims = {2}});
  EXPECT_EQ(Refusal(Config({"f", "4"}), two),
            "the model reads one feature; the input has 'image', 'label', "
            "'depth': name one of them by \"input\", or one in each branch");
  v1::ModelConfig other = Config({"f", "4"});
  other.set_input("depht");
  EXPECT_EQ(Refusal(other, two),
            "the model reads the feature 'depht'; the input has 'image', "
            "'label', 'depth'");
  InputSpec bytes = kInput;
  bytes.features[0].dtype = DType::kUInt8;
  EXPECT_EQ(Refusal(Config({"f", "4"}), bytes),
            "the model reads the feature 'image' of uint8; it needs float32, "
            "int32 below a number that the input states, or int64 for an "
            "embedding with a capacity");
  InputSpec real = kInput;
  real.features[1].dtype = DType::kFloat32;
  EXPECT_EQ(Refusal(Config({"f", "4"}), real),
            "the loss softmax_cross_entropy needs an int32 label, and for each "
            "of its numbers one output per class; the last layer 'dense_1' "
            "gives 4 and the label 'label' is float32 of a single value: say "
            "how many classes it has (csv.classes), or make an int32 of it by "
            "the stage \"cast\"");
}

TEST_F(NetworkTest, ADenseLayerWithoutUnitsIsRefused) {
  EXPECT_EQ(Refusal(Config({"f", "0"}), kInput),
            "dense layer 'dense_1' has no units");
}

TEST_F(NetworkTest, ATooLargeVariableIsRefused) {
  EXPECT_EQ(Refusal(Config({"f", "4000000000"}), LabelledImages({28, 28}, 10)),
            "dense layer 'dense_1' from 784 to 4000000000 values is too large; "
            "it may have up to 2147483647 weights, and outputs of one example");
}

TEST_F(NetworkTest, ALayerWithoutAKindIsRefused) {
  v1::ModelConfig config = Config({"f"});
  config.add_layers();
  EXPECT_EQ(Refusal(config, kInput), "layer 2 of the model has no known kind");
}

TEST_F(NetworkTest, AModelWithoutLayersOrComputationIsRefused) {
  EXPECT_EQ(Refusal(Config({}), kInput), "the model has no layers");
  EXPECT_EQ(Refusal(Config({"f"}), kInput),
            "the model computes nothing; give it at least one dense layer");
}

TEST_F(NetworkTest, AModelWithoutALossIsRefused) {
  v1::ModelConfig config = Config({"f", "4"});
  config.clear_loss();
  EXPECT_EQ(Refusal(config, kInput), "the model has no known loss");
}

TEST_F(NetworkTest, ExamplesThatAreTooLargeOrOfAnyLengthAreRefused) {
  EXPECT_EQ(
      Refusal(Config({"f", "4"}), LabelledImages({1u << 31, 1u << 31, 16}, 4)),
      "examples of 2147483648x2147483648x16 values can't be trained on");
  EXPECT_EQ(Refusal(Config({"f", "4"}), LabelledImages({28, 0}, 4)),
            "the model reads the feature 'image', which has another length in "
            "each batch; it needs one: give padded_batch a length, or use pad");
}

v1::ModelConfig Parsed(const std::string& layers) {
  v1::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(layers, &config));
  config.set_loss(v1::SOFTMAX_CROSS_ENTROPY);
  return config;
}

constexpr char kShared[] = R"(
    layers { flatten {} } layers { dense { units: 6 name: "shared" } }
    layers { tanh {} } layers { dense { units: 6 name: "shared" } }
    layers { dense { units: 4 } })";

TEST_F(NetworkTest, LayersOfOneNameShareTheirVariables) {
  Trained trained(Parsed(kShared), kInput);
  std::vector<std::string> names;
  for (const auto& variable : trained.model->variables()) {
    names.push_back(variable.name());
  }
  EXPECT_THAT(names, ElementsAre("shared/kernel", "shared/bias",
                                 "dense_3/kernel", "dense_3/bias"));
  const Batch batch = RandomBatch(5, 1);
  std::vector<size_t> ready;
  trained.Step(batch, 5, [&](size_t variable) { ready.push_back(variable); });
  EXPECT_THAT(ready, ElementsAre(3, 2, 1, 0));
  constexpr float kStep = 1.0f / 512;
  for (size_t i = 0; i < trained.values[0].size(); ++i) {
    float& value = trained.values[0][i];
    const float before = value;
    value = before + kStep;
    const double above = trained.Evaluate(batch).loss_sum;
    value = before - kStep;
    const double below = trained.Evaluate(batch).loss_sum;
    value = before;
    EXPECT_NEAR(trained.gradients[0][i], (above - below) / (2 * kStep) / 5,
                2e-3);
  }
  EXPECT_EQ(trained.model->cost().parameters, 42u + 28u);
}

TEST_F(NetworkTest, ASharedVariableOfTwoShapesIsRefused) {
  EXPECT_EQ(Refusal(Parsed(R"(layers { flatten {} }
                              layers { dense { units: 5 name: "shared" } }
                              layers { dense { units: 4 name: "shared" } })"),
                    kInput),
            "the shared variable 'shared/kernel' is 6x5 in one layer and 5x4 "
            "in another");
}

TEST_F(NetworkTest, WhatIsDroppedIsTheSameHoweverTheExamplesAreDividedUp) {
  const auto config = Parsed(R"(
      layers { flatten {} } layers { dense { units: 40 } }
      layers { dropout { rate: 0.5 } } layers { dense { units: 4 } })");
  Batch all = RandomBatch(8, 1);
  all.range = {.epoch = 2, .begin = 16, .end = 24};
  Trained whole(config, kInput);
  const Metrics metrics = whole.Step(all, 8);
  std::vector<double> sums(whole.gradients[0].size());
  Metrics parts;
  for (uint64_t begin = 0; begin < 8; begin += 4) {
    Batch part;
    part.Reset(kInput, 4);
    part.range = {.epoch = 2, .begin = 16 + begin, .end = 20 + begin};
    for (const char* name : {"image", "label"}) {
      const size_t bytes = part.Find(name)->tensor().size() * 4;
      std::memcpy(part.Find(name)->tensor().data,
                  static_cast<std::byte*>(all.Find(name)->tensor().data) +
                      begin / 4 * bytes,
                  bytes);
    }
    Trained half(config, kInput);
    parts += half.Step(part, 8);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += half.gradients[0][i];
  }
  EXPECT_NEAR(parts.loss_sum, metrics.loss_sum, kRoundings * metrics.loss_sum);
  double largest = 0;
  for (const auto sum : sums)
    largest = std::max<double>(largest, std::abs(sum));
  for (size_t i = 0; i < sums.size(); ++i) {
    EXPECT_NEAR(sums[i], whole.gradients[0][i], kRoundings * largest);
  }
  all.range.epoch = 3;
  EXPECT_NE(whole.Step(all, 8).loss_sum, metrics.loss_sum);
}

// Example i of a batch, alone in one.
Batch Only(const Batch& batch, uint64_t i) {
  Batch only;
  only.Reset(kInput, 1);
  only.range = batch.range;
  only.offsets = {batch.offsets[i]};
  for (const char* name : {"image", "label"}) {
    const size_t bytes = only.Find(name)->tensor().size() * 4;
    std::memcpy(only.Find(name)->tensor().data,
                static_cast<const std::byte*>(batch.Find(name)->tensor().data) +
                    i * bytes,
                bytes);
  }
  return only;
}

TEST_F(NetworkTest, WhatIsDroppedBehindAFilterFollowsThePlaceOfTheExample) {
  const auto config = Parsed(R"(
      layers { flatten {} } layers { dense { units: 40 } }
      layers { dropout { rate: 0.5 } } layers { dense { units: 4 } })");
  // A filter left out 17, 18 and 20 of [16, 24).
  Batch batch = RandomBatch(5, 1);
  batch.range = {.epoch = 2, .begin = 16, .end = 24};
  batch.offsets = {16, 19, 21, 22, 23};
  Trained whole(config, kInput);
  const double loss = whole.Step(batch, 5).loss_sum;
  double sum = 0;
  for (uint64_t i = 0; i < 5; ++i) {
    Batch only = Only(batch, i);
    // Another cut of the epoch.
    only.range = {.epoch = 2, .begin = batch.offsets[i], .end = 24};
    sum += Trained(config, kInput).Step(only, 5).loss_sum;
  }
  EXPECT_NEAR(sum, loss, kRoundings * loss);
  batch.offsets = {16, 17, 18, 19, 20};
  EXPECT_NE(whole.Step(batch, 5).loss_sum, loss);
}

TEST_F(NetworkTest, ACloneGivesTheSameBits) {
  Trained trained(Config({"f", "5", "r", "4"}), kInput);
  const Batch batch = RandomBatch(9, 1);
  const double loss = trained.Step(batch, 9).loss_sum;
  const auto clone = trained.model->Clone();
  EXPECT_EQ(clone->Evaluate(trained.weight_views, batch)->loss_sum, loss);
}

TEST_F(NetworkTest, PredictionsAreProbabilitiesInTheOrderOfTheBatch) {
  Trained trained(Config({"f", "5", "r", "4"}), kInput);
  Batch out;
  ASSERT_TRUE(
      trained.model->Predict(trained.weight_views, RandomBatch(3, 1), &out)
          .ok());
  ASSERT_NE(out.Find("prediction"), nullptr);
  const auto values = out.Find("prediction")->values<float>();
  ASSERT_EQ(values.size(), 12u);
  for (size_t i = 0; i < 12; i += 4) {
    EXPECT_NEAR(values[i] + values[i + 1] + values[i + 2] + values[i + 3], 1,
                1e-6);
  }
}

TEST_F(NetworkTest, ALabelOutOfRangeIsRefusedAndNothingIsReady) {
  Trained trained(Config({"f", "4"}), kInput);
  Batch batch = RandomBatch(3, 1);
  batch.Find("label")->values<int32_t>()[1] = 4;
  const auto result = trained.model->Step(
      trained.weight_views, batch, {.divisor = 3}, trained.gradient_views,
      [](size_t) { FAIL() << "a gradient of a batch that does not fit"; });
  EXPECT_EQ(result.status(),
            absl::DataLossError("example 1 of the batch: the label is 4; it "
                                "must be from 0 to 3"));
}

TEST_F(NetworkTest, AnExampleOfFilesIsRefusedByItsPlaceInThem) {
  class Rows : public ExampleNames {
    std::string Where(uint64_t index) const override {
      return "'train.csv' line " + std::to_string(index);
    }
  };
  const Rows rows;
  Trained trained(Config({"f", "4"}), kInput);
  Batch batch = RandomBatch(3, 1);
  batch.indices = {7, 9, 8};
  batch.names = &rows;
  batch.Find("label")->values<int32_t>()[1] = -1;
  EXPECT_EQ(trained.model->Evaluate(trained.weight_views, batch).status(),
            absl::DataLossError("'train.csv' line 9: the label is -1; it must "
                                "be from 0 to 3"));
}

TEST_F(NetworkTest, LayersThatDoNotFitAreNamed) {
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"layers { flatten {} } layers { conv2d { filters: 3 kernel: 3 stride: 1 "
       "groups: 1 } }",
       "conv2d layer 'conv2d_1' needs an image [height, width, channels] or "
       "[height, width]; it gets 6"},
      {"layers { max_pool { size: 3 } }",
       "max_pool layer 'max_pool_1' needs an image of at least 3x3; it gets "
       "2x3"},
      {"layers { conv2d { filters: 4 kernel: 1 stride: 1 groups: 2 } }",
       "conv2d layer 'conv2d_1' needs channels and filters (4) that are "
       "multiples of its 2 groups; it gets 2x3"},
      {"layers { attention { heads: 2 } }",
       "attention layer 'attention_1' needs values that are a multiple of its "
       "2 heads; it gets 2x3"},
      {"layers { embedding { width: 3 } }",
       "embedding layer 'embedding_1' needs integers below a number that the "
       "input states; it gets 2x3"},
      {"layers { reshape { dims: 7 } }",
       "reshape layer 'reshape_1' needs 7, the same number of values; it gets "
       "2x3"},
      {"layers { flatten {} } layers { residual { layers { dense { units: 5 } "
       "} } }",
       "residual layer 'residual_1' adds 5 of its layers to 6 of its input: "
       "give it a \"shortcut\" that changes the one to the other"},
  };
  for (const auto& [layers, sentence] : refused) {
    EXPECT_EQ(Refusal(Parsed(layers), kInput), sentence);
  }
}

TEST_F(NetworkTest, AMetricOfAnotherLossIsRefused) {
  v1::ModelConfig config = Config({"f", "4"});
  config.add_metrics(v1::ModelConfig::MSE);
  EXPECT_EQ(Refusal(config, kInput),
            "the metric mse can't be had of the loss softmax_cross_entropy "
            "over 4 outputs");
}

TEST_F(NetworkTest, IntegersAreEmbedded) {
  InputSpec text{
      {FeatureSpec{
           .name = "text", .dtype = DType::kInt32, .dims = {3}, .classes = 5},
       FeatureSpec{.name = "label",
                   .dtype = DType::kInt32,
                   .dims = {3},
                   .classes = 5}}};
  EXPECT_EQ(Refusal(Parsed("layers { dense { units: 5 } }"), text),
            "dense layer 'dense_1' needs numbers; it gets integers of 3: put "
            "\"embedding\" before \"dense\"");
  Trained trained(Parsed(R"(layers { embedding { width: 8 } }
                            layers { positional_embedding {} }
                            layers { attention { heads: 2 causal: true } }
                            layers { layer_norm { epsilon: 1e-5 } }
                            layers { dense { units: 5 } })"),
                  text);
  Batch batch;
  batch.Reset(text, 2);
  for (Column& column : batch.columns) {
    for (int32_t& value : column.values<int32_t>()) value = 4;
  }
  EXPECT_EQ(trained.Step(batch, 2).labels, 6u);
  batch.columns[0].values<int32_t>()[4] = 5;
  EXPECT_EQ(
      trained.model->Evaluate(trained.weight_views, batch).status().message(),
      "example 1 of the batch: the feature 'text' has 5; it must be "
      "from 0 to 4, or the embedding that reads it have more \"rows\"");
}

TEST_F(NetworkTest, ATestSetOfFewerClassesIsEvaluatedAndPredicted) {
  const auto text = [](uint32_t classes) {
    return InputSpec{{FeatureSpec{.name = "text",
                                  .dtype = DType::kInt32,
                                  .dims = {3},
                                  .classes = classes},
                      FeatureSpec{.name = "label",
                                  .dtype = DType::kInt32,
                                  .dims = {3},
                                  .classes = classes}}};
  };
  Trained trained(Parsed(R"(layers { embedding { width: 8 } }
                            layers { dense { units: 5 } })"),
                  text(5));
  Batch batch;
  batch.Reset(text(4), 2);
  for (Column& column : batch.columns) {
    for (int32_t& value : column.values<int32_t>()) value = 3;
  }
  EXPECT_EQ(trained.Evaluate(batch).labels, 6u);
  Batch out;
  EXPECT_EQ(trained.model->Predict(trained.weight_views, batch, &out),
            absl::OkStatus());
}

// Two numbers, a click and a group.
const InputSpec kGrouped = {
    {{.name = "x", .dims = {2}},
     {.name = "label", .dims = {}},
     {.name = "group", .dtype = DType::kInt64, .dims = {}}}};

v1::ModelConfig GroupedConfig() {
  v1::ModelConfig config = Config({"1"});
  config.set_loss(v1::BINARY_CROSS_ENTROPY);
  config.add_metrics(v1::ModelConfig::GROUP_AUC);
  config.add_metrics(v1::ModelConfig::AUC);
  return config;
}

TEST_F(NetworkTest, AnAreaOverGroupsReadsTheirFeature) {
  Trained trained(GroupedConfig(), kGrouped);
  EXPECT_THAT(trained.model->metrics(), ElementsAre("group_auc", "auc"));
  EXPECT_THAT(trained.model->variables()[0].shape(), ElementsAre(2, 1));
  Batch batch;
  batch.Reset(kGrouped, 4);
  const std::vector<float> x = {1, 0, 2, 0, 3, 0, 4, 0};
  std::copy(x.begin(), x.end(), batch.columns[0].values<float>().begin());
  const std::vector<float> clicks = {0, 1, 0, 1};
  std::copy(clicks.begin(), clicks.end(),
            batch.columns[1].values<float>().begin());
  const std::vector<int64_t> groups = {5, 5, -9, 5};
  std::copy(groups.begin(), groups.end(),
            batch.columns[2].values<int64_t>().begin());
  trained.values[0] = {1, 0};
  const auto values = trained.Evaluate(batch).Values();
  ASSERT_EQ(values.size(), 3u);
  EXPECT_EQ(values[1].value, 1) << "the third is of another group";
  EXPECT_EQ(values[2].value, 0.75);
  EXPECT_TRUE(trained.Step(batch, 4).groups.empty());
  Batch predicted;
  EXPECT_TRUE(
      trained.model->Predict(trained.weight_views, batch, &predicted).ok());
}

TEST_F(NetworkTest, ARecallReadsTheGroupsFeatureAndHasAK) {
  v1::ModelConfig config = GroupedConfig();
  config.clear_metrics();
  config.add_metrics(v1::ModelConfig::RECALL_AT_K);
  config.set_top_k(2);
  Trained trained(config, kGrouped);
  EXPECT_THAT(trained.model->metrics(), ElementsAre("recall_at_2"));
  Batch batch;
  batch.Reset(kGrouped, 4);
  const std::vector<float> x = {1, 0, 2, 0, 3, 0, 4, 0};
  std::copy(x.begin(), x.end(), batch.columns[0].values<float>().begin());
  const std::vector<float> clicks = {1, 1, 0, 0};
  std::copy(clicks.begin(), clicks.end(),
            batch.columns[1].values<float>().begin());
  const std::vector<int64_t> groups = {5, 5, -9, 5};
  std::copy(groups.begin(), groups.end(),
            batch.columns[2].values<int64_t>().begin());
  trained.values[0] = {1, 0};
  const auto values = trained.Evaluate(batch).Values();
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(values[1].value, 0.5) << "of group 5 the second of two";
  EXPECT_TRUE(trained.Step(batch, 4).groups.empty());
  config.set_group("user");
  EXPECT_EQ(Refusal(config, kGrouped),
            "the metric recall_at_k reads the feature 'user'; the input has "
            "'x', 'label', 'group': csv.group makes one of a column");
}

TEST_F(NetworkTest, EntropyAndCalibrationAreOfWhatIsEvaluated) {
  v1::ModelConfig config = GroupedConfig();
  config.clear_metrics();
  config.add_metrics(v1::ModelConfig::NORMALISED_ENTROPY);
  config.add_metrics(v1::ModelConfig::CALIBRATION);
  const InputSpec spec = {{kGrouped.features[0], kGrouped.features[1]}};
  Trained trained(config, spec);
  EXPECT_THAT(trained.model->metrics(),
              ElementsAre("normalised_entropy", "calibration"));
  Batch batch;
  batch.Reset(spec, 2);
  for (Column& column : batch.columns) {
    for (float& value : column.values<float>()) value = 0;
  }
  batch.columns[1].values<float>()[0] = 1;
  trained.values = {{1, 1}, {0}};  // Which makes one half of zeros.
  const auto values = trained.Evaluate(batch).Values();
  ASSERT_EQ(values.size(), 3u);
  EXPECT_NEAR(values[1].value, 1, 1e-6);
  EXPECT_NEAR(values[2].value, 1, 1e-6);
  config.set_loss(v1::MEAN_SQUARED_ERROR);
  EXPECT_EQ(Refusal(config, spec),
            "the metric normalised_entropy can't be had of the loss "
            "mean_squared_error over 1 outputs");
}

TEST_F(NetworkTest, AGroupThatIsNotThereIsNamed) {
  v1::ModelConfig config = GroupedConfig();
  config.set_group("user");
  EXPECT_EQ(Refusal(config, kGrouped),
            "the metric group_auc reads the feature 'user'; the input has 'x', "
            "'label', 'group': csv.group makes one of a column");
  config.set_group("label");
  EXPECT_EQ(Refusal(config, kGrouped),
            "the metric group_auc needs one int64 for each example; 'label' is "
            "float32 of a single value");
  config.clear_group();
  config.set_loss(v1::MEAN_SQUARED_ERROR);
  config.clear_metrics();
  config.add_metrics(v1::ModelConfig::GROUP_AUC);
  EXPECT_EQ(Refusal(config, kGrouped),
            "the metric group_auc can't be had of the loss mean_squared_error "
            "over 1 outputs");
  // Where no metric asks for them, groups are a feature as others.
  config = GroupedConfig();
  config.clear_metrics();
  EXPECT_EQ(Refusal(config, kGrouped),
            "the model reads one feature; the input has 'x', 'label', 'group': "
            "name one of them by \"input\", or one in each branch");
}

}  // namespace
}  // namespace paramd
