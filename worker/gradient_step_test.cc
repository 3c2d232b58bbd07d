#include "worker/gradient_step.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::Pointwise;

// Example i is the number i; the loss is i x w, and of an untrained variable
// the update is 0.5 x the batch's examples.
class LineModel : public TrainedModel {
 public:
  LineModel() : variables_(2) { variables_[1].set_untrained(true); }

  const std::vector<v1::Variable>& variables() const override {
    return variables_;
  }
  std::unique_ptr<TrainedModel> Clone() const override {
    return std::make_unique<LineModel>();
  }
  uint64_t CountedExamples(const Batch& batch) const override {
    return batch.examples - std::min(ignored, batch.examples);
  }
  absl::StatusOr<Metrics> Step(WeightSpans weights, const Batch& batch,
                               const StepOptions& options,
                               GradientSpans gradients, Ready ready) override {
    seen.push_back(weights[0][0]);
    remembers_loss_scale = options.remembers_loss_scale;
    seen_untrained.push_back(weights[1][0]);
    if (fails) return absl::InvalidArgumentError("label 7 of example 3");
    Metrics metrics;
    const uint64_t counted = CountedExamples(batch);
    metrics.examples = skips ? 0 : counted;
    gradients[0][0] = 0;
    // So much that the weights matter: w^2 / 2 would have gradient w.
    for (uint64_t i = 0; i < counted; ++i) {
      const auto x = static_cast<double>(batch.range.begin + i);
      gradients[0][0] +=
          static_cast<float>((x + weights[0][0]) / options.divisor);
      metrics.loss_sum += x * weights[0][0];
    }
    gradients[1][0] = 0.5f * static_cast<float>(batch.examples);
    ready(1);
    ready(0);
    return metrics;
  }
  absl::StatusOr<Metrics> Evaluate(WeightSpans, const Batch&) override {
    return Metrics();
  }
  absl::Status Predict(WeightSpans, const Batch&, Batch*) override {
    return absl::OkStatus();
  }
  ModelCost cost() const override { return {}; }

  std::vector<float> seen;
  std::vector<float> seen_untrained;
  bool fails = false;
  bool skips = false;
  uint64_t ignored = 0;
  bool remembers_loss_scale = false;

 private:
  std::vector<v1::Variable> variables_;
};

class GradientStepTest : public ::testing::Test {
 protected:
  // Of [begin, end), on w = `weight`.
  std::vector<float> Gradient(uint32_t batch, uint32_t accumulate,
                              uint32_t push_every, uint64_t begin, uint64_t end,
                              uint64_t divide_by = 0, float weight = 2) {
    v1::JobConfig job;
    job.set_batch_per_replica(batch);
    job.set_accumulate(accumulate);
    job.set_push_every(push_every);
    job.mutable_optimizer()->set_learning_rate(0.1);
    job.mutable_optimizer()->set_clip_global_norm(clip_);
    GradientStep step(job, &model_);
    v1::ComputeGradient request;
    request.set_begin(begin);
    request.set_end(end);
    request.set_divide_by(divide_by);
    request.set_portion(portion_);
    const std::vector<float> values = {weight, 10};
    const std::vector<absl::Span<const float>> weights = {
        absl::MakeSpan(values).subspan(0, 1),
        absl::MakeSpan(values).subspan(1, 1)};
    std::vector<float> gradient(2, -1);
    const std::vector<absl::Span<float>> spans = {
        absl::MakeSpan(gradient).subspan(0, 1),
        absl::MakeSpan(gradient).subspan(1, 1)};
    Batch next;
    ready_.clear();
    status_ = step.Compute(
        request, {.values = weights, .rows = {}},
        [&](const Portion& range) -> absl::StatusOr<const Batch*> {
          next.range = range;
          next.examples = range.size() - std::min(left_out_, range.size());
          return &next;
        },
        &abandoned_, spans, [&](size_t v) { ready_.push_back(v); });
    left_out_of_request_ = step.left_out();
    return gradient;
  }

  LineModel model_;
  std::atomic<bool> abandoned_{false};
  uint64_t left_out_ = 0;  // Of each batch.
  uint64_t portion_ = 0;
  double clip_ = 0;
  uint64_t left_out_of_request_ = 0;
  absl::StatusOr<Metrics> status_ = absl::UnknownError("");
  std::vector<size_t> ready_;
};

TEST_F(GradientStepTest, Promise6_OnlyASyncStepForgetsItsLossScale) {
  Gradient(4, 1, 1, 0, 4, /*divide_by=*/16);
  EXPECT_FALSE(model_.remembers_loss_scale);
  portion_ = 3;
  Gradient(4, 1, 1, 0, 4, /*divide_by=*/16);
  EXPECT_TRUE(model_.remembers_loss_scale) << "one of several replicas";
  Gradient(4, 1, 1, 0, 4);
  EXPECT_TRUE(model_.remembers_loss_scale);
}

TEST_F(GradientStepTest, OneBatchIsDividedByItsExamplesAndToldByLayers) {
  EXPECT_THAT(Gradient(4, 1, 1, 0, 4), ElementsAre(FloatEq(1.5f + 2), 2));
  EXPECT_THAT(ready_, ElementsAre(1, 0));
  EXPECT_EQ(status_->examples, 4u);
}

TEST_F(GradientStepTest, AccumulatedBatchesEqualOneOfAllTheirExamples) {
  const std::vector<float> whole = Gradient(12, 1, 1, 0, 12);
  EXPECT_THAT(Gradient(4, 3, 1, 0, 12), Pointwise(FloatEq(), whole));
  EXPECT_TRUE(ready_.empty()) << "none is final before the last batch";
  // The last batch is short.
  EXPECT_THAT(Gradient(4, 3, 1, 0, 10),
              Pointwise(FloatEq(), Gradient(12, 1, 1, 0, 10)));
  EXPECT_EQ(status_->examples, 10u);
}

TEST_F(GradientStepTest, AFilterChangesWhatAccumulatedBatchesAreDividedBy) {
  left_out_ = 2;  // Of 4 each: (0 + 1 + 4 + 5) / 4 + w.
  EXPECT_FLOAT_EQ(Gradient(4, 2, 1, 0, 8)[0], 2.5f + 2);
  left_out_ = 4;
  EXPECT_EQ(Gradient(4, 2, 1, 0, 8)[0], 0);
}

TEST_F(GradientStepTest, AShareOfAStepIsDividedByAllOfIt) {
  EXPECT_FLOAT_EQ(Gradient(4, 1, 1, 0, 4, /*divide_by=*/16)[0],
                  (6 + 4 * 2) / 16.0f);
  EXPECT_FLOAT_EQ(Gradient(2, 2, 8, 0, 4, /*divide_by=*/16)[0],
                  (6 + 4 * 2) / 16.0f);
  EXPECT_THAT(model_.seen, ElementsAre(2, 2, 2)) << "nothing moves in a step";
}

TEST_F(GradientStepTest, ExamplesThatDoNotCountAreNotDividedBy) {
  model_.ignored = 2;  // Of each batch, the last ones.
  EXPECT_FLOAT_EQ(Gradient(4, 1, 1, 0, 4)[0], 0.5f + 2);
  EXPECT_EQ(left_out_of_request_, 2u);
  EXPECT_FLOAT_EQ(Gradient(4, 2, 1, 0, 8)[0], 2.5f + 2);
  EXPECT_EQ(left_out_of_request_, 4u);
  EXPECT_FLOAT_EQ(Gradient(4, 2, 1, 0, 8, /*divide_by=*/16)[0],
                  (0 + 1 + 4 + 5 + 4 * 2) / 16.0f);
  EXPECT_EQ(left_out_of_request_, 4u);
  model_.ignored = 4;
  EXPECT_EQ(Gradient(4, 1, 1, 0, 4)[0], 0);
  EXPECT_EQ(left_out_of_request_, 4u);
}

TEST_F(GradientStepTest, ABatchThatAProgramLeavesOutIsLeftOut) {
  model_.skips = true;
  Gradient(4, 2, 1, 0, 8, /*divide_by=*/16);
  EXPECT_EQ(left_out_of_request_, 8u);
}

TEST_F(GradientStepTest, OfAShareItIsSaidHowManyExamplesTheInputLeftOut) {
  Gradient(4, 2, 1, 0, 8, /*divide_by=*/16);
  EXPECT_EQ(left_out_of_request_, 0u);
  left_out_ = 1;
  // Servers multiply by 16 and divide by what all shares say together.
  EXPECT_FLOAT_EQ(Gradient(4, 2, 1, 0, 8, /*divide_by=*/16)[0],
                  (0 + 1 + 2 + 4 + 5 + 6 + 6 * 2) / 16.0f);
  EXPECT_EQ(left_out_of_request_, 2u);
}

TEST_F(GradientStepTest, APushIsTheSumOfGradientsOnWeightsThatMove) {
  const std::vector<float> pushed = Gradient(2, 1, 3, 0, 6);
  // What three plain steps do.
  float w = 2;
  float sum = 0;
  for (const float mean : {0.5f, 2.5f, 4.5f}) {
    const float gradient = mean + w;
    sum += gradient;
    w -= 0.1f * gradient;
  }
  EXPECT_FLOAT_EQ(pushed[0], sum);
  EXPECT_FLOAT_EQ(2 - 0.1f * pushed[0], w) << "so servers end where it did";
  ASSERT_EQ(model_.seen.size(), 3u);
  EXPECT_EQ(model_.seen[0], 2);
  EXPECT_FLOAT_EQ(model_.seen[1], 2 - 0.1f * 2.5f);
  // What is untrained moves by the whole of its update.
  EXPECT_THAT(model_.seen_untrained, ElementsAre(10, 9, 8));
  EXPECT_EQ(pushed[1], 3);
}

TEST_F(GradientStepTest, EachGradientOfAPushIsClippedBeforeTheWorkerMoves) {
  clip_ = 3;
  const std::vector<float> pushed = Gradient(2, 1, 3, 0, 6);
  float w = 2;
  float sum = 0;
  for (const float mean : {0.5f, 2.5f, 4.5f}) {
    const float gradient = std::min(mean + w, 3.0f);
    sum += gradient;
    w -= 0.1f * gradient;
  }
  EXPECT_NEAR(pushed[0], sum, 1e-5);
  EXPECT_EQ(pushed[1], 3) << "statistics are no gradient";
  // One that is a push by itself, others may be added to.
  EXPECT_FLOAT_EQ(Gradient(4, 2, 3, 0, 8)[0], 3.5f + 2);
}

TEST_F(GradientStepTest, APushThatStartsAnewStartsFromThePulledWeights) {
  v1::JobConfig job;
  Gradient(2, 1, 2, 0, 4);
  const std::vector<float> first = model_.seen;
  model_.seen.clear();
  Gradient(2, 1, 2, 0, 4);
  EXPECT_EQ(model_.seen, first);
}

TEST_F(GradientStepTest, WhatIsAbandonedIsCancelled) {
  abandoned_ = true;
  Gradient(2, 1, 2, 0, 4);
  EXPECT_TRUE(absl::IsCancelled(status_.status()));
  EXPECT_EQ(model_.seen.size(), 1u);
}

TEST_F(GradientStepTest, Promise9_WhatTheModelRefusesIsNoGradient) {
  model_.fails = true;
  Gradient(2, 2, 1, 0, 4);
  EXPECT_EQ(status_.status().message(), "label 7 of example 3");
}

}  // namespace
}  // namespace paramd
