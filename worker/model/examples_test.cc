// The job files of config/examples, trained in one thread by Adam with a rate
// that falls along half a cosine, over part of the examples.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "config/job_config.h"
#include "worker/input/open_pipeline.h"
#include "worker/model/network.h"

namespace paramd {
namespace {

constexpr char kDirectory[] = "/usr/share/datasets/fashion-mnist";

class Trainer {
 public:
  Trainer(Network* network, double rate, uint64_t steps)
      : network_(*network), rate_(rate), steps_(steps) {
    for (const v1::Variable& variable : network_.variables()) {
      size_t size = 1;
      for (const uint64_t dimension : variable.shape()) size *= dimension;
      const v1::Initializer& initializer = variable.initializer();
      const CounterRandom random(StableHash(variable.name(), /*seed=*/1));
      std::vector<float>& values = weights_.emplace_back(size);
      for (size_t i = 0; i < size; ++i) {
        values[i] =
            initializer.low() +
            random.Uniform(i) * (initializer.high() - initializer.low());
      }
      gradients_.emplace_back(size);
      means_.emplace_back(size);
      squares_.emplace_back(size);
    }
    for (size_t v = 0; v < weights_.size(); ++v) {
      weight_views_.emplace_back(weights_[v]);
      gradient_views_.push_back(absl::MakeSpan(gradients_[v]));
    }
  }

  void Step(const Batch& batch) {
    const auto result =
        network_.Step(weight_views_, batch,
                      {.divisor = static_cast<double>(batch.size()), .seed = 1},
                      gradient_views_, [](size_t) {});
    ASSERT_TRUE(result.ok()) << result.status();
    ++step_;
    const double done =
        static_cast<double>(step_ - 1) / static_cast<double>(steps_);
    const double correction = std::sqrt(1 - std::pow(0.999, step_)) /
                              (1 - std::pow(0.9, step_));
    const float rate = static_cast<float>(
        rate_ * correction * (1 + std::cos(M_PI * done)) / 2);
    for (size_t v = 0; v < weights_.size(); ++v) {
      const bool untrained = network_.variables()[v].untrained();
      for (size_t i = 0; i < weights_[v].size(); ++i) {
        const float g = gradients_[v][i];
        if (untrained) {
          weights_[v][i] -= g;
          continue;
        }
        float& mean = means_[v][i];
        float& square = squares_[v][i];
        mean = 0.9f * mean + 0.1f * g;
        square = 0.999f * square + 0.001f * g * g;
        weights_[v][i] -= rate * mean / (std::sqrt(square) + 1e-7f);
      }
    }
  }

  Metrics Evaluate(const Batch& batch) {
    return *network_.Evaluate(weight_views_, batch);
  }

 private:
  Network& network_;
  const double rate_;
  const uint64_t steps_;
  uint64_t step_ = 0;
  std::vector<std::vector<float>> weights_, gradients_, means_, squares_;
  std::vector<absl::Span<const float>> weight_views_;
  std::vector<absl::Span<float>> gradient_views_;
};

// What the example gives over the test set. Trains on the first `examples` of
// each epoch's order; evaluates on as many, at most all.
Metrics Train(const std::string& example, uint64_t examples, uint64_t epochs) {
  JobSources sources;
  sources.file = absl::StrCat("config/examples/", example, ".json");
  const auto job = LoadJob(sources);
  EXPECT_TRUE(job.ok()) << job.status();
  const v1::JobConfig& config = job->config;
  const auto training = OpenTrainingData(config.input(), /*seed=*/1);
  EXPECT_TRUE(training.ok()) << training.status();
  const auto test = OpenTestData(config.input(), (*training)->spec());
  EXPECT_TRUE(test.ok()) << test.status();
  const auto network = Network::Create(config.model(), (*training)->spec());
  EXPECT_TRUE(network.ok()) << network.status();
  const uint64_t size = std::min<uint64_t>(examples, (*training)->size());
  const uint64_t batch_size = config.batch_per_replica();
  Trainer trainer(network->get(), config.optimizer().learning_rate(),
                  epochs * ((size + batch_size - 1) / batch_size));
  Batch batch;
  for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
    for (uint64_t begin = 0; begin < size; begin += batch_size) {
      const uint64_t end = std::min(begin + batch_size, size);
      EXPECT_TRUE((*training)->Read({epoch, begin, end}, &batch).ok());
      trainer.Step(batch);
    }
  }
  Metrics metrics;
  for (uint64_t begin = 0; begin < std::min(size, (*test)->size());
       begin += 500) {
    EXPECT_TRUE((*test)->Read({0, begin, begin + 500}, &batch).ok());
    metrics += trainer.Evaluate(batch);
  }
  for (const NamedValue& value : metrics.Values()) {
    std::printf("%s: %s %.4f\n", example.c_str(), value.name.c_str(),
                value.value);
  }
  return metrics;
}

class ExamplesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::filesystem::exists(kDirectory)) return;
    GTEST_SKIP() << "the Debian package dataset-fashion-mnist is not installed";
  }
};

using ShortExamplesTest = ExamplesTest;
using WholeExamplesTest = ExamplesTest;

TEST_F(ShortExamplesTest, SoftmaxRegressionLearns) {
  EXPECT_GT(Train("linear_softmax", 5000, 2).accuracy(), 0.70);
}

TEST_F(ShortExamplesTest, CnnLearns) {
  EXPECT_GT(Train("cnn", 3000, 1).accuracy(), 0.65);
}

TEST_F(ShortExamplesTest, AutoencoderLearns) {
  EXPECT_LT(Train("autoencoder", 4000, 2).mean_loss(), 0.06);
}

TEST_F(WholeExamplesTest, CnnReaches0905) {
  EXPECT_GE(Train("cnn", 60000, 6).accuracy(), 0.905);
}

TEST_F(WholeExamplesTest, AutoencoderReaches0015) {
  EXPECT_LE(Train("autoencoder", 60000, 5).mean_loss(), 0.015);
}

}  // namespace
}  // namespace paramd
