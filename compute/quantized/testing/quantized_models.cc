#include "compute/quantized/testing/quantized_models.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "checkpoint/checkpoint_weights.h"
#include "checkpoint/quantization.h"

namespace paramd {
namespace {

class ImagesSource : public ExampleSource {
 public:
  explicit ImagesSource(bool constant) : constant_(constant) {}

  const InputSpec& spec() const override { return spec_; }
  uint64_t size() const override { return 64; }
  v1::DataSet Describe() const override { return {}; }
  absl::Status Read(uint64_t index, Example* example) const override {
    RandomStream random(index);
    example->values.resize(2);
    example->values[0].Reset(DType::kFloat32, {256});
    for (float& value : example->values[0].values<float>()) {
      value = constant_ ? 5.5f : static_cast<float>(random.Below(200)) / 100;
    }
    example->values[1].Reset(DType::kInt32, {});
    example->values[1].values<int32_t>()[0] = static_cast<int32_t>(index % 3);
    return absl::OkStatus();
  }

 private:
  const bool constant_;
  const InputSpec spec_ = LabelledImages({256}, 3);
};

}  // namespace

std::unique_ptr<Pipeline> OpenRandomImages(bool constant) {
  auto pipeline =
      Pipeline::Create(std::make_unique<ImagesSource>(constant),
                       v1::InputConfig(), {.seed = 1, .training = true});
  EXPECT_TRUE(pipeline.ok()) << pipeline.status();
  return *std::move(pipeline);
}

v1::ModelConfig ClassifierOf(absl::string_view layers) {
  v1::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      std::string(layers) + " loss: SOFTMAX_CROSS_ENTROPY", &config));
  return config;
}

std::vector<absl::Span<const float>> SpansOf(const ModelWeights& weights) {
  return {weights.begin(), weights.end()};
}

ModelWeights RandomModelWeights(const NetworkPlan& plan, uint64_t seed) {
  RandomStream random(seed);
  ModelWeights weights;
  for (const v1::Variable& variable : plan.variables) {
    const Dims dims(variable.shape().begin(), variable.shape().end());
    auto& values = weights.emplace_back(SizeOf(dims));
    const double scale = dims.size() < 2
                             ? 0.3
                             : 2 / std::sqrt(static_cast<double>(SizeOf(dims)) /
                                             static_cast<double>(dims.back()));
    const bool is_variance =
        variable.name().find("/variance") != std::string::npos;
    for (float& value : values) {
      value = static_cast<float>(
          (static_cast<double>(random.Below(2001)) / 1000 - 1) * scale);
      if (is_variance) value = std::fabs(value) * 1000 + 0.5f;
    }
  }
  return weights;
}

std::vector<float> PredictionsOf(const ModelWeights& weights,
                                 const Pipeline& data, TrainedModel* model) {
  Batch batch;
  Batch out;
  EXPECT_TRUE(
      data.Read({.epoch = 1, .begin = 0, .end = data.size()}, &batch).ok());
  const absl::Status predicted = model->Predict(SpansOf(weights), batch, &out);
  EXPECT_TRUE(predicted.ok()) << predicted;
  if (!predicted.ok()) return {};
  const auto values = out.columns.front().values<float>();
  return {values.begin(), values.end()};
}

float Farthest(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::fabs(a[i] - b[i]));
  }
  return most;
}

WrittenModel WriteAndRead(const NetworkPlan& plan, const Quantized& made,
                          const std::string& name) {
  WrittenModel written;
  written.directory = ::testing::TempDir() + name;
  std::filesystem::remove_all(written.directory);
  v1::Manifest manifest;
  manifest.set_global_step(7);
  manifest.mutable_snapshot()->set_term(1);
  for (const v1::Variable& variable : plan.variables) {
    *manifest.add_variables() = variable;
  }
  const auto bytes = WriteQuantized(written.directory, manifest,
                                    made.quantization, made.tensors);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  auto read = ReadWeights(written.directory, plan.variables, 1, {});
  EXPECT_TRUE(read.ok()) << read.status();
  if (read.ok()) written.weights = *std::move(read);
  return written;
}

}  // namespace paramd
