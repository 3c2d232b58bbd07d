// What crosses where a device with a memory of its own computes the loss.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "base/check.h"
#include "base/random.h"
#include "compute/device/testing/emulated_device.h"
#include "compute/device/testing/host_kernels.h"
#include "compute/model/network.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kExamples = 8;
constexpr uint64_t kPixels = 6 * 6;

// One layer of so many classes, on an emulated device with a GPU's kernels.
class Trial {
 public:
  Trial(uint64_t classes, const std::string& loss,
        ComputeFormat format = ComputeFormat::kFp32,
        const EmulatedAccelerator::Options& options = {.in_haste = true})
      : input_(LabelledImages({6, 6}, classes)) {
    v1::ModelConfig config;
    CHECK(google::protobuf::TextFormat::ParseFromString(
              "layers { flatten {} } loss: SOFTMAX_CROSS_ENTROPY " + loss,
              &config),
          "the test's models are read");
    config.add_layers()->mutable_dense()->set_units(
        static_cast<uint32_t>(classes));
    model_ = *Network::Create(config, input_, [&, this] {
      auto device = std::make_unique<EmulatedDevice>(
          options, std::make_unique<HostKernelDevice>());
      device->SetComputeFormat(format);
      accelerator_ = device->accelerator();
      return device;
    });
    RandomStream random(5);
    for (const uint64_t size : {kPixels * classes, classes}) {
      values_.emplace_back(size);
      for (float& value : values_.back()) value = random.Uniform() - 0.5f;
    }
    gradients_ = values_;
  }

  Batch SomeBatch(uint64_t examples = kExamples) const {
    RandomStream random(1);
    Batch batch;
    batch.Reset(input_, examples);
    for (float& value : batch.Find("image")->values<float>()) {
      value = random.Uniform();
    }
    for (int32_t& label : batch.Find("label")->values<int32_t>()) {
      label = static_cast<int32_t>(random.Below(2));
    }
    return batch;
  }
  absl::StatusOr<Metrics> Step(const Batch& batch, double divisor = kExamples) {
    std::vector<absl::Span<float>> spans;
    for (auto& one : gradients_) spans.push_back(absl::MakeSpan(one));
    return model_->Step({values_[0], values_[1]}, batch, {.divisor = divisor},
                        spans, [](size_t) {});
  }
  absl::StatusOr<Metrics> Evaluate(const Batch& batch) {
    return model_->Evaluate({values_[0], values_[1]}, batch);
  }

  // Between host memory and the device's while it is called; weights crossed
  // before.
  template <class Function>
  uint64_t CrossedBy(Function f) {
    const uint64_t before = accelerator_->bytes_crossed();
    CHECK(f().ok(), "a pass is computed");
    return accelerator_->bytes_crossed() - before;
  }
  uint64_t gradient_bytes() const {
    return (values_[0].size() + values_[1].size()) * sizeof(float);
  }
  LossScaling scaling() const { return model_->loss_scaling(); }

 private:
  const InputSpec input_;
  EmulatedAccelerator* accelerator_ = nullptr;
  std::unique_ptr<Network> model_;
  std::vector<std::vector<float>> values_;
  std::vector<std::vector<float>> gradients_;
};

// A label, what it weighs, and what is said of its row.
constexpr uint64_t kLossBytes =
    kExamples *
    (sizeof(int32_t) + sizeof(double) + RowLoss::kNumbers * sizeof(double));
constexpr uint64_t kInputBytes = kExamples * kPixels * sizeof(float);

TEST(ExchangeLossTest, NoOutputsCrossInAStepOrAnEvaluation) {
  for (const ComputeFormat format :
       {ComputeFormat::kFp32, ComputeFormat::kBf16}) {
    for (const uint64_t classes : {10, 1000}) {
      Trial run(classes, "metrics: [TOP_K, PERPLEXITY, ACCURACY]", format);
      const Batch batch = run.SomeBatch();
      ASSERT_TRUE(run.Step(batch).ok());
      EXPECT_EQ(run.CrossedBy([&] { return run.Step(batch); }),
                kInputBytes + kLossBytes + run.gradient_bytes());
      EXPECT_EQ(run.CrossedBy([&] { return run.Evaluate(batch); }),
                kInputBytes + kLossBytes);
    }
  }
}

TEST(ExchangeLossTest, ForAnAreaUnderACurveOutputsCrossInAnEvaluationAlone) {
  Trial run(2, "metrics: AUC");
  const Batch batch = run.SomeBatch();
  ASSERT_TRUE(run.Step(batch).ok());
  EXPECT_EQ(run.CrossedBy([&] { return run.Step(batch); }),
            kInputBytes + kLossBytes + run.gradient_bytes());
  EXPECT_EQ(run.CrossedBy([&] { return run.Evaluate(batch); }),
            kInputBytes + kExamples * 2 * sizeof(float));
  const double area = run.Evaluate(batch)->Values()[1].value;
  EXPECT_GE(area, 0);
  EXPECT_LE(area, 1);
}

TEST(ExchangeLossTest, NoOutputsCrossWhereAGradientIsComputedAgain) {
  Trial run(1000, "", ComputeFormat::kFp16);
  const Batch batch = run.SomeBatch();
  // The first finds a scale.
  ASSERT_TRUE(run.Step(batch, 1e-3).ok());
  EXPECT_GT(run.scaling().overflows, 0u);
  const uint64_t flags = 2 * sizeof(float);
  EXPECT_EQ(run.CrossedBy([&] { return run.Step(batch, 1e-3); }),
            kInputBytes + kLossBytes + flags + run.gradient_bytes());
}

// As many examples fit as it says, and no more. How many they are.
void ExpectReckoned(ComputeFormat format, bool training, size_t* fits) {
  const EmulatedAccelerator::Options options{.memory_bytes = 1 << 20,
                                             .in_haste = true};
  Trial run(500, "", format, options);
  const auto pass = [&](uint64_t examples) {
    const Batch batch = run.SomeBatch(examples);
    return training ? run.Step(batch) : run.Evaluate(batch);
  };
  const auto refused = pass(5000);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  const std::string sentence(refused.status().message());
  constexpr char kFits[] = "; a batch of ";
  ASSERT_THAT(sentence, HasSubstr(kFits));
  *fits = std::stoul(sentence.substr(sentence.find(kFits) + sizeof(kFits) - 1));
  EXPECT_GT(*fits, 100u);
  EXPECT_FALSE(pass(*fits + 1).ok());
  const auto fitting = pass(*fits);
  EXPECT_TRUE(fitting.ok()) << fitting.status();
}

TEST(ExchangeLossTest, MemoryForTheLossIsReckonedInEachFormat) {
  for (const bool training : {false, true}) {
    size_t wide = 0;
    size_t half = 0;
    ExpectReckoned(ComputeFormat::kFp32, training, &wide);
    ExpectReckoned(ComputeFormat::kBf16, training, &half);
    EXPECT_GT(half, wide);
  }
}

// The first step of a model with a loss over its batch, on a device of its own.
absl::Status StepOfPairs(uint64_t examples, uint64_t* bytes = nullptr) {
  const InputSpec input{{{"x", DType::kFloat32, {2, 8}},
                         {"item", DType::kInt64, {1}},
                         {"count", DType::kFloat32, {1}}}};
  v1::ModelConfig config;
  CHECK(google::protobuf::TextFormat::ParseFromString(
            "layers { dense { units: 4 } } loss: IN_BATCH_SOFTMAX label: "
            "'item' sampling_probability: 'count'",
            &config),
        "the test's models are read");
  EmulatedAccelerator* accelerator = nullptr;
  const auto model = *Network::Create(config, input, [&] {
    auto device = std::make_unique<EmulatedDevice>(
        EmulatedAccelerator::Options{.memory_bytes = 1 << 20, .in_haste = true},
        std::make_unique<HostKernelDevice>());
    accelerator = device->accelerator();
    return device;
  });
  RandomStream random(1);
  Batch batch;
  batch.Reset(input, examples);
  for (const char* feature : {"x", "count"}) {
    for (float& value : batch.Find(feature)->values<float>()) {
      value = random.Uniform() + 0.5f;
    }
  }
  for (int64_t& item : batch.Find("item")->values<int64_t>()) {
    item = static_cast<int64_t>(random.Below(50));
  }
  const std::vector<std::vector<float>> values = {std::vector<float>(8 * 4),
                                                  std::vector<float>(4)};
  std::vector<std::vector<float>> gradients = values;
  const auto metrics =
      model->Step({values[0], values[1]}, batch, {.divisor = 1.0},
                  {absl::MakeSpan(gradients[0]), absl::MakeSpan(gradients[1])},
                  [](size_t) {});
  if (bytes != nullptr) *bytes = accelerator->bytes_crossed();
  return metrics.status();
}

TEST(ExchangeLossTest, MemoryForTheScoresOfABatchIsReckoned) {
  const absl::Status refused = StepOfPairs(5000);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  const std::string sentence(refused.message());
  constexpr char kFits[] = "; a batch of ";
  ASSERT_THAT(sentence, HasSubstr(kFits));
  const size_t fits =
      std::stoul(sentence.substr(sentence.find(kFits) + sizeof(kFits) - 1));
  // Two matrices of all pairs are a megabyte at 362.
  EXPECT_GT(fits, 250u);
  EXPECT_LT(fits, 362u);
  EXPECT_FALSE(StepOfPairs(fits + 1).ok());
  const absl::Status fitting = StepOfPairs(fits);
  EXPECT_TRUE(fitting.ok()) << fitting;
}

TEST(ExchangeLossTest, NoScoresOfABatchCross) {
  uint64_t bytes = 0;
  ASSERT_TRUE(StepOfPairs(kExamples, &bytes).ok());
  const uint64_t variables = (8 * 4 + 4) * sizeof(float);
  // Two vectors, an item, its correction, its weight, what is said of it.
  const uint64_t each = 2 * 8 * sizeof(float) + sizeof(int64_t) +
                        sizeof(float) + sizeof(double) +
                        RowLoss::kNumbers * sizeof(double);
  EXPECT_EQ(bytes, 2 * variables + kExamples * each);
}

}  // namespace
}  // namespace paramd
