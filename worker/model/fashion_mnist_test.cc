#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "base/random.h"
#include "worker/input/batch_assembler.h"
#include "worker/input/direct_batch_source.h"
#include "worker/input/open_dataset.h"
#include "worker/model/model.h"

namespace paramd {
namespace {

constexpr char kDirectory[] = "/usr/share/datasets/fashion-mnist";
constexpr uint64_t kExamplesPerEpoch = 10000;
constexpr float kRate = 0.05f;

v1::InputConfig FashionMnist() {
  v1::InputConfig config;
  config.set_format(v1::InputConfig::IDX);
  config.set_directory(kDirectory);
  config.set_train_images("train-images-idx3-ubyte.gz");
  config.set_train_labels("train-labels-idx1-ubyte.gz");
  config.set_test_images("t10k-images-idx3-ubyte.gz");
  config.set_test_labels("t10k-labels-idx1-ubyte.gz");
  return config;
}

v1::ModelConfig Mlp() {
  v1::ModelConfig config;
  config.add_layers()->mutable_flatten();
  config.add_layers()->mutable_dense()->set_units(128);
  config.add_layers()->mutable_relu();
  config.add_layers()->mutable_dense()->set_units(10);
  config.set_loss(v1::SOFTMAX_CROSS_ENTROPY);
  return config;
}

// Plain stochastic gradient descent in one thread.
class Trainer {
 public:
  explicit Trainer(Model* model) : model_(*model) {
    for (const v1::Variable& variable : model_.variables()) {
      size_t size = 1;
      for (const uint64_t dimension : variable.shape()) size *= dimension;
      const v1::Initializer& initializer = variable.initializer();
      const CounterRandom random(StableHash(variable.name(), /*seed=*/1));
      std::vector<float> values(size);
      for (size_t i = 0; i < size; ++i) {
        values[i] =
            initializer.low() +
            random.Uniform(i) * (initializer.high() - initializer.low());
      }
      weights_.push_back(values);
      gradients_.push_back(values);
    }
    for (size_t v = 0; v < weights_.size(); ++v) {
      weight_views_.emplace_back(weights_[v]);
      gradient_views_.push_back(absl::MakeSpan(gradients_[v]));
    }
  }

  void Step(const Batch& batch) {
    model_.ComputeGradient(weight_views_, batch,
                           static_cast<float>(batch.size()), gradient_views_);
    for (size_t v = 0; v < weights_.size(); ++v) {
      for (size_t i = 0; i < weights_[v].size(); ++i) {
        weights_[v][i] -= kRate * gradients_[v][i];
      }
    }
  }

  BatchResult Evaluate(const Batch& batch) {
    return model_.Evaluate(weight_views_, batch);
  }

 private:
  Model& model_;
  std::vector<std::vector<float>> weights_, gradients_;
  std::vector<absl::Span<const float>> weight_views_;
  std::vector<absl::Span<float>> gradient_views_;
};

TEST(FashionMnistTest, TenTimesTenThousandImagesReachASaneAccuracy) {
  if (!std::filesystem::exists(kDirectory)) {
    GTEST_SKIP() << "the Debian package dataset-fashion-mnist is not installed";
  }
  const auto training = OpenTrainingData(FashionMnist());
  ASSERT_TRUE(training.ok()) << training.status();
  EXPECT_EQ((*training)->size(), 60000u);
  EXPECT_EQ((*training)->spec().classes, 10u);
  const auto test = OpenTestData(FashionMnist(), (*training)->spec());
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ((*test)->size(), 10000u);
  const auto model = Model::Create(Mlp(), (*training)->spec());
  ASSERT_TRUE(model.ok()) << model.status();
  Trainer trainer(model->get());

  DirectBatchSource source(**training, {.seed = 1, .batch_size = 32});
  for (uint64_t epoch = 0; epoch < 10; ++epoch) {
    ASSERT_TRUE(
        source.Add({.epoch = epoch, .begin = 0, .end = kExamplesPerEpoch})
            .ok());
  }
  source.NoMore();
  while (true) {
    auto next = source.Next();
    ASSERT_TRUE(next.ok()) << next.status();
    if (next->state == BatchSource::NextBatch::kEnd) break;
    trainer.Step(*next->batch);
    source.Recycle(std::move(next->batch));
  }

  BatchAssembler assembler(**test, absl::nullopt);
  BatchResult result;
  Batch batch;
  for (uint64_t begin = 0; begin < (*test)->size(); begin += 1000) {
    ASSERT_TRUE(assembler.Assemble({0, begin, begin + 1000}, &batch).ok());
    result += trainer.Evaluate(batch);
  }
  EXPECT_GT(result.accuracy(), 0.80);
  EXPECT_LT(result.mean_loss(), 0.6);
  RecordProperty("accuracy", std::to_string(result.accuracy()));
}

}  // namespace
}  // namespace paramd
