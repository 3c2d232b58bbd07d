#include "compute/model/quantization_aware.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "checkpoint/checkpoint_weights.h"
#include "checkpoint/quantization.h"
#include "compute/device/cpu_device.h"
#include "compute/model/network.h"
#include "compute/quantized/quantize.h"
#include "compute/quantized/quantized_network.h"
#include "input/batch.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using Weights = std::vector<std::vector<float>>;

constexpr uint64_t kExamples = 96;
constexpr uint64_t kClasses = 4;

// With a batch norm that is folded, a pool, and integers handed on.
v1::ModelConfig ConvolutionsOf(uint32_t bits) {
  v1::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        layers { reshape { dims: [ 6, 6, 4 ] } }
        layers {
          conv2d {
            filters: 8
            kernel: 3
            stride: 1
            groups: 1
            padding: SAME
            bias: true
          }
        }
        layers { batch_norm { epsilon: 1e-5 momentum: 0.8 } }
        layers { relu {} }
        layers { max_pool { size: 2 padding: VALID } }
        layers { flatten {} }
        layers { dense { units: 16 } }
        layers { tanh {} }
        layers { dense { units: 4 } }
        loss: SOFTMAX_CROSS_ENTROPY
      )pb",
      &config));
  auto& aware = *config.mutable_quantization_aware();
  aware.set_weight_bits(bits);
  aware.set_momentum(0.8);
  aware.set_begin_step(5);
  return config;
}

InputSpec Spec() { return LabelledImages({144}, kClasses); }

// Each class is a picture of its own, under noise.
Batch Images(uint64_t seed) {
  RandomStream pictures(1);
  std::vector<float> classes(kClasses * 144);
  for (float& value : classes) value = pictures.Uniform();
  RandomStream random(seed);
  Batch batch;
  batch.Reset(Spec(), kExamples);
  batch.range = {.epoch = 1, .begin = 0, .end = kExamples};
  auto images = batch.columns[0].values<float>();
  auto labels = batch.columns[1].values<int32_t>();
  for (uint64_t i = 0; i < kExamples; ++i) {
    labels[i] = static_cast<int32_t>(random.Below(kClasses));
    for (uint64_t j = 0; j < 144; ++j) {
      images[i * 144 + j] =
          classes[labels[i] * 144 + j] + 1.5f * random.Uniform();
    }
  }
  return batch;
}

std::vector<absl::Span<const float>> Spans(const Weights& weights) {
  return {weights.begin(), weights.end()};
}

// As the servers begin.
Weights FirstWeights(const std::vector<v1::Variable>& variables) {
  RandomStream random(3);
  Weights weights;
  for (const v1::Variable& variable : variables) {
    uint64_t size = 1;
    for (const uint64_t dimension : variable.shape()) size *= dimension;
    auto& values = weights.emplace_back(size);
    const v1::Initializer& initial = variable.initializer();
    for (float& value : values) {
      value =
          initial.low() + (initial.high() - initial.low()) * random.Uniform();
    }
  }
  return weights;
}

// Steps of plain descent.
Weights Trained(TrainedModel* model, int steps, float learning_rate = 0.1f) {
  Weights weights = FirstWeights(model->variables());
  Weights gradients = weights;
  for (int step = 0; step < steps; ++step) {
    const Batch batch = Images(10 + step);
    const auto metrics = model->Step(
        Spans(weights), batch, {.divisor = kExamples, .seed = 1},
        std::vector<absl::Span<float>>(gradients.begin(), gradients.end()),
        [](size_t) {});
    EXPECT_TRUE(metrics.ok()) << metrics.status();
    for (size_t v = 0; v < weights.size(); ++v) {
      const float rate = model->variables()[v].untrained() ? 1 : learning_rate;
      for (size_t i = 0; i < weights[v].size(); ++i) {
        weights[v][i] -= rate * gradients[v][i];
      }
    }
  }
  return weights;
}

std::vector<float> Predictions(const Weights& weights, const Batch& batch,
                               TrainedModel* model) {
  Batch out;
  const absl::Status predicted = model->Predict(Spans(weights), batch, &out);
  EXPECT_TRUE(predicted.ok()) << predicted;
  const auto values = out.columns.front().values<float>();
  return {values.begin(), values.end()};
}

uint64_t ClassOf(const std::vector<float>& predictions, uint64_t example) {
  const auto begin = predictions.begin() + example * kClasses;
  return std::max_element(begin, begin + kClasses) - begin;
}

// What the quantised checkpoint predicts.
std::vector<float> PredictedByIntegers(
    const v1::ModelConfig& config, const std::vector<v1::Variable>& variables,
    const Quantized& made, const Batch& batch) {
  const std::string directory = ::testing::TempDir() + "aware";
  std::filesystem::remove_all(directory);
  v1::Manifest manifest;
  manifest.mutable_snapshot()->set_term(1);
  for (const v1::Variable& variable : variables) {
    *manifest.add_variables() = variable;
  }
  const auto bytes =
      WriteQuantized(directory, manifest, made.quantization, made.tensors);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  const auto weights = ReadWeights(directory, variables, 1, {});
  EXPECT_TRUE(weights.ok()) << weights.status();
  const auto opened = OpenQuantized(config, Spec(), directory, Spans(*weights));
  EXPECT_TRUE(opened.ok()) << opened.status();
  return Predictions(*weights, batch, opened->get());
}

// The sums are added in another order and rounded there, so a number between
// two layers may be a level apart where it is near the middle of two: of 256
// levels, each of which a few hundred numbers share.
TEST(QuantizationAwareTest, IntegersPredictWhatTrainingEvaluates) {
  for (const uint32_t bits : {8u, 4u}) {
    SCOPED_TRACE(bits);
    const v1::ModelConfig config = ConvolutionsOf(bits);
    auto model = Network::Create(config, Spec());
    ASSERT_TRUE(model.ok()) << model.status();
    const Weights weights = Trained(model->get(), 60);
    const Batch batch = Images(1000);
    const std::vector<float> wanted = Predictions(weights, batch, model->get());
    const auto made = Quantize(config, Spec(), Spans(weights), {});
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->quantization.observer, "learned in training");
    EXPECT_EQ(made->quantization.most_weight, MostOfBits(bits));
    const std::vector<float> found =
        PredictedByIntegers(config, (*model)->variables(), *made, batch);
    ASSERT_EQ(found.size(), wanted.size());
    uint64_t right = 0;
    for (uint64_t i = 0; i < kExamples; ++i) {
      EXPECT_EQ(ClassOf(found, i), ClassOf(wanted, i)) << i;
      right += ClassOf(found, i) ==
               static_cast<uint64_t>(batch.columns[1].values<int32_t>()[i]);
    }
    EXPECT_GT(right, kExamples * 9 / 10);  // It has learned.
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], wanted[i], 0.02) << i;
    }
    // Not what is computed without rounding.
    v1::ModelConfig plain = config;
    plain.clear_quantization_aware();
    auto rounded = Network::Create(plain, Spec());
    ASSERT_TRUE(rounded.ok());
    Weights without;
    for (size_t v = 0; v < weights.size(); ++v) {
      const std::string& name = (*model)->variables()[v].name();
      if (name.find("input_range") == std::string::npos) {
        without.push_back(weights[v]);
      }
    }
    EXPECT_NE(Predictions(without, batch, rounded->get()), wanted);
  }
}

// Inside of other layers, and in attention, weights and inputs are not rounded
// in training: so they are not in what is made of it.
TEST(QuantizationAwareTest, WhatTrainingDoesNotRoundStaysInFloat) {
  v1::ModelConfig config;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        layers { reshape { dims: [ 9, 16 ] } }
        layers { attention { heads: 2 } }
        layers { flatten {} }
        layers { dense { units: 16 } }
        layers { relu {} }
        layers {
          residual {
            layers { dense { units: 16 } }
            layers { batch_norm { epsilon: 1e-5 momentum: 0.8 } }
          }
        }
        layers { dense { units: 4 } }
        loss: SOFTMAX_CROSS_ENTROPY
        quantization_aware { weight_bits: 8 momentum: 0.8 }
      )pb",
      &config));
  auto model = Network::Create(config, Spec());
  ASSERT_TRUE(model.ok()) << model.status();
  const Weights weights = Trained(model->get(), 20, 0.005f);
  const auto made = Quantize(config, Spec(), Spans(weights), {});
  ASSERT_TRUE(made.ok()) << made.status();
  std::vector<std::string> integers;
  for (const auto& layer : made->quantization.layers) {
    integers.push_back(layer.name);
  }
  EXPECT_THAT(integers, ::testing::ElementsAre("dense_1", "dense_3"));
  std::vector<std::string> left;
  for (const auto& one : made->quantization.left) {
    left.push_back(one.name);
    EXPECT_EQ(one.why,
              "quantization_aware has not trained it, which trains neither "
              "layers inside of others nor attention");
  }
  EXPECT_THAT(left, ::testing::ElementsAre("attention_1/projection",
                                           "attention_1/output", "dense_2",
                                           "batch_norm_1"));
  const Batch batch = Images(1000);
  const std::vector<float> wanted = Predictions(weights, batch, model->get());
  const std::vector<float> found =
      PredictedByIntegers(config, (*model)->variables(), *made, batch);
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], wanted[i], 0.02) << i;
  }
}

TEST(QuantizationAwareTest, RangesThatAreNotLearnedYetAreRefused) {
  const v1::ModelConfig config = ConvolutionsOf(8);
  auto model = Network::Create(config, Spec());
  ASSERT_TRUE(model.ok()) << model.status();
  const Weights weights = Trained(model->get(), 4);  // begin_step is 5.
  const auto made = Quantize(config, Spec(), Spans(weights), {});
  EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(made.status().message()),
              HasSubstr("'conv2d_1' has learned no range yet"));
}

}  // namespace
}  // namespace paramd
