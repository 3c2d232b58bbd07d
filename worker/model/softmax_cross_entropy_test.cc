#include "worker/model/softmax_cross_entropy.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(SoftmaxCrossEntropyTest, LossIsMinusTheLogOfTheLabelsProbability) {
  const std::vector<float> outputs = {0, 0, 0, 0, std::log(3.0f), 0};
  const BatchResult result =
      SoftmaxCrossEntropy({outputs.data(), 2, 3}, {2u, 1u}, 1.0f, Matrix());
  EXPECT_NEAR(result.loss_sum, std::log(3.0) + std::log(5.0 / 3), 1e-6);
  EXPECT_EQ(result.examples, 2u);
}

TEST(SoftmaxCrossEntropyTest, CorrectIsWhereTheLabelHasTheLargestOutput) {
  const std::vector<float> outputs = {1, 2, 2, 1, 3, 3};
  const BatchResult result =
      SoftmaxCrossEntropy({outputs.data(), 3, 2}, {1u, 1u, 0u}, 1.0f, Matrix());
  EXPECT_EQ(result.correct, 2u);
  EXPECT_DOUBLE_EQ(result.accuracy(), 2.0 / 3);
}

TEST(SoftmaxCrossEntropyTest, GradientMatchesDifferencesAndIsScaled) {
  std::vector<float> outputs = {0.5f, -1, 2, 0.25f, 1, -0.5f, 0, 3};
  const std::vector<uint32_t> labels = {2, 1};
  std::vector<float> gradient(8, std::numeric_limits<float>::quiet_NaN());
  SoftmaxCrossEntropy({outputs.data(), 2, 4}, labels, 0.5f,
                      {gradient.data(), 2, 4});
  constexpr float kStep = 1.0f / 256;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto loss_at = [&](float value) {
      std::vector<float> moved = outputs;
      moved[i] = value;
      return SoftmaxCrossEntropy({moved.data(), 2, 4}, labels, 0.5f, Matrix())
          .loss_sum;
    };
    const double difference =
        (loss_at(outputs[i] + kStep) - loss_at(outputs[i] - kStep)) /
        (2 * kStep);
    EXPECT_NEAR(gradient[i], 0.5 * difference, 1e-4) << i;
  }
}

TEST(SoftmaxCrossEntropyTest, LargeOutputsDoNotOverflow) {
  const std::vector<float> outputs = {3e38f, -3e38f};
  std::vector<float> gradient(2);
  const BatchResult result = SoftmaxCrossEntropy({outputs.data(), 1, 2}, {0u},
                                                 1.0f, {gradient.data(), 1, 2});
  EXPECT_EQ(result.loss_sum, 0);
  EXPECT_EQ(gradient[0], 0);
}

TEST(SoftmaxCrossEntropyTest, AnOutputThatIsNotFiniteShowsInTheLoss) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity()}) {
    for (size_t place = 0; place < 3; ++place) {
      std::vector<float> outputs = {1, 2, 3};
      outputs[place] = bad;
      EXPECT_FALSE(std::isfinite(
          SoftmaxCrossEntropy({outputs.data(), 1, 3}, {0u}, 1.0f, Matrix())
              .loss_sum));
    }
  }
}

TEST(BatchResultTest, ResultsAreReducedByAdding) {
  BatchResult sum{.loss_sum = 3, .correct = 1, .examples = 2};
  sum += BatchResult{.loss_sum = 1, .correct = 2, .examples = 6};
  EXPECT_DOUBLE_EQ(sum.mean_loss(), 0.5);
  EXPECT_DOUBLE_EQ(sum.accuracy(), 3.0 / 8);
}

TEST(BatchResultTest, OfNoExamplesIsZero) {
  EXPECT_EQ(BatchResult().mean_loss(), 0);
  EXPECT_EQ(BatchResult().accuracy(), 0);
}

}  // namespace
}  // namespace paramd
