#include "worker/model/model.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/random.h"

namespace paramd {
namespace {

using testing::ElementsAre;

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
      : model(*Model::Create(config, input)) {
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

  BatchResult ComputeGradient(const Batch& batch, float divisor) {
    return model->ComputeGradient(weight_views, batch, divisor, gradient_views);
  }

  std::unique_ptr<Model> model;
  std::vector<std::vector<float>> values, gradients;
  std::vector<absl::Span<const float>> weight_views;
  std::vector<absl::Span<float>> gradient_views;
};

const InputSpec kInput{{2, 3}, 4};

Batch RandomBatch(size_t size, uint64_t seed) {
  RandomStream random(seed);
  Batch batch;
  batch.examples.resize(size * kInput.example_size());
  for (float& value : batch.examples) value = random.Uniform();
  for (size_t i = 0; i < size; ++i) {
    batch.labels.push_back(static_cast<uint32_t>(random.Below(kInput.classes)));
  }
  return batch;
}

std::string Refusal(const v1::ModelConfig& config, const InputSpec& input) {
  const auto model = Model::Create(config, input);
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(model.status().message());
}

TEST(ModelTest, VariablesAreThoseOfTheLayersInOrder) {
  const auto model = *Model::Create(Config({"f", "5", "r", "4"}), kInput);
  std::vector<std::string> names;
  for (const auto& variable : model->variables()) {
    names.push_back(variable.name());
  }
  EXPECT_THAT(names, ElementsAre("dense_1/kernel", "dense_1/bias",
                                 "dense_2/kernel", "dense_2/bias"));
  EXPECT_THAT(model->variables()[0].shape(), ElementsAre(6, 5));
  EXPECT_THAT(model->variables()[2].shape(), ElementsAre(5, 4));
}

TEST(ModelTest, GradientsMatchDifferences) {
  Trained trained(Config({"f", "5", "r", "3", "r", "4"}), kInput);
  const Batch batch = RandomBatch(7, 1);
  const float divisor = 3;
  trained.ComputeGradient(batch, divisor);
  constexpr float kStep = 1.0f / 512;
  for (size_t v = 0; v < trained.values.size(); ++v) {
    for (size_t i = 0; i < trained.values[v].size(); ++i) {
      float& value = trained.values[v][i];
      const float before = value;
      value = before + kStep;
      const double above =
          trained.model->Evaluate(trained.weight_views, batch).loss_sum;
      value = before - kStep;
      const double below =
          trained.model->Evaluate(trained.weight_views, batch).loss_sum;
      value = before;
      EXPECT_NEAR(trained.gradients[v][i],
                  (above - below) / (2 * kStep) / divisor, 2e-3)
          << trained.model->variables()[v].name() << ", element " << i;
    }
  }
}

TEST(ModelTest, TheSameInputsGiveTheSameBitsWhateverCameBefore) {
  const Batch batch = RandomBatch(32, 1);
  Trained first(Config({"f", "64", "r", "4"}), kInput);
  first.ComputeGradient(batch, 32);
  Trained second(Config({"f", "64", "r", "4"}), kInput);
  second.ComputeGradient(RandomBatch(50, 2), 50);
  second.ComputeGradient(RandomBatch(3, 3), 3);
  second.ComputeGradient(batch, 32);
  for (size_t v = 0; v < first.gradients.size(); ++v) {
    EXPECT_EQ(0,
              std::memcmp(first.gradients[v].data(), second.gradients[v].data(),
                          first.gradients[v].size() * sizeof(float)));
  }
}

TEST(ModelTest, EvaluateAgreesWithTheResultOfComputeGradient) {
  Trained trained(Config({"f", "5", "r", "4"}), kInput);
  const Batch batch = RandomBatch(9, 1);
  const BatchResult gradient = trained.ComputeGradient(batch, 9);
  const BatchResult alone =
      trained.model->Evaluate(trained.weight_views, batch);
  EXPECT_EQ(gradient.loss_sum, alone.loss_sum);
  EXPECT_EQ(gradient.correct, alone.correct);
  EXPECT_EQ(alone.examples, 9u);
}

TEST(ModelTest, ABatchWithoutExamplesGivesZeros) {
  Trained trained(Config({"f", "5", "r", "4"}), kInput);
  const BatchResult result = trained.ComputeGradient(Batch(), 32);
  EXPECT_EQ(result.examples, 0u);
  for (const auto& gradient : trained.gradients) {
    EXPECT_THAT(gradient, testing::Each(0.0f));
  }
}

TEST(ModelTest, GradientsAreReadyFromTheLastVariableToTheFirst) {
  Trained trained(Config({"f", "5", "r", "4"}), kInput);
  std::vector<size_t> ready;
  trained.model->ComputeGradient(
      trained.weight_views, RandomBatch(9, 1), 9, trained.gradient_views,
      [&](size_t variable) {
        ready.push_back(variable);
        EXPECT_THAT(trained.gradients[variable],
                    testing::Each(testing::Not(testing::IsNan())));
      });
  EXPECT_THAT(ready, ElementsAre(3, 2, 1, 0));
}

TEST(ModelTest, NoGradientOfALossThatIsNotFiniteIsReady) {
  Trained trained(Config({"f", "5", "r", "4"}), kInput);
  trained.values[3][0] = std::numeric_limits<float>::quiet_NaN();
  trained.model->ComputeGradient(trained.weight_views, RandomBatch(9, 1), 9,
                                 trained.gradient_views,
                                 [](size_t) { FAIL() << "a gradient of NaN"; });
}

TEST(ModelTest, AnAbandonedGradientIsNotComputed) {
  Trained trained(Config({"f", "5", "r", "4"}), kInput);
  std::atomic<bool> abandoned = true;
  trained.model->set_abandoned(&abandoned);
  trained.ComputeGradient(RandomBatch(9, 1), 9);
  for (const auto& gradient : trained.gradients) {
    EXPECT_THAT(gradient, testing::Each(testing::IsNan()));
  }
  abandoned = false;
  trained.ComputeGradient(RandomBatch(9, 1), 9);
  for (const auto& gradient : trained.gradients) {
    EXPECT_THAT(gradient, testing::Each(testing::Not(testing::IsNan())));
  }
}

TEST(ModelTest, ANaNWeightReachesTheLossThroughRelu) {
  Trained trained(Config({"f", "5", "r", "4"}), kInput);
  trained.values[0][0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(
      std::isnan(trained.ComputeGradient(RandomBatch(3, 1), 3).loss_sum));
}

TEST(ModelTest, DenseOnAnInputThatIsNotFlatIsRefused) {
  EXPECT_EQ(Refusal(Config({"10"}), {{28, 28}, 10}),
            "dense layer 'dense_1' needs a flat input; it gets 28x28: put "
            "\"flatten\" before it");
}

TEST(ModelTest, AnOutputThatIsNotFlatIsRefused) {
  EXPECT_EQ(Refusal(Config({"r"}), {{28, 28}, 10}),
            "the loss softmax_cross_entropy needs a flat output; the last "
            "layer 'relu_1' gives 28x28");
}

TEST(ModelTest, FewerOutputsThanClassesAreRefused) {
  EXPECT_EQ(Refusal(Config({"f", "20", "r", "9"}), {{28, 28}, 10}),
            "the last layer 'dense_2' gives 9 values; the input has 10 classes "
            "and needs one each");
}

TEST(ModelTest, ADenseLayerWithoutUnitsIsRefused) {
  EXPECT_EQ(Refusal(Config({"f", "0"}), kInput),
            "dense layer 'dense_1' has no units");
}

TEST(ModelTest, ATooLargeVariableIsRefused) {
  EXPECT_EQ(Refusal(Config({"f", "4000000000"}), {{28, 28}, 10}),
            "dense layer 'dense_1' from 784 to 4000000000 values is too large; "
            "a variable has at most 4294967296");
}

TEST(ModelTest, ALayerWithoutAKindIsRefused) {
  v1::ModelConfig config = Config({"f"});
  config.add_layers();
  EXPECT_EQ(Refusal(config, kInput),
            "layer 2 of the model has no known kind; flatten, dense and relu "
            "are known");
}

TEST(ModelTest, AModelWithoutLayersOrComputationIsRefused) {
  EXPECT_EQ(Refusal(Config({}), kInput), "the model has no layers");
  EXPECT_EQ(Refusal(Config({"f"}), kInput),
            "the model computes nothing; give it at least one dense layer");
}

TEST(ModelTest, AModelWithoutALossIsRefused) {
  v1::ModelConfig config = Config({"f", "4"});
  config.clear_loss();
  EXPECT_EQ(Refusal(config, kInput),
            "the model has no known loss; softmax_cross_entropy is known");
}

TEST(ModelTest, ExamplesThatAreTooLargeOrEmptyAreRefused) {
  EXPECT_EQ(Refusal(Config({"f", "4"}), {{1u << 31, 1u << 31, 16}, 4}),
            "examples of 2147483648x2147483648x16 values can't be trained on");
  EXPECT_EQ(Refusal(Config({"f", "4"}), {{28, 0}, 4}),
            "examples of 28x0 values can't be trained on");
}

}  // namespace
}  // namespace paramd
