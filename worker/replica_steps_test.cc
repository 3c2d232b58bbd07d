#include "worker/replica_steps.h"

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/mutex.h"

namespace paramd {
namespace {

// Gradients of "a" (3 values) and "b" (1) whose sums depend on their order.
class RoundingModel : public TrainedModel {
 public:
  RoundingModel() : variables_(2) {}
  const std::vector<v1::Variable>& variables() const override {
    return variables_;
  }
  std::unique_ptr<TrainedModel> Clone() const override {
    auto clone = std::make_unique<RoundingModel>();
    clone->tells = tells;
    clone->fails_at = fails_at;
    clone->scaling = {2 * scaling.overflows, scaling.scale / 2};
    return clone;
  }
  absl::StatusOr<Metrics> Step(WeightSpans, const Batch& batch,
                               const StepOptions& options,
                               GradientSpans gradients, Ready ready) override {
    if (batch.range.begin == fails_at) {
      return absl::DataLossError("example 7");
    }
    Metrics metrics;
    metrics.examples = batch.examples;
    metrics.loss_sum = static_cast<double>(batch.range.begin);
    for (size_t v = gradients.size(); v-- > 0;) {
      for (size_t i = 0; i < gradients[v].size(); ++i) {
        const double x = 0.1 + static_cast<double>(batch.range.begin + v + i);
        gradients[v][i] = static_cast<float>(x * x * x / options.divisor);
      }
      if (tells) ready(v);
    }
    return metrics;
  }
  absl::StatusOr<Metrics> Evaluate(WeightSpans, const Batch&) override {
    return Metrics();
  }
  absl::Status Predict(WeightSpans, const Batch&, Batch*) override {
    return absl::OkStatus();
  }
  ModelCost cost() const override { return {}; }
  LossScaling loss_scaling() const override { return scaling; }

  LossScaling scaling;
  bool tells = true;
  uint64_t fails_at = 1000;

 private:
  std::vector<v1::Variable> variables_;
};

class ReplicaStepsTest : public ::testing::Test {
 protected:
  ReplicaStepsTest() {
    job_.set_strategy(v1::JobConfig::CENTRAL_STORAGE);
    job_.set_batch_per_replica(2);
    job_.set_accumulate(1);
    request_.set_end(8);
    request_.set_divide_by(8);
  }

  absl::StatusOr<Metrics> Compute(ReplicaSteps* steps,
                                  std::vector<uint32_t> shares) {
    gradients_ = {{9, 9, 9}, {9}};
    std::vector<absl::Span<float>> spans = {absl::MakeSpan(gradients_[0]),
                                            absl::MakeSpan(gradients_[1])};
    ready_.clear();
    const ReplicaSteps::Source source = {
        .take = [&](const Portion& range)
            -> absl::StatusOr<std::unique_ptr<Batch>> {
          auto batch = std::make_unique<Batch>();
          batch->range = range;
          batch->examples = range.size();
          taken_.push_back(range.begin);
          return batch;
        },
        .recycle = [](std::unique_ptr<Batch>) {}};
    return steps->Compute(request_, shares, weights_, source, nullptr,
                          absl::MakeSpan(spans), [&](size_t v) {
                            const MutexLock lock(&mutex_);
                            ready_.push_back(v);
                          });
  }

  // Of so many replicas, which have `shares`.
  std::vector<std::vector<float>> Gradient(uint32_t replicas, uint32_t here,
                                           std::vector<uint32_t> shares) {
    job_.set_replicas(replicas);
    ReplicaSteps steps(job_, here, &model_);
    EXPECT_TRUE(Compute(&steps, std::move(shares)).ok());
    return gradients_;
  }

  v1::JobConfig job_;
  v1::ComputeGradient request_;
  RoundingModel model_;
  StepWeights weights_;
  std::vector<std::vector<float>> gradients_;
  std::vector<uint64_t> taken_;
  Mutex mutex_;
  std::vector<size_t> ready_;
};

TEST_F(ReplicaStepsTest, TheSumHasTheBitsOfOneReplicaThatComputesAllInTurn) {
  job_.set_accumulate(4);
  const auto in_turn = Gradient(1, 1, {0});
  job_.set_accumulate(1);
  for (int again = 0; again < 50; ++again) {
    EXPECT_EQ(Gradient(4, 4, {0, 1, 2, 3}), in_turn);
    EXPECT_EQ(Gradient(4, 2, {0, 1, 2, 3}), in_turn);
    EXPECT_EQ(Gradient(4, 1, {0, 1, 2, 3}), in_turn);
  }
  EXPECT_THAT(taken_, ::testing::SizeIs(4 * 151));
}

TEST_F(ReplicaStepsTest, AVariableIsReadyOnceAndWhenAllHaveIt) {
  Gradient(4, 4, {0, 1, 2, 3});
  EXPECT_THAT(ready_, ::testing::UnorderedElementsAre(0, 1));
}

TEST_F(ReplicaStepsTest, WhatNoModelSaysIsReadyIsSummedAllTheSame) {
  const auto told = Gradient(4, 4, {0, 1, 2, 3});
  model_.tells = false;
  EXPECT_EQ(Gradient(4, 4, {0, 1, 2, 3}), told);
}

TEST_F(ReplicaStepsTest, SharesAreConsecutiveExamplesAndTheLastMayBeShort) {
  job_.set_replicas(4);
  request_.set_end(5);
  ReplicaSteps steps(job_, 1, &model_);
  const auto ranges = steps.RangesOf(request_, {0, 2, 3});
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].begin, 0u);
  EXPECT_EQ(ranges[0].end, 2u);
  EXPECT_EQ(ranges[1].begin, 4u);
  EXPECT_EQ(ranges[1].end, 5u);
}

TEST_F(ReplicaStepsTest, WithoutExamplesAGradientChangesNothing) {
  request_.set_end(2);
  const auto none = Gradient(4, 1, {3});
  EXPECT_TRUE(std::signbit(none[0][0]));
  EXPECT_EQ(none[0][0], 0);
  EXPECT_THAT(ready_, ::testing::UnorderedElementsAre(0, 1));
}

TEST_F(ReplicaStepsTest, MetricsAreThoseOfAllShares) {
  job_.set_replicas(4);
  ReplicaSteps steps(job_, 4, &model_);
  const auto metrics = Compute(&steps, {0, 1, 2, 3});
  ASSERT_TRUE(metrics.ok());
  EXPECT_EQ(metrics->examples, 8u);
  EXPECT_EQ(metrics->loss_sum, 12);
}

TEST_F(ReplicaStepsTest, TheErrorOfAReplicaIsThatOfTheStep) {
  job_.set_replicas(4);
  model_.fails_at = 4;
  ReplicaSteps steps(job_, 4, &model_);
  EXPECT_EQ(Compute(&steps, {0, 1, 2, 3}).status(),
            absl::DataLossError("example 7"));
}

}  // namespace
}  // namespace paramd
