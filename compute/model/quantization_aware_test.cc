#include "compute/model/quantization_aware.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "compute/device/cpu_device.h"
#include "compute/model/image_layers.h"
#include "compute/model/network.h"
#include "compute/model/simple_layers.h"
#include "compute/model/testing/layer_run.h"
#include "input/batch.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::ModelConfig::QuantizationAware ConfigOf(uint32_t bits,
                                            double momentum = 0.9,
                                            uint64_t begin_step = 0) {
  v1::ModelConfig::QuantizationAware config;
  config.set_weight_bits(bits);
  config.set_momentum(momentum);
  config.set_begin_step(begin_step);
  return config;
}

TransformedLayer AwareOf(std::shared_ptr<const Layer> layer,
                         const v1::ModelConfig::QuantizationAware& config) {
  return {std::move(layer), std::make_shared<QuantizationAware>(config)};
}

std::vector<float> Floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

LayerResult RunInFloat(const Layer& layer, const LayerValues& values) {
  CpuDevice device;
  return RunLayer(layer, &device, DType::kFloat32, values);
}

// Of random values, and a range that cuts some of the inputs.
LayerValues ValuesOf(const TransformedLayer& layer, uint64_t seed) {
  LayerValues values = RandomValues(layer, 5, 0, seed);
  values.weights.back() = {-0.25, 0.3, 0.5, 0};  // From -0.5 to 0.6.
  return values;
}

TEST(QuantizationAwareTest, ALayerComputesWithWhatIntegersStandFor) {
  for (const uint32_t bits : {8u, 4u, 2u}) {
    const auto plain = std::make_shared<Dense>("dense", Dims{12}, 7);
    const TransformedLayer layer = AwareOf(plain, ConfigOf(bits));
    const LayerValues values = ValuesOf(layer, bits);
    const LayerResult found = RunInFloat(layer, values);
    // The plain layer, of numbers that are rounded already.
    LayerValues rounded = values;
    rounded.weights.pop_back();
    std::vector<float> kernel = Floats(values.weights[0]);
    std::vector<float> scales(7);
    FakeQuantizeWeights(kernel, MostOfBits(bits), absl::MakeSpan(scales),
                        kernel.data());
    rounded.weights[0].assign(kernel.begin(), kernel.end());
    const Affine affine = AffineOf({-0.5f, 0.6f});
    std::vector<float> input = Floats(values.input);
    FakeQuantizeValues(affine, input, input.data());
    rounded.input.assign(input.begin(), input.end());
    const LayerResult wanted = RunInFloat(*plain, rounded);
    EXPECT_EQ(found.output, wanted.output);
    // Gradients are those by the rounded numbers; outside of the range, none.
    EXPECT_EQ(found.gradients[0], wanted.gradients[0]);
    EXPECT_EQ(found.gradients[1], wanted.gradients[1]);
    size_t cut = 0;
    for (size_t i = 0; i < input.size(); ++i) {
      const bool inside = values.input[i] > -0.502 && values.input[i] < 0.602;
      cut += inside ? 0 : 1;
      EXPECT_EQ(found.input_gradient[i], inside ? wanted.input_gradient[i] : 0)
          << values.input[i];
    }
    EXPECT_GT(cut, 5u);
    EXPECT_LT(cut, input.size() - 5);
  }
}

// What a small change of the input does, many times a level, is what its
// gradient says: the rounding is as a line of slope 1.
TEST(QuantizationAwareTest, TheGradientIsTheSlopeOverManyLevels) {
  const TransformedLayer layer =
      AwareOf(std::make_shared<Conv2d>(
                  "conv", Dims{4, 4, 4},
                  Conv2d::Options{.filters = 3,
                                  .sliding = {.kernel = 3, .same = true}}),
              ConfigOf(8));
  LayerValues values = ValuesOf(layer, 3);
  for (double& one : values.input) one *= 0.4;  // Away from the ends.
  const LayerResult at = RunInFloat(layer, values);
  const auto linear = [&](const LayerResult& result) {
    double sum = 0;
    for (size_t i = 0; i < result.output.size(); ++i) {
      sum += result.output[i] * values.output_gradient[i];
    }
    return sum;
  };
  const double level = 1.1 / 255;
  for (size_t i = 0; i < values.input.size(); i += 7) {
    LayerValues moved = values;
    moved.input[i] += 16 * level;
    const double up = linear(RunInFloat(layer, moved));
    moved.input[i] -= 32 * level;
    const double down = linear(RunInFloat(layer, moved));
    // Both ends are within half a level.
    EXPECT_NEAR((up - down) / (32 * level), at.input_gradient[i],
                std::fabs(at.input_gradient[i]) / 32 + 1e-3);
  }
}

TEST(QuantizationAwareTest, ARangeIsTheMovingAverageOfWhatWasSeen) {
  const TransformedLayer layer =
      AwareOf(std::make_shared<Dense>("dense", Dims{2}, 3), ConfigOf(8, 0.75));
  EXPECT_EQ(layer.variables().back().name(), "dense/input_range");
  EXPECT_TRUE(layer.variables().back().untrained());
  const QuantizationAware aware(ConfigOf(8, 0.75));
  LayerValues values = RandomValues(layer, 2, 0, 1);
  std::vector<double>& range = values.weights.back();
  range = {0, 0, 0, 0};
  EXPECT_FALSE(aware.InputOf(Floats(range)).has_value());
  double least = 0;
  double weight = 0;
  for (const double low : {-4.0, -2.0, 1.0, -8.0}) {
    values.input = {low, 3, 2, 0.5};
    // Two replicas, of which one has seen a quarter of the examples.
    for (const double share : {0.25, 0.75}) {
      values.share = share;
      const auto update = RunInFloat(layer, values).gradients.back();
      const double step = share * 0.25;
      EXPECT_NEAR(update[0], (range[0] - std::min(low, 0.5)) * step, 1e-6);
      EXPECT_NEAR(update[1], (range[1] - 3) * step, 1e-6);
      EXPECT_NEAR(update[2], (range[2] - 1) * step, 1e-6);
      EXPECT_EQ(update[3], 0);
    }
    values.share = 1;
    const auto update = RunInFloat(layer, values).gradients.back();
    for (size_t i = 0; i < 4; ++i) range[i] -= update[i];
    least = 0.75 * least + 0.25 * std::min(low, 0.5);
    weight = 0.75 * weight + 0.25;
    const auto affine = aware.InputOf(Floats(range));
    ASSERT_TRUE(affine.has_value());
    const Affine wanted = AffineOf({static_cast<float>(least / weight), 3});
    EXPECT_NEAR(affine->scale, wanted.scale, 1e-6);
    EXPECT_EQ(affine->zero_point, wanted.zero_point);
  }
}

TEST(QuantizationAwareTest, NothingIsRoundedBeforeBeginStep) {
  const auto plain = std::make_shared<Dense>("dense", Dims{12}, 7);
  const TransformedLayer layer = AwareOf(plain, ConfigOf(4, 0.9, 3));
  LayerValues values = ValuesOf(layer, 1);
  LayerValues without = values;
  without.weights.pop_back();
  const LayerResult wanted = RunInFloat(*plain, without);
  for (int step = 0; step < 5; ++step) {
    const LayerResult found = RunInFloat(layer, values);
    EXPECT_EQ(found.output == wanted.output, step < 3) << step;
    EXPECT_EQ(found.input_gradient == wanted.input_gradient, step < 3) << step;
    for (size_t i = 0; i < 4; ++i) {
      values.weights.back()[i] -= found.gradients.back()[i];
    }
  }
  EXPECT_NEAR(values.weights.back()[3], 1, 1e-6);
}

v1::ModelConfig ModelOf(const std::string& layers,
                        const std::string& loss = "SOFTMAX_CROSS_ENTROPY") {
  v1::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      layers + " loss: " + loss, &config));
  *config.mutable_quantization_aware() = ConfigOf(8);
  return config;
}

TEST(QuantizationAwareTest, LayersThatIntegersComputeHaveARange) {
  const auto plan =
      PlanNetwork(ModelOf(R"pb(
                    layers { reshape { dims: [ 4, 4, 1 ] } }
                    layers {
                      conv2d {
                        filters: 4
                        kernel: 3
                        stride: 1
                        groups: 1
                        padding: SAME
                        bias: false
                      }
                    }
                    layers {
                      conv2d {
                        filters: 4
                        kernel: 3
                        stride: 1
                        groups: 1
                        padding: SAME
                        bias: false
                      }
                    }
                    layers { flatten {} }
                    layers { dense { units: 64 name: "a" } }
                    layers { dense { units: 64 name: "a" } }
                    layers { residual { layers { dense { units: 64 } } } }
                    layers { dense { units: 3 } }
                  )pb"),
                  LabelledImages({16}, 3));
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<std::string> ranges;
  for (const v1::Variable& variable : (*plan)->variables) {
    if (variable.untrained()) ranges.push_back(variable.name());
  }
  EXPECT_THAT(ranges,
              ElementsAre("conv2d_2/input_range", "dense_4/input_range"));
  EXPECT_TRUE(HasTransforms(**plan));
  const size_t variables = (*plan)->variables.size();
  const size_t used = (*plan)->shared.size();
  RemoveTransforms(plan->get());
  EXPECT_FALSE(HasTransforms(**plan));
  EXPECT_EQ((*plan)->variables.size(), variables);
  EXPECT_EQ((*plan)->shared.size(), used - 2);
  EXPECT_EQ((*plan)->layers->variables().size(), used - 2);
}

TEST(QuantizationAwareTest, WhatCantBeQuantisedIsRefusedInASentence) {
  struct Case {
    const char* layers;
    InputSpec input;
    const char* sentence;
  };
  const InputSpec keys = {
      {{"ids", DType::kInt64, {3}}, {"label", DType::kInt32, {}, 2}}};
  for (const Case& one :
       {Case{"layers { residual { layers { dense { units: 16 } } } }"
             "layers { dense { units: 16 name: 'a' } }"
             "layers { dense { units: 16 name: 'a' } }",
             LabelledImages({16}, 16),
             "quantization_aware: no layer of the model can be quantised: "
             "'residual_1': it holds layers; those of the network itself are "
             "trained for it; 'a': another layer has the same variables; 'a': "
             "another layer has the same variables; leave it out"},
        Case{"layers { reshape { dims: [ 4, 4 ] } }"
             "layers { attention { heads: 2 } } layers { flatten {} }"
             "layers { recompute { layers { dense { units: 16 } } } }",
             LabelledImages({16}, 16),
             "quantization_aware: no layer of the model can be quantised: "
             "'attention_1': attention is not trained for it; 'recompute_1': "
             "it holds layers; those of the network itself are trained for it; "
             "leave it out"},
        Case{"layers { embedding { width: 4 sparse: true capacity: 100 } }"
             "layers { flatten {} } layers { dense { units: 2 } }",
             keys,
             "quantization_aware: the variable 'embedding_1/table' has rows by "
             "key (capacity), which a quantised checkpoint can't hold; leave "
             "quantization_aware out"}}) {
    const auto plan = PlanNetwork(ModelOf(one.layers), one.input);
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(plan.status().message(), one.sentence);
  }
}

TEST(QuantizationAwareTest, ARangeThatWasNotLearnedIsNamed) {
  const auto plan = PlanNetwork(ModelOf("layers { dense { units: 3 } }"),
                                LabelledImages({16}, 3));
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<std::vector<float>> weights;
  for (const v1::Variable& variable : (*plan)->variables) {
    uint64_t size = 1;
    for (const uint64_t dim : variable.shape()) size *= dim;
    weights.emplace_back(size, 0.0f);
  }
  const auto inputs = [&] {
    return LearnedInputs(**plan, std::vector<absl::Span<const float>>(
                                     weights.begin(), weights.end()));
  };
  EXPECT_THAT(std::string(inputs().status().message()),
              HasSubstr("'dense_1' has learned no range yet"));
  weights.back() = {0, 0.5f, 0.5f, 0};
  ASSERT_TRUE(inputs().ok());
  EXPECT_EQ(inputs()->front(), AffineOf({0, 1}));
}

}  // namespace
}  // namespace paramd
