// Networks some of whose layers are computed again in the backward pass, beside
// the same without.
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "compute/device/testing/test_device.h"
#include "compute/model/network.h"
#include "input/testing/random_batch.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using RecomputeTest = OnTestDevice;
using Layers = google::protobuf::RepeatedPtrField<v1::Layer>;

const InputSpec kImages = LabelledImages({6, 6}, 4);
const InputSpec kText{
    {FeatureSpec{
         .name = "text", .dtype = DType::kInt32, .dims = {8}, .classes = 7},
     FeatureSpec{
         .name = "label", .dtype = DType::kInt32, .dims = {8}, .classes = 7}}};

struct Case {
  std::string name;
  InputSpec input;
  std::string layers;
};

std::vector<Case> Cases() {
  return {{"Mlp", kImages, R"(
          layers { recompute {
            layers { flatten {} } layers { dense { units: 30 } }
            layers { relu {} } layers { dense { units: 30 } }
            layers { gelu {} } } }
          layers { dense { units: 4 } })"},
          {"Cnn", kImages, R"(
          layers { recompute {
            layers { conv2d { filters: 4 kernel: 3 stride: 1 groups: 1 } }
            layers { batch_norm { momentum: 0.9 epsilon: 1e-5 } }
            layers { relu {} } layers { dropout { rate: 0.2 } } } }
          layers { residual { drop_rate: 0.3
            layers { recompute {
              layers { batch_norm { momentum: 0.9 epsilon: 1e-5 } }
              layers { relu {} }
              layers { conv2d { filters: 4 kernel: 3 stride: 1 groups: 1
                                padding: SAME } } } } } }
          layers { recompute {
            layers { recompute {
              layers { max_pool { size: 2 stride: 2 } } layers { flatten {} }
              layers { dense { units: 20 } } layers { tanh {} } } }
            layers { dropout { rate: 0.4 } }
            layers { recompute { layers { dense { units: 20 } } } } } }
          layers { relu {} } layers { dense { units: 4 } })"},
          {"Gpt", kText, R"(
          layers { embedding { width: 8 } } layers { positional_embedding {} }
          layers { recompute { layers { residual {
            layers { layer_norm { epsilon: 1e-5 } }
            layers { attention { heads: 2 causal: true } }
            layers { dropout { rate: 0.1 } } } } } }
          layers { recompute { layers { residual {
            layers { layer_norm { epsilon: 1e-5 } }
            layers { dense { units: 32 } } layers { gelu {} }
            layers { dense { units: 8 } } } } } }
          layers { layer_norm { epsilon: 1e-5 } }
          layers { dense { units: 7 } })"},
          {"Whole", kText, R"(
          layers { recompute {
            layers { embedding { width: 8 } }
            layers { residual { layers { layer_norm { epsilon: 1e-5 } }
                                layers { attention { heads: 2 } } } }
            layers { dense { units: 7 } } } })"},
          {"Shared", kImages, R"(
          layers { recompute {
            layers { flatten {} }
            layers { dense { units: 12 name: "in" } } layers { tanh {} }
            layers { dense { units: 12 name: "again" } } layers { tanh {} } } }
          layers { dense { units: 12 name: "again" } } layers { sigmoid {} }
          layers { recompute {
            layers { dense { units: 12 name: "again" } } layers { tanh {} } } }
          layers { dense { units: 4 } })"},
          {"Branches", kText, R"(
          layers { recompute { layers { parallel {
            branches { layers { select { count: 3 } }
                       layers { embedding { width: 4 name: "table" } }
                       layers { bag_pool { combine: MEAN } } }
            branches { layers { recompute {
                         layers { select { begin: 2 } }
                         layers { embedding { width: 4 name: "table" } }
                         layers { attention_pool { units: 3 } }
                         layers { flatten {} } } } } } } } }
          layers { cross { layers: 2 } } layers { dense { units: 56 } }
          layers { reshape { dims: 8 dims: 7 } })"}};
}

v1::ModelConfig Parsed(const std::string& layers) {
  v1::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(layers, &config))
      << layers;
  config.set_loss(v1::SOFTMAX_CROSS_ENTROPY);
  return config;
}

// The same layers, none of which is computed again.
Layers Without(const Layers& layers) {
  Layers kept;
  for (v1::Layer layer : layers) {
    if (layer.has_recompute()) {
      kept.MergeFrom(Without(layer.recompute().layers()));
      continue;
    }
    if (layer.has_residual()) {
      *layer.mutable_residual()->mutable_layers() =
          Without(layer.residual().layers());
    }
    if (layer.has_parallel()) {
      for (auto& branch : *layer.mutable_parallel()->mutable_branches()) {
        *branch.mutable_layers() = Without(branch.layers());
      }
    }
    *kept.Add() = layer;
  }
  return kept;
}

v1::ModelConfig Without(v1::ModelConfig config) {
  *config.mutable_layers() = Without(config.layers());
  return config;
}

Batch BatchOf(const InputSpec& input, uint64_t size, uint64_t seed) {
  return RandomBatch(input, {.epoch = 2, .begin = 10, .end = 10 + size}, seed);
}

// A network with weights that its variables' shapes decide.
class Trained {
 public:
  Trained(const v1::ModelConfig& config, const InputSpec& input,
          ComputeFormat format = ComputeFormat::kFp32)
      : network_(*Network::Create(config, input, [format] {
          std::unique_ptr<Device> device = MakeTestDevice();
          device->SetComputeFormat(format);
          return device;
        })) {
    RandomStream random(5);
    for (const v1::Variable& variable : network_->variables()) {
      size_t size = 1;
      for (const uint64_t dimension : variable.shape()) size *= dimension;
      std::vector<float>& values = values_.emplace_back(size);
      for (float& value : values) value = random.Uniform() - 0.3f;
      gradients_.emplace_back(size);
    }
  }

  Metrics Step(const Batch& batch, double divisor) {
    std::vector<absl::Span<float>> spans;
    for (std::vector<float>& one : gradients_) {
      one.assign(one.size(), std::numeric_limits<float>::quiet_NaN());
      spans.push_back(absl::MakeSpan(one));
    }
    return *network_->Step(Weights(), batch, {.divisor = divisor, .seed = 3},
                           spans, [](size_t) {});
  }
  Metrics Evaluate(const Batch& batch) {
    return *network_->Evaluate(Weights(), batch);
  }

  const Network& network() const { return *network_; }
  const std::vector<std::vector<float>>& gradients() const {
    return gradients_;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const v1::Variable& variable : network_->variables()) {
      names.push_back(variable.name());
    }
    return names;
  }

 private:
  std::vector<absl::Span<const float>> Weights() const {
    return {values_.begin(), values_.end()};
  }

  const std::unique_ptr<Network> network_;
  std::vector<std::vector<float>> values_;
  std::vector<std::vector<float>> gradients_;
};

TEST_F(RecomputeTest, GivesTheBitsAndTheNamesOfTheLayersAlone) {
  for (const Case& one : Cases()) {
    const v1::ModelConfig config = Parsed(one.layers);
    for (const auto format : {ComputeFormat::kFp32, ComputeFormat::kBf16}) {
      SCOPED_TRACE(one.name + " in " + NameOf(format));
      Trained again(config, one.input, format);
      Trained alone(Without(config), one.input, format);
      ASSERT_EQ(again.names(), alone.names());
      for (uint64_t size = 6; size >= 4; --size) {
        const Batch batch = BatchOf(one.input, size, size);
        const Metrics found = again.Step(batch, 6);
        EXPECT_TRUE(std::isfinite(found.loss_sum));
        EXPECT_EQ(found.loss_sum, alone.Step(batch, 6).loss_sum);
        EXPECT_EQ(again.gradients(), alone.gradients());
        EXPECT_EQ(again.Evaluate(batch).loss_sum,
                  alone.Evaluate(batch).loss_sum);
      }
    }
  }
}

TEST_F(RecomputeTest, AStepThatOverflowsIsComputedAgainToTheSameBits) {
  const Case gpt = Cases()[2];
  const v1::ModelConfig config = Parsed(gpt.layers);
  Trained again(config, gpt.input, ComputeFormat::kFp16);
  Trained alone(Without(config), gpt.input, ComputeFormat::kFp16);
  const Batch batch = BatchOf(gpt.input, 6, 1);
  again.Step(batch, 0.01);
  alone.Step(batch, 0.01);
  EXPECT_GT(again.network().loss_scaling().overflows, 0u);
  EXPECT_EQ(again.network().loss_scaling().overflows,
            alone.network().loss_scaling().overflows);
  EXPECT_EQ(again.gradients(), alone.gradients());
}

TEST_F(RecomputeTest, MovesTheStatisticsOfABatchNormOnce) {
  const Case cnn = Cases()[1];
  Trained again(Parsed(cnn.layers), cnn.input);
  Trained alone(Without(Parsed(cnn.layers)), cnn.input);
  const Batch batch = BatchOf(cnn.input, 6, 1);
  again.Step(batch, 6);
  alone.Step(batch, 6);
  size_t statistics = 0;
  for (size_t v = 0; v < again.names().size(); ++v) {
    if (!again.network().variables()[v].untrained()) continue;
    ++statistics;
    EXPECT_EQ(again.gradients()[v], alone.gradients()[v]);
    EXPECT_NE(again.gradients()[v][0], 0);
  }
  EXPECT_EQ(statistics, 4u);
}

// Blocks that keep 12 times what they give.
std::string Blocks(int count, bool recompute) {
  std::string layers = "layers { flatten {} }";
  for (int i = 0; i < count; ++i) {
    const std::string block = R"(
        layers { residual {
          layers { dense { units: 180 } } layers { relu {} }
          layers { dense { units: 36 } } layers { tanh {} } } })";
    layers += recompute ? "layers { recompute { " + block + " } }" : block;
  }
  return layers + "layers { dense { units: 4 } }";
}

TEST_F(RecomputeTest, PlansLessMemoryThatAllItsLayersShare) {
  const auto bytes = [](int blocks, bool recompute) {
    const auto plan = *PlanNetwork(Parsed(Blocks(blocks, recompute)), kImages);
    return Sequence::Needs{plan->layers->KeptBytes(16, DType::kFloat32),
                           plan->layers->ScratchBytes(16, DType::kFloat32)};
  };
  // Of a block: dense and relu, dense and tanh, and what comes out.
  constexpr uint64_t kValue = 16 * sizeof(float);
  constexpr uint64_t kBlock = kValue * (2 * 180 + 3 * 36);
  EXPECT_EQ(bytes(8, false).kept - bytes(4, false).kept, 4 * kBlock);
  EXPECT_EQ(bytes(8, false).scratch, bytes(4, false).scratch);
  EXPECT_EQ(bytes(8, true).kept - bytes(4, true).kept, 4 * kValue * 36);
  EXPECT_EQ(bytes(8, true).scratch, bytes(4, true).scratch);
  // What a block keeps, its output, and two gradients of that size.
  EXPECT_EQ(bytes(8, true).scratch - bytes(8, false).scratch,
            kBlock - kValue * 36 + 3 * kValue * 36);
}

TEST_F(RecomputeTest, WhatItWouldSaveIsPlannedAsItIs) {
  const auto without = *PlanNetwork(Parsed(Blocks(5, false)), kImages);
  const auto with = *PlanNetwork(Parsed(Blocks(5, true)), kImages);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const uint64_t examples : {1, 7, 64}) {
      const auto needs = without->layers->NeedsIfRecomputed(examples, dtype);
      EXPECT_EQ(needs.kept, with->layers->KeptBytes(examples, dtype));
      EXPECT_EQ(needs.scratch, with->layers->ScratchBytes(examples, dtype));
      const auto same = with->layers->NeedsIfRecomputed(examples, dtype);
      EXPECT_EQ(same.kept, needs.kept);
      EXPECT_EQ(same.scratch, needs.scratch);
    }
  }
}

TEST_F(RecomputeTest, CostsMoreOperationsAndFewerActivations) {
  const auto cost = [](bool recompute) {
    return (*Network::Create(Parsed(Blocks(5, recompute)), kImages))->cost();
  };
  const ModelCost with = cost(true);
  const ModelCost without = cost(false);
  EXPECT_EQ(with.parameters, without.parameters);
  constexpr uint64_t kBlock = 2 * 2 * 36 * 180 + 2 * 180 + 3 * 36;
  EXPECT_EQ(with.flops - without.flops, 5 * kBlock);
  // Aligned to 64 bytes each.
  constexpr uint64_t kKept = 2 * 768 + 192 + 192;
  EXPECT_EQ(without.activation_bytes, 5 * (144 + kKept) + 16);
  EXPECT_EQ(with.activation_bytes, 5 * 144 + kKept + 16);
  ASSERT_EQ(with.layers[1].name, "recompute_1");
  EXPECT_EQ(with.layers[1].activation_bytes, 144u);
  EXPECT_EQ(with.layers[2].name, "residual_1");
  EXPECT_EQ(with.layers[2].depth, 1);
}

TEST_F(RecomputeTest, ALastLayerThatKeepsNothingIsNotComputedAgain) {
  const auto flops = [](const std::string& layers) {
    return PlanNetwork(Parsed(layers), kImages).value()->layers->flops();
  };
  EXPECT_EQ(flops("layers { recompute { layers { flatten {} } "
                  "layers { dense { units: 5 } } layers { tanh {} } } }"),
            2u * 5 * (2 * 36 + 1) + 5);
  EXPECT_EQ(flops("layers { recompute { layers { flatten {} } "
                  "layers { dense { units: 5 } } } }"),
            5u * (2 * 36 + 1));
}

TEST_F(RecomputeTest, OfNothingOrOfIntegersAloneIsRefused) {
  const auto refusal = [](const std::string& layers, const InputSpec& input) {
    const auto plan = PlanNetwork(Parsed(layers), input);
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(plan.status().message());
  };
  EXPECT_EQ(refusal("layers { recompute {} }", kImages),
            "recompute layer 'recompute_1' has no layers");
  EXPECT_EQ(refusal("layers { recompute { layers { flatten {} } } } "
                    "layers { embedding { width: 4 } }",
                    kText),
            "recompute layer 'recompute_1' gives integers: put \"embedding\" "
            "in it");
  EXPECT_THAT(
      refusal("layers { recompute { layers { dense { units: 3 } } } }", kText),
      HasSubstr("put \"embedding\" before \"dense\""));
}

}  // namespace
}  // namespace paramd
