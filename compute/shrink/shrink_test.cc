#include "compute/shrink/shrink.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "compute/device/cpu_device.h"
#include "compute/model/network.h"
#include "compute/model/network_plan.h"
#include "input/batch.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using Weights = std::vector<std::vector<float>>;

constexpr uint64_t kExamples = 9;

InputSpec Images() { return LabelledImages({6, 6, 2}, 3); }

v1::ModelConfig ModelOf(absl::string_view layers) {
  v1::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      std::string(layers) + " loss: SOFTMAX_CROSS_ENTROPY", &config));
  return config;
}

std::string Conv(int filters, absl::string_view padding, int kernel = 3,
                 bool bias = true, int groups = 1) {
  return absl::StrCat("layers { conv2d { filters: ", filters,
                      " kernel: ", kernel, " stride: 1 groups: ", groups,
                      " padding: ", padding, " bias: ", bias ? "true" : "false",
                      " } } ");
}

std::string DenseOf(int units, absl::string_view name = "") {
  return absl::StrCat("layers { dense { units: ", units, " name: '", name,
                      "' } } ");
}

constexpr char kRelu[] = "layers { relu {} } ";
constexpr char kFlatten[] = "layers { flatten {} } ";
constexpr char kNorm[] =
    "layers { batch_norm { epsilon: 1e-5 momentum: 0.9 } } ";

// A network with random weights, of which some outputs are zero.
struct Masked {
  explicit Masked(absl::string_view layers) : model(ModelOf(layers)) {
    auto planned = PlanNetwork(model, Images());
    EXPECT_TRUE(planned.ok()) << planned.status();
    plan = *std::move(planned);
    RandomStream random(5);
    for (const v1::Variable& variable : plan->variables) {
      uint64_t size = 1;
      for (const uint64_t dimension : variable.shape()) size *= dimension;
      auto& values = weights.emplace_back(size);
      for (float& value : values) {
        value = static_cast<float>(random.Below(2001)) / 1000 - 1;
        if (absl::EndsWith(variable.name(), "/variance")) {
          value = std::fabs(value) + 0.5F;
        }
      }
    }
  }

  // Sets outputs of a variable to a number.
  Masked& Set(absl::string_view name, const std::vector<size_t>& outputs,
              float to = 0) {
    for (size_t v = 0; v < weights.size(); ++v) {
      const v1::Variable& variable = plan->variables[v];
      if (variable.name() != name) continue;
      const uint64_t last = variable.shape(variable.shape_size() - 1);
      for (size_t i = 0; i < weights[v].size(); ++i) {
        if (std::count(outputs.begin(), outputs.end(), i % last) > 0) {
          weights[v][i] = to;
        }
      }
      return *this;
    }
    ADD_FAILURE() << "no variable " << name;
    return *this;
  }

  absl::StatusOr<Shrunk> Cut() const {
    return Shrink(
        model, Images(),
        std::vector<absl::Span<const float>>(weights.begin(), weights.end()));
  }
  std::string Refusal() const {
    const auto cut = Cut();
    EXPECT_EQ(cut.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(cut.status().message());
  }

  v1::ModelConfig model;
  std::unique_ptr<NetworkPlan> plan;
  Weights weights;
};

std::vector<float> Predictions(const v1::ModelConfig& model,
                               const Weights& weights) {
  auto network = Network::Create(model, Images(),
                                 [] { return std::make_unique<CpuDevice>(); });
  EXPECT_TRUE(network.ok()) << network.status();
  Batch batch;
  batch.Reset(Images(), kExamples);
  const auto labels = batch.Find("label")->values<int32_t>();
  std::fill(labels.begin(), labels.end(), 0);
  RandomStream random(11);
  for (float& value : batch.Find("image")->values<float>()) {
    value = static_cast<float>(random.Below(1000)) / 500 - 1;
  }
  Batch out;
  const std::vector<absl::Span<const float>> spans(weights.begin(),
                                                   weights.end());
  const absl::Status predicted = (*network)->Predict(spans, batch, &out);
  EXPECT_TRUE(predicted.ok()) << predicted;
  if (!predicted.ok()) return {};
  const auto values = out.columns.front().values<float>();
  return {values.begin(), values.end()};
}

// Both predict the same but for roundings, of sums of up to `terms` products
// in a few layers.
Shrunk ExpectSame(const Masked& masked, double terms) {
  auto cut = masked.Cut();
  EXPECT_TRUE(cut.ok()) << cut.status();
  if (!cut.ok()) return {};
  const std::vector<float> before = Predictions(masked.model, masked.weights);
  const std::vector<float> after = Predictions(cut->model, cut->weights);
  EXPECT_EQ(before.size(), after.size());
  if (before.size() != after.size()) return {};
  // Probabilities are at most 1; what they are made of is of size `terms`.
  const double tolerance = 4 * terms * terms * 0x1p-24;
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_NEAR(before[i], after[i], tolerance) << i;
  }
  return *std::move(cut);
}

TEST(ShrinkTest, UnitsOfADenseNetGoAndTheirBiasesAreFolded) {
  for (const char* const function : {"relu", "gelu", "tanh", "sigmoid"}) {
    SCOPED_TRACE(function);
    const std::string layer = absl::StrCat("layers { ", function, " {} } ");
    Masked masked(absl::StrCat(kFlatten, DenseOf(8), layer,
                               "layers { dropout { rate: 0.5 } } ", DenseOf(6),
                               layer, DenseOf(3)));
    masked.Set("dense_1/kernel", {0, 3, 7}).Set("dense_2/kernel", {5});
    const Shrunk cut = ExpectSame(masked, 72);
    ASSERT_EQ(cut.layers.size(), 2u);
    EXPECT_EQ(cut.layers[0].name, "dense_1");
    EXPECT_EQ(cut.layers[0].before, 8u);
    EXPECT_EQ(cut.layers[0].after, 5u);
    EXPECT_EQ(cut.model.layers(1).dense().units(), 5u);
    EXPECT_EQ(cut.model.layers(4).dense().units(), 5u);
    // Kernels and biases of the three.
    const std::vector<size_t> sizes = {72 * 5, 5, 5 * 5, 5, 5 * 3, 3};
    ASSERT_EQ(cut.weights.size(), sizes.size());
    for (size_t v = 0; v < sizes.size(); ++v) {
      EXPECT_EQ(cut.weights[v].size(), sizes[v]) << cut.variables[v].name();
    }
  }
}

TEST(ShrinkTest, FiltersGoWithTheirNormThroughPoolsAndFlatten) {
  Masked masked(absl::StrCat(Conv(6, "VALID", 3, /*bias=*/false), kNorm, kRelu,
                             "layers { max_pool { size: 2 padding: VALID } } ",
                             kFlatten, DenseOf(4), "layers { tanh {} } ",
                             DenseOf(3)));
  masked.Set("conv2d_1/kernel", {1, 4});
  const Shrunk cut = ExpectSame(masked, 24);
  ASSERT_EQ(cut.layers.size(), 1u);
  EXPECT_EQ(cut.model.layers(0).conv2d().filters(), 4u);
  for (size_t v = 0; v < cut.variables.size(); ++v) {
    if (absl::StartsWith(cut.variables[v].name(), "batch_norm_1/")) {
      EXPECT_EQ(cut.weights[v].size(), 4u);
    }
  }
}

TEST(ShrinkTest, AConvolutionWithoutBiasGetsOne) {
  Masked masked(absl::StrCat(Conv(5, "SAME"), "layers { sigmoid {} } ",
                             Conv(4, "VALID", 3, /*bias=*/false), kRelu,
                             "layers { global_average_pool {} } ", DenseOf(3)));
  masked.Set("conv2d_1/kernel", {2}).Set("conv2d_2/kernel", {0, 3});
  const Shrunk cut = ExpectSame(masked, 45);
  ASSERT_EQ(cut.layers.size(), 2u);
  EXPECT_TRUE(cut.model.layers(2).conv2d().bias());
}

TEST(ShrinkTest, BeyondABorderOnlyZerosAreTheSame) {
  const std::string layers = absl::StrCat(
      Conv(5, "SAME"), kNorm, kRelu, Conv(4, "SAME"), kFlatten, DenseOf(3));
  Masked masked(layers);
  masked.Set("conv2d_1/kernel", {1}).Set("batch_norm_1/shift", {1}, 0.5F);
  masked.Set("batch_norm_1/scale", {1}, 0);
  EXPECT_THAT(masked.Refusal(),
              HasSubstr("the 1 pruned outputs of 'conv2d_1' can't be cut: they "
                        "are constants other than zero, which 'conv2d_2' does "
                        "not see beyond the border"));
  // What relu makes zero, or pruning has.
  masked.Set("batch_norm_1/shift", {1}, -0.5F);
  ExpectSame(masked, 144);
  masked.Set("batch_norm_1/shift", {1}, 0);
  ExpectSame(masked, 144);
  // A window of one place sees no border.
  Masked small(
      absl::StrCat(Conv(5, "SAME"), Conv(4, "SAME", 1), kFlatten, DenseOf(3)));
  small.Set("conv2d_1/kernel", {1});
  ExpectSame(small, 144);
}

TEST(ShrinkTest, ADenseLayerOfManyPlacesIsCut) {
  Masked masked(absl::StrCat("layers { reshape { dims: [ 36, 2 ] } } ",
                             DenseOf(5), kRelu,
                             "layers { reshape { dims: [ 6, 6, 5 ] } } ",
                             "layers { global_sum_pool {} } ", DenseOf(3)));
  masked.Set("dense_1/kernel", {4}).Set("dense_1/bias", {4}, 0.25F);
  const Shrunk cut = ExpectSame(masked, 36);
  EXPECT_EQ(cut.model.layers(3).reshape().dims(2), 4u);
}

TEST(ShrinkTest, ALayerOfZerosKeepsOneOutput) {
  Masked masked(absl::StrCat(kFlatten, DenseOf(4), kRelu, DenseOf(3)));
  masked.Set("dense_1/kernel", {0, 1, 2, 3});
  const Shrunk cut = ExpectSame(masked, 72);
  ASSERT_EQ(cut.layers.size(), 1u);
  EXPECT_EQ(cut.layers[0].after, 1u);
}

TEST(ShrinkTest, WhatCantBeCutIsRefusedByName) {
  const auto refusal = [](absl::string_view layers, absl::string_view name,
                          size_t output = 0) {
    Masked masked(layers);
    masked.Set(name, {output});
    return masked.Refusal();
  };
  EXPECT_THAT(Masked(absl::StrCat(kFlatten, DenseOf(3))).Refusal(),
              HasSubstr("has an output whose weights are all zero"));
  EXPECT_THAT(refusal(absl::StrCat(kFlatten, DenseOf(3)), "dense_1/kernel"),
              HasSubstr("'dense_1' gives the model's outputs, of which 1 are "
                        "pruned"));
  const std::string residual =
      "layers { residual { layers { dense { units: 4 } } } } ";
  EXPECT_THAT(refusal(absl::StrCat(kFlatten, DenseOf(4), residual, DenseOf(3)),
                      "dense_1/kernel"),
              HasSubstr("'residual_1', which reads them, is no layer that "
                        "passes channels on one by one"));
  EXPECT_THAT(refusal(absl::StrCat(kFlatten, DenseOf(4), residual, DenseOf(3)),
                      "dense_2/kernel"),
              HasSubstr("'dense_2/kernel' has pruned outputs and lies within "
                        "'residual_1'"));
  EXPECT_THAT(refusal(absl::StrCat(kFlatten, DenseOf(4),
                                   "layers { layer_norm { epsilon: 1e-5 } } ",
                                   DenseOf(3)),
                      "dense_1/kernel"),
              HasSubstr("'layer_norm_1', which reads them"));
  EXPECT_THAT(refusal(absl::StrCat(kFlatten, DenseOf(72, "twice"), kRelu,
                                   DenseOf(72, "twice"), DenseOf(3)),
                      "twice/kernel"),
              HasSubstr("'twice' shares its variables with another layer"));
  EXPECT_THAT(refusal(absl::StrCat(Conv(4, "SAME", 3, true, /*groups=*/2),
                                   kFlatten, DenseOf(3)),
                      "conv2d_1/kernel"),
              HasSubstr("'conv2d_1' has groups"));
  EXPECT_THAT(refusal(absl::StrCat("layers { reshape { dims: [ 36, 2 ] } } ",
                                   DenseOf(6),
                                   "layers { reshape { dims: [ 6, 36 ] } } ",
                                   kFlatten, DenseOf(3)),
                      "dense_1/kernel"),
              HasSubstr("'reshape_2', which reads them, makes other "
                        "dimensions of them"));
  // What it gives is an image of one channel, two columns wide.
  const std::string columns =
      absl::StrCat("layers { reshape { dims: [ 36, 2 ] } } ", DenseOf(2));
  for (const size_t output : {0, 1}) {
    EXPECT_THAT(
        refusal(absl::StrCat(columns, Conv(4, "SAME"), kFlatten, DenseOf(3)),
                "dense_1/kernel", output),
        HasSubstr("'conv2d_1', which reads them, takes them for "
                  "columns of an image"));
  }
  EXPECT_THAT(refusal(absl::StrCat(columns,
                                   "layers { max_pool { size: 2 padding: "
                                   "VALID } } ",
                                   kFlatten, DenseOf(3)),
                      "dense_1/kernel"),
              HasSubstr("'max_pool_1', which reads them, takes them for "
                        "columns of an image"));
  Masked custom(absl::StrCat(kFlatten, DenseOf(3)));
  custom.model.set_custom(true);
  EXPECT_THAT(custom.Refusal(), HasSubstr("a program brings the job's model"));
  custom.model.set_custom(false);
  custom.model.mutable_quantization_aware()->set_weight_bits(8);
  EXPECT_THAT(custom.Refusal(), HasSubstr("quantization_aware"));
}

}  // namespace
}  // namespace paramd
