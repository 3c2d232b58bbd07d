#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "compute/device/testing/test_device.h"
#include "compute/model/network.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;

using NetworkFormatsTest = OnTestDevice;
using Gradients = std::vector<std::vector<float>>;

constexpr size_t kExamples = 6;

// A convolution, a norm, attention and dense layers.
constexpr char kLayers[] = R"(
    layers { conv2d { filters: 4 kernel: 3 stride: 1 groups: 1
                      padding: SAME } }
    layers { batch_norm {} } layers { relu {} }
    layers { reshape { dims: 8 dims: 8 } }
    layers { layer_norm {} } layers { attention { heads: 2 } }
    layers { flatten {} } layers { dense { units: 4 } })";

const InputSpec kInput = LabelledImages({4, 4, 1}, 4);

Batch SomeBatch() {
  RandomStream random(3);
  Batch batch;
  batch.Reset(kInput, kExamples);
  for (float& value : batch.Find("image")->values<float>()) {
    value = random.Uniform();
  }
  for (int32_t& label : batch.Find("label")->values<int32_t>()) {
    label = static_cast<int32_t>(random.Below(4));
  }
  return batch;
}

// The network on a device that computes in that format, with random weights.
class Formatted {
 public:
  explicit Formatted(ComputeFormat format) {
    v1::ModelConfig config;
    EXPECT_TRUE(
        google::protobuf::TextFormat::ParseFromString(kLayers, &config));
    config.set_loss(v1::SOFTMAX_CROSS_ENTROPY);
    network_ = *Network::Create(config, kInput, [format] {
      std::unique_ptr<Device> device = MakeTestDevice();
      device->SetComputeFormat(format);
      return device;
    });
    RandomStream random(5);
    for (const v1::Variable& variable : network_->variables()) {
      size_t size = 1;
      for (const uint64_t dimension : variable.shape()) size *= dimension;
      weights_.emplace_back(size);
      for (float& value : weights_.back()) value = random.Uniform() - 0.3f;
      gradients_.emplace_back(size);
    }
  }

  Metrics Step(
      TrainedModel::StepOptions options,
      TrainedModel::Ready ready = [](size_t) {}) {
    std::vector<absl::Span<const float>> weights(weights_.begin(),
                                                 weights_.end());
    std::vector<absl::Span<float>> gradients;
    for (auto& one : gradients_) gradients.push_back(absl::MakeSpan(one));
    return *network_->Step(weights, SomeBatch(), options, gradients, ready);
  }

  const Gradients& gradients() const { return gradients_; }
  LossScaling scaling() const { return network_->loss_scaling(); }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& variable : network_->variables()) {
      names.push_back(variable.name());
    }
    return names;
  }

 private:
  std::unique_ptr<Network> network_;
  Gradients weights_;
  Gradients gradients_;
};

// Each gradient, with the largest of its variable for a measure.
void ExpectNear(const Formatted& found, const Formatted& wanted,
                double tolerance) {
  for (size_t v = 0; v < wanted.gradients().size(); ++v) {
    double largest = 0;
    for (const float value : wanted.gradients()[v]) {
      largest = std::max<double>(largest, std::abs(value));
    }
    for (size_t i = 0; i < wanted.gradients()[v].size(); ++i) {
      ASSERT_NEAR(found.gradients()[v][i], wanted.gradients()[v][i],
                  tolerance * largest)
          << wanted.names()[v] << ", element " << i;
    }
  }
}

TEST_F(NetworkFormatsTest, GradientsAreNearThoseOfFp32) {
  Formatted fp32(ComputeFormat::kFp32);
  const Metrics wanted = fp32.Step({.divisor = kExamples});
  for (const auto& [format, tolerance] :
       std::vector<std::pair<ComputeFormat, double>>{
           {ComputeFormat::kTf32, 0.02},
           {ComputeFormat::kBf16, 0.1},
           {ComputeFormat::kFp16, 0.02}}) {
    Formatted other(format);
    const Metrics found = other.Step({.divisor = kExamples});
    EXPECT_NEAR(found.loss_sum, wanted.loss_sum, tolerance * wanted.loss_sum);
    EXPECT_NE(found.loss_sum, wanted.loss_sum) << NameOf(format);
    ExpectNear(other, fp32, tolerance);
  }
}

TEST_F(NetworkFormatsTest, SmallGradientsNeedAScaleInFp16) {
  // Each is some 1e-10.
  const TrainedModel::StepOptions options{.divisor = 1e9};
  Formatted fp32(ComputeFormat::kFp32);
  fp32.Step(options);
  TrainedModel::StepOptions scaled = options;
  scaled.loss_scale = 16777216;
  Formatted fp16(ComputeFormat::kFp16);
  fp16.Step(scaled);
  ExpectNear(fp16, fp32, 0.02);
  EXPECT_EQ(fp16.scaling().overflows, 0u);

  scaled.loss_scale = 1;
  fp16.Step(scaled);
  const std::vector<std::string> names = fp16.names();
  const auto kernel = std::find(names.begin(), names.end(), "dense_1/kernel");
  ASSERT_NE(kernel, names.end());
  EXPECT_THAT(fp16.gradients()[kernel - names.begin()], ::testing::Each(0.0f));
}

TEST_F(NetworkFormatsTest, WhatOverflowsIsComputedAgainWithASmallerScale) {
  const TrainedModel::StepOptions options{.divisor = 0.01};
  Formatted fp32(ComputeFormat::kFp32);
  fp32.Step(options);
  Formatted fp16(ComputeFormat::kFp16);
  std::vector<size_t> ready;
  const auto note = [&](size_t variable) {
    ready.push_back(variable);
    for (const float value : fp16.gradients()[variable]) {
      EXPECT_TRUE(std::isfinite(value));
    }
  };
  const Metrics metrics = fp16.Step(options, note);
  EXPECT_EQ(metrics.examples, kExamples);
  // Each is ready once, as it will leave.
  std::vector<size_t> all;
  for (size_t v = fp16.gradients().size(); v-- > 0;) all.push_back(v);
  EXPECT_EQ(ready, all);
  ExpectNear(fp16, fp32, 0.02);

  const LossScaling first = fp16.scaling();
  EXPECT_GT(first.overflows, 0u);
  EXPECT_LT(first.scale, 65536);
  EXPECT_EQ(first.scale * std::pow(2, first.overflows), 65536);
  const Gradients before = fp16.gradients();
  fp16.Step(options);
  EXPECT_EQ(fp16.scaling().overflows, first.overflows);
  EXPECT_EQ(fp16.gradients(), before);
}

TEST_F(NetworkFormatsTest, AStepIsAFunctionOfItsBatchIfNothingIsRemembered) {
  TrainedModel::StepOptions options{.divisor = 0.01};
  options.remembers_loss_scale = false;
  Formatted first(ComputeFormat::kFp16);
  first.Step(options);
  const uint64_t overflows = first.scaling().overflows;
  Formatted second(ComputeFormat::kFp16);
  second.Step({.divisor = 1e-4});
  second.Step({.divisor = 100});
  const uint64_t before = second.scaling().overflows;
  second.Step(options);
  EXPECT_EQ(second.gradients(), first.gradients());
  EXPECT_EQ(second.scaling().overflows - before, overflows);
}

}  // namespace
}  // namespace paramd
