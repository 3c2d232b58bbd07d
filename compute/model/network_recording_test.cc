// Networks whose device replays what it has recorded, beside new ones, which
// have recorded nothing.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "compute/device/device_link.h"
#include "compute/device/testing/test_device.h"
#include "compute/model/network.h"
#include "input/testing/random_batch.h"

namespace paramd {
namespace {

constexpr size_t kBatch = 6;
const InputSpec kImages = LabelledImages({6, 6}, 4);
const InputSpec kText{
    {FeatureSpec{
         .name = "text", .dtype = DType::kInt32, .dims = {8}, .classes = 7},
     FeatureSpec{
         .name = "label", .dtype = DType::kInt32, .dims = {8}, .classes = 7}}};

constexpr char kMlp[] = R"(
    layers { flatten {} } layers { dense { units: 12 } } layers { relu {} }
    layers { dense { units: 9 } } layers { tanh {} }
    layers { dense { units: 4 } })";
constexpr char kCnn[] = R"(
    layers { conv2d { filters: 4 kernel: 3 stride: 1 groups: 1 bias: true } }
    layers { batch_norm { momentum: 0.9 epsilon: 1e-5 } } layers { relu {} }
    layers { residual { drop_rate: 0.3
      layers { conv2d { filters: 4 kernel: 3 stride: 1 groups: 1
                        padding: SAME } } } }
    layers { max_pool { size: 2 stride: 2 } } layers { flatten {} }
    layers { dropout { rate: 0.4 } } layers { dense { units: 4 } })";
constexpr char kGpt[] = R"(
    layers { embedding { width: 8 } } layers { positional_embedding {} }
    layers { residual { layers { layer_norm { epsilon: 1e-5 } }
                        layers { attention { heads: 2 causal: true } } } }
    layers { residual { layers { layer_norm { epsilon: 1e-5 } }
                        layers { dense { units: 16 } } layers { gelu {} }
                        layers { dense { units: 8 } } } }
    layers { dense { units: 7 } })";
constexpr char kRecomputed[] = R"(
    layers { recompute {
      layers { conv2d { filters: 4 kernel: 3 stride: 1 groups: 1 } }
      layers { batch_norm { momentum: 0.9 epsilon: 1e-5 } }
      layers { recompute { layers { relu {} }
                           layers { dropout { rate: 0.5 } } } }
      layers { flatten {} } layers { dense { units: 10 } } } }
    layers { relu {} } layers { dense { units: 4 } })";
constexpr char kShared[] = R"(
    layers { flatten {} }
    layers { dense { units: 12 name: "in" } } layers { tanh {} }
    layers { dense { units: 12 name: "again" } } layers { tanh {} }
    layers { dense { units: 12 name: "again" } } layers { sigmoid {} }
    layers { dense { units: 4 } })";

v1::ModelConfig Parsed(const std::string& layers) {
  v1::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(layers, &config))
      << layers;
  config.set_loss(v1::SOFTMAX_CROSS_ENTROPY);
  return config;
}

Batch BatchOf(const InputSpec& input, const Portion& range) {
  return RandomBatch(input, range, range.epoch * 1000 + range.begin);
}

// A network that does one step after the other, and a new one for each step.
class Lasting {
 public:
  using Options = TrainedModel::StepOptions;

  Lasting(const std::string& layers, InputSpec input,
          ComputeFormat format = ComputeFormat::kFp32)
      : config_(Parsed(layers)),
        input_(std::move(input)),
        format_(format),
        network_(Make()) {
    RandomStream random(5);
    for (const v1::Variable& variable : network_->variables()) {
      size_t size = 1;
      for (const uint64_t dimension : variable.shape()) size *= dimension;
      weights.emplace_back(size);
      for (float& value : weights.back()) value = random.Uniform() - 0.3f;
      if (!variable.untrained()) continue;
      for (float& value : weights.back()) value += 0.4f;  // A variance.
    }
  }

  // Both give the same bits; then weights are moved.
  void Step(const Portion& range, Options options = {}) {
    const Batch batch = BatchOf(input_, range);
    options.divisor = kBatch;
    options.seed = 3;
    const auto found = GradientsOf(network_.get(), batch, options);
    const auto wanted = GradientsOf(Make().get(), batch, options);
    EXPECT_EQ(found, wanted) << "from " << range.begin << " of " << range.epoch;
    for (size_t v = 0; v < weights.size(); ++v) {
      const float rate = network_->variables()[v].untrained() ? 1 : 0.05f;
      for (size_t i = 0; i < weights[v].size(); ++i) {
        weights[v][i] -= rate * found[v][i];
      }
    }
  }
  void Evaluate(size_t examples) {
    const Batch batch = BatchOf(input_, {0, 500, 500 + examples});
    const std::vector<absl::Span<const float>> views(weights.begin(),
                                                     weights.end());
    EXPECT_EQ(network_->Evaluate(views, batch)->loss_sum,
              Make()->Evaluate(views, batch)->loss_sum);
  }
  // Full batches and a smaller one.
  void Epoch(uint64_t epoch, size_t batches, const Options& options = {}) {
    for (size_t i = 0; i < batches; ++i) {
      Step({epoch, i * kBatch, (i + 1) * kBatch}, options);
    }
    Step({epoch, batches * kBatch, batches * kBatch + kBatch - 2}, options);
  }

  // Since the last call, if the device has something to record.
  void ExpectReplays() {
    DeviceLink* const link = network_->link();
    if (link == nullptr) return;
    EXPECT_TRUE(link->records());
    EXPECT_GT(link->counts().replays, replays_);
    replays_ = link->counts().replays;
  }

  std::vector<std::vector<float>> weights;  // Of the next step.

 private:
  std::unique_ptr<Network> Make() const {
    return *Network::Create(config_, input_, [format = format_] {
      std::unique_ptr<Device> device = MakeTestDevice();
      device->SetComputeFormat(format);
      return device;
    });
  }
  // With the loss after them.
  std::vector<std::vector<float>> GradientsOf(Network* network,
                                              const Batch& batch,
                                              const Options& options) const {
    const std::vector<absl::Span<const float>> views(weights.begin(),
                                                     weights.end());
    std::vector<std::vector<float>> gradients;
    for (const auto& one : weights) gradients.emplace_back(one.size(), -9.0f);
    std::vector<absl::Span<float>> spans;
    for (auto& one : gradients) spans.push_back(absl::MakeSpan(one));
    const auto metrics =
        network->Step(views, batch, options, spans, [](size_t) {});
    EXPECT_TRUE(metrics.ok()) << metrics.status();
    gradients.push_back({static_cast<float>(metrics->loss_sum)});
    return gradients;
  }

  const v1::ModelConfig config_;
  const InputSpec input_;
  const ComputeFormat format_;
  const std::unique_ptr<Network> network_;
  uint64_t replays_ = 0;
};

using NetworkRecordingTest = OnTestDevice;

TEST_F(NetworkRecordingTest, WhatIsReplayedGivesTheBitsOfWhatIsCalled) {
  const std::pair<const char*, const InputSpec*> cases[] = {
      {kMlp, &kImages},
      {kCnn, &kImages},
      {kGpt, &kText},
      {kRecomputed, &kImages},
      {kShared, &kImages}};
  for (const auto& [layers, input] : cases) {
    Lasting lasting(layers, *input);
    for (const uint64_t epoch : {1, 2}) {
      lasting.Epoch(epoch, 5);
      lasting.ExpectReplays();
    }
  }
}

TEST_F(NetworkRecordingTest, EachFormatGivesTheBitsOfWhatIsCalled) {
  for (const ComputeFormat format :
       {ComputeFormat::kTf32, ComputeFormat::kBf16, ComputeFormat::kFp16}) {
    Lasting lasting(kCnn, kImages, format);
    lasting.Epoch(1, 5, {.loss_scale = 1024});
    lasting.ExpectReplays();
  }
}

TEST_F(NetworkRecordingTest, ALossScaleMayChangeFromStepToStep) {
  Lasting lasting(kMlp, kImages, ComputeFormat::kFp16);
  for (uint64_t i = 0; i < 12; ++i) {
    lasting.Step({1, i, i + kBatch},
                 {.loss_scale = static_cast<double>(1 << (i % 3))});
  }
  lasting.ExpectReplays();
  // Overflows: each backward pass of such a step is a replay, too.
  for (uint64_t i = 0; i < 3; ++i) {
    lasting.Step({1, i, i + kBatch},
                 {.loss_scale = 1e7, .remembers_loss_scale = false});
  }
  lasting.ExpectReplays();
}

TEST_F(NetworkRecordingTest, ALargerEvaluationBetweenStepsIsNoMatter) {
  Lasting lasting(kCnn, kImages);
  lasting.Epoch(1, 5);
  lasting.ExpectReplays();
  // The device's memory is elsewhere from now on.
  lasting.Evaluate(4 * kBatch);
  lasting.Epoch(2, 5);
  lasting.ExpectReplays();
  lasting.Evaluate(3);
  lasting.Epoch(3, 4);
  lasting.ExpectReplays();
}

TEST_F(NetworkRecordingTest, FreshWeightsElsewhereAreRead) {
  Lasting lasting(kMlp, kImages);
  lasting.Epoch(1, 5);
  std::vector<std::vector<float>> rewound = lasting.weights;
  for (auto& one : rewound) {
    for (float& value : one) value = 0.1f - value;
  }
  lasting.weights.swap(rewound);
  lasting.Epoch(1, 5);
  lasting.ExpectReplays();
}

// As many rows in each step, and each time others.
TEST_F(NetworkRecordingTest, RowsOfSparseVariablesAreThoseOfTheStep) {
  const InputSpec input{
      {{"ids", DType::kInt32, {3}, 100}, {"label", DType::kInt32, {}, 4}}};
  const v1::ModelConfig config = Parsed(R"(
      layers { embedding { width: 4 sparse: true } } layers { flatten {} }
      layers { dense { units: 4 } })");
  const auto lasting = *Network::Create(config, input, MakeTestDevice);
  std::vector<float> table(100 * 4), kernel(12 * 4), bias(4);
  RandomStream random(5);
  for (std::vector<float>* const one : {&table, &kernel, &bias}) {
    for (float& value : *one) value = random.Uniform() - 0.5f;
  }
  for (uint64_t step = 0; step < 8; ++step) {
    const Batch batch = BatchOf(input, {1, step, step + kBatch});
    std::vector<std::vector<uint64_t>> found(1);
    ASSERT_TRUE(lasting->FindRows(batch, absl::MakeSpan(found)).ok());
    std::vector<uint64_t>& rows = found[0];
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    // Some more than it reads, to be as many.
    for (uint64_t row = 0; rows.size() < 3 * kBatch; ++row) {
      const auto at = std::lower_bound(rows.begin(), rows.end(), row);
      if (at == rows.end() || *at != row) rows.insert(at, row);
    }
    std::vector<float> values;
    for (const uint64_t row : rows) {
      values.insert(values.end(), table.begin() + row * 4,
                    table.begin() + row * 4 + 4);
    }
    const std::vector<absl::Span<const uint64_t>> views = {rows};
    const auto gradients_of = [&](Network* network) {
      std::vector<std::vector<float>> gradients = {values, kernel, bias};
      std::vector<absl::Span<float>> spans;
      for (auto& one : gradients) spans.push_back(absl::MakeSpan(one));
      EXPECT_TRUE(network
                      ->Step({values, kernel, bias}, batch,
                             {.divisor = kBatch, .rows = views}, spans,
                             [](size_t) {})
                      .ok());
      return gradients;
    };
    const auto fresh = *Network::Create(config, input, MakeTestDevice);
    EXPECT_EQ(gradients_of(lasting.get()), gradients_of(fresh.get())) << step;
  }
  if (lasting->link() != nullptr) {
    EXPECT_GT(lasting->link()->counts().replays, 0u);
  }
}

TEST_F(NetworkRecordingTest, ReadyHearsOfEachGradientInTheSameOrder) {
  const Batch batch = BatchOf(kImages, {1, 0, kBatch});
  const auto network = *Network::Create(Parsed(kMlp), kImages, MakeTestDevice);
  std::vector<std::vector<float>> weights;
  for (const v1::Variable& variable : network->variables()) {
    size_t size = 1;
    for (const uint64_t dimension : variable.shape()) size *= dimension;
    weights.emplace_back(size, 0.5f);
  }
  std::vector<std::vector<float>> gradients = weights;
  const std::vector<absl::Span<const float>> views(weights.begin(),
                                                   weights.end());
  std::vector<absl::Span<float>> spans;
  for (auto& one : gradients) spans.push_back(absl::MakeSpan(one));
  for (int step = 0; step < 6; ++step) {
    std::vector<size_t> ready;
    ASSERT_TRUE(network
                    ->Step(views, batch, {.divisor = kBatch}, spans,
                           [&](size_t v) { ready.push_back(v); })
                    .ok());
    EXPECT_EQ(ready, (std::vector<size_t>{5, 4, 3, 2, 1, 0}));
  }
}

}  // namespace
}  // namespace paramd
