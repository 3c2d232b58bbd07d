// Losses and metrics that a device computes, beside the processor's.
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

constexpr size_t kExamples = 7;
constexpr uint64_t kPlaces = 5;
constexpr uint64_t kClasses = 6;

// A model over rows of numbers, what its loss is, and the label.
struct Case {
  std::string loss;
  DType label = DType::kInt32;
  bool weighted = false;
};

const std::vector<Case>& Cases() {
  static const auto* const cases = new std::vector<Case>{
      {"loss: SOFTMAX_CROSS_ENTROPY"},
      {"loss: SOFTMAX_CROSS_ENTROPY label_smoothing: 0.2 top_k: 2 "
       "metrics: [TOP_K, PERPLEXITY, ACCURACY]"},
      {"loss: SOFTMAX_CROSS_ENTROPY ignore_label: 2 top_k: 3 "
       "metrics: [PERPLEXITY, TOP_K] class_weights: [1, 2, 0.5, 3, 0, 1]"},
      {"loss: BINARY_CROSS_ENTROPY metrics: ACCURACY", DType::kFloat32},
      {"loss: MEAN_SQUARED_ERROR metrics: MSE", DType::kFloat32},
      {"loss: KL_DIVERGENCE", DType::kFloat32},
      {"loss: SOFTMAX_CROSS_ENTROPY ignore_label: 2 metrics: [ACCURACY, "
       "PERPLEXITY] example_weight: 'weight'",
       DType::kInt32, /*weighted=*/true},
      {"loss: BINARY_CROSS_ENTROPY metrics: ACCURACY example_weight: 'weight'",
       DType::kFloat32, /*weighted=*/true}};
  return *cases;
}

InputSpec InputOf(const Case& one) {
  FeatureSpec label{.name = "label", .dtype = one.label, .dims = {kPlaces}};
  if (one.label == DType::kInt32) {
    label.classes = kClasses;
  } else {
    label.dims.push_back(kClasses);
  }
  InputSpec input{{FeatureSpec{.name = "x", .dims = {kPlaces, 4}}, label}};
  if (one.weighted)
    input.features.push_back(FeatureSpec{.name = "weight", .dims = {}});
  return input;
}

Batch RandomBatch(const Case& one) {
  RandomStream random(3);
  Batch batch;
  batch.Reset(InputOf(one), kExamples);
  for (float& value : batch.Find("x")->values<float>()) {
    value = random.Uniform() - 0.5f;
  }
  if (one.weighted) {
    for (float& value : batch.Find("weight")->values<float>()) {
      value = static_cast<float>(random.Below(4));
    }
  }
  Column* const label = batch.Find("label");
  if (one.label == DType::kInt32) {
    for (int32_t& value : label->values<int32_t>()) {
      value = static_cast<int32_t>(random.Below(kClasses));
    }
    // An example of which at most one place counts.
    const auto values = label->values<int32_t>();
    std::fill(values.begin(), values.begin() + kPlaces - 1, 2);
  } else {
    for (float& value : label->values<float>()) {
      value = random.Uniform() / static_cast<float>(kClasses);
    }
  }
  return batch;
}

// What came of a step and of an evaluation.
struct Found {
  std::vector<NamedValue> stepped;
  std::vector<NamedValue> evaluated;
  Metrics metrics;  // Of the step.
  std::vector<std::vector<float>> gradients;
  LossScaling scaling;
};

// On the processor if `make` is null. `factor`: of all weights.
Found Train(const Case& one, const Network::MakeDevice& make,
            const TrainedModel::StepOptions& options, float factor = 1) {
  v1::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "layers { dense { units: 5 } } layers { tanh {} } "
      "layers { dense { units: 6 } } " +
          one.loss,
      &config));
  const auto network = *Network::Create(config, InputOf(one), make);
  RandomStream random(5);
  std::vector<std::vector<float>> weights;
  for (const v1::Variable& variable : network->variables()) {
    size_t size = 1;
    for (const uint64_t dimension : variable.shape()) size *= dimension;
    weights.emplace_back(size);
    for (float& value : weights.back()) {
      value = factor * 4 * (random.Uniform() - 0.5f);
    }
  }
  Found found;
  found.gradients = weights;
  const std::vector<absl::Span<const float>> views(weights.begin(),
                                                   weights.end());
  std::vector<absl::Span<float>> spans;
  for (auto& gradient : found.gradients) {
    spans.push_back(absl::MakeSpan(gradient));
  }
  const Batch batch = RandomBatch(one);
  found.metrics = *network->Step(views, batch, options, spans, [](size_t) {});
  found.stepped = found.metrics.Values();
  found.evaluated = network->Evaluate(views, batch)->Values();
  found.scaling = network->loss_scaling();
  return found;
}

Network::MakeDevice MakerOf(ComputeFormat format) {
  return [format] {
    std::unique_ptr<Device> device = MakeTestDevice();
    device->SetComputeFormat(format);
    return device;
  };
}

void ExpectNear(const std::vector<NamedValue>& found,
                const std::vector<NamedValue>& wanted, double tolerance) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(found[i].name, wanted[i].name);
    EXPECT_NEAR(found[i].value, wanted[i].value,
                tolerance * std::max(1.0, std::abs(wanted[i].value)))
        << wanted[i].name;
  }
}

void ExpectNear(const std::vector<std::vector<float>>& found,
                const std::vector<std::vector<float>>& wanted,
                double tolerance) {
  for (size_t v = 0; v < wanted.size(); ++v) {
    double largest = 0;
    for (const float value : wanted[v]) {
      largest = std::max<double>(largest, std::abs(value));
    }
    for (size_t i = 0; i < wanted[v].size(); ++i) {
      ASSERT_NEAR(found[v][i], wanted[v][i], tolerance * largest)
          << "variable " << v << ", element " << i;
    }
  }
}

using NetworkLossTest = OnTestDevice;

TEST_F(NetworkLossTest, EachLossAndItsMetricsAreTheProcessors) {
  for (const Case& one : Cases()) {
    SCOPED_TRACE(one.loss);
    const Found wanted = Train(one, nullptr, {.divisor = kExamples});
    const Found found =
        Train(one, MakerOf(ComputeFormat::kFp32), {.divisor = kExamples});
    EXPECT_EQ(found.metrics.examples, kExamples);
    EXPECT_EQ(found.metrics.labels, wanted.metrics.labels);
    EXPECT_EQ(found.metrics.correct, wanted.metrics.correct);
    ExpectNear(found.stepped, wanted.stepped, 1e-5);
    ExpectNear(found.evaluated, wanted.evaluated, 1e-5);
    ExpectNear(found.gradients, wanted.gradients, 1e-5);
    // Whether there is a gradient makes no difference.
    ExpectNear(found.evaluated, found.stepped, 0);
  }
}

TEST_F(NetworkLossTest, InTwoBytesTheyAreNear) {
  for (const auto& [format, tolerance] :
       {std::pair(ComputeFormat::kBf16, 0.1),
        std::pair(ComputeFormat::kFp16, 0.02)}) {
    for (const Case& one : Cases()) {
      SCOPED_TRACE(one.loss);
      const Found wanted = Train(one, nullptr, {.divisor = kExamples});
      const Found found = Train(one, MakerOf(format), {.divisor = kExamples});
      EXPECT_EQ(found.metrics.labels, wanted.metrics.labels);
      ExpectNear(found.evaluated, found.stepped, 0);
      EXPECT_NEAR(found.metrics.loss_sum, wanted.metrics.loss_sum,
                  tolerance * std::abs(wanted.metrics.loss_sum));
      ExpectNear(found.gradients, wanted.gradients, tolerance);
    }
  }
}

TEST_F(NetworkLossTest, OnlyLossesWithClassesHaveALabelToIgnore) {
  for (const v1::Loss loss :
       {v1::BINARY_CROSS_ENTROPY, v1::MEAN_SQUARED_ERROR, v1::KL_DIVERGENCE}) {
    const Case one{.loss = "", .label = DType::kFloat32};
    v1::ModelConfig config;
    config.add_layers()->mutable_dense()->set_units(kClasses);
    config.set_loss(loss);
    // As a job file that does not set it has it.
    config.set_ignore_label(-100);
    EXPECT_TRUE(Network::Create(config, InputOf(one)).ok());
    config.set_ignore_label(-1);
    const absl::Status refused = Network::Create(config, InputOf(one)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                ::testing::HasSubstr("ignore_label are of "
                                     "softmax_cross_entropy; the loss is "));
  }
}

// The same outputs, which are still on the device, with another scale.
TEST_F(NetworkLossTest, AGradientThatOverflowedIsComputedAgain) {
  for (const Case& one : Cases()) {
    SCOPED_TRACE(one.loss);
    // Some 65536 times what fp16 has.
    const TrainedModel::StepOptions options{.divisor = 1e-4};
    const Found wanted = Train(one, nullptr, options);
    const Found found = Train(one, MakerOf(ComputeFormat::kFp16), options);
    EXPECT_GT(found.scaling.overflows, 0u);
    EXPECT_EQ(found.metrics.labels, wanted.metrics.labels);
    ExpectNear(found.stepped, found.evaluated, 0);
    ExpectNear(found.gradients, wanted.gradients, 0.02);
  }
}

TEST_F(NetworkLossTest, AWeightThatIsNotFiniteShowsInEachLoss) {
  for (const Case& one : Cases()) {
    for (const float bad : {std::nanf(""), INFINITY}) {
      const Found found = Train(one, MakerOf(ComputeFormat::kFp32),
                                {.divisor = kExamples}, bad);
      EXPECT_FALSE(std::isfinite(found.metrics.loss_sum)) << one.loss;
    }
  }
}

}  // namespace
}  // namespace paramd
