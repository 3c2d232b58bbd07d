#include "worker/gradient_clip.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;

// A gradient of each variable, in order.
using ByVariable = std::vector<std::vector<float>>;

class GradientClipTest : public ::testing::Test {
 protected:
  GradientClipTest() {
    for (const char* const name : {"kernel", "bias", "mean", "table", "old"}) {
      variables_.emplace_back().set_name(name);
    }
    variables_[2].set_untrained(true);
    variables_[3].set_sparse(true);
    auto* const frozen = config_.add_rate_factors();
    frozen->set_variables("o*");
    frozen->set_factor(0);
    auto* const slow = config_.add_rate_factors();
    slow->set_variables("*");
    slow->set_factor(0.5);
  }

  ByVariable Clipped(double most, ByVariable gradients, double times = 1) {
    config_.set_clip_global_norm(most);
    const GradientClip clip(config_, variables_);
    std::vector<absl::Span<float>> spans;
    for (auto& gradient : gradients) spans.push_back(absl::MakeSpan(gradient));
    clip.Apply(spans, times);
    return gradients;
  }

  v1::OptimizerConfig config_;
  std::vector<v1::Variable> variables_;
};

TEST_F(GradientClipTest, TheNormIsOfAllThatLearns) {
  // 2 x 2 + 1 + 3 x 3 + 1 + 1 = 4 x 4.
  const ByVariable gradients = {{2, 1}, {-3}, {100}, {1, -1}, {7}};
  const ByVariable clipped = Clipped(2, gradients);
  EXPECT_THAT(clipped[0],
              ElementsAre(FloatNear(1, 1e-6f), FloatNear(0.5f, 1e-6f)));
  EXPECT_THAT(clipped[1], ElementsAre(FloatNear(-1.5f, 1e-6f)));
  EXPECT_THAT(clipped[2], ElementsAre(100)) << "statistics are no gradient";
  EXPECT_THAT(clipped[3],
              ElementsAre(FloatNear(0.5f, 1e-6f), FloatNear(-0.5f, 1e-6f)))
      << "rows that are named";
  EXPECT_THAT(clipped[4], ElementsAre(7)) << "its rate is 0";
}

TEST_F(GradientClipTest, ASmallerNormAndNoLimitChangeNothing) {
  const ByVariable gradients = {{2, 1}, {-3}, {100}, {1, -1}, {7}};
  EXPECT_EQ(Clipped(4.5, gradients), gradients);
  EXPECT_EQ(Clipped(0, gradients), gradients);
  EXPECT_FALSE(GradientClip({}, variables_).clips());
  const ByVariable none(5);
  EXPECT_EQ(Clipped(1, none), none);
}

TEST_F(GradientClipTest, AShareOfAMeanIsClippedByTheNormOfTheMean) {
  // A quarter of a gradient whose norm is 16.
  const ByVariable clipped =
      Clipped(2, {{2, 1}, {-3}, {100}, {1, -1}, {7}}, /*times=*/4);
  EXPECT_THAT(clipped[0],
              ElementsAre(FloatNear(0.25f, 1e-6f), FloatNear(0.125f, 1e-6f)));
  EXPECT_THAT(clipped[1], ElementsAre(FloatNear(-0.375f, 1e-6f)));
}

TEST_F(GradientClipTest, WhatIsNotFiniteStaysForWhoeverTakesIt) {
  for (const float wrong : {std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()}) {
    const ByVariable gradients = {{2, wrong}, {-3}, {}, {}, {}};
    EXPECT_EQ(Clipped(1, gradients), gradients);
  }
  const ByVariable clipped = Clipped(1, {{2, std::nanf("")}, {-3}, {}, {}, {}});
  EXPECT_TRUE(std::isnan(clipped[0][1]));
  EXPECT_THAT(clipped[1], ElementsAre(-3));
}

TEST_F(GradientClipTest, NoFiniteNumberIsTooLarge) {
  constexpr float kMost = std::numeric_limits<float>::max();
  const ByVariable clipped = Clipped(1, {{kMost, kMost}, {}, {}, {}, {}});
  const float each = std::sqrt(0.5f);
  EXPECT_THAT(clipped[0],
              ElementsAre(FloatNear(each, 1e-6f), FloatNear(each, 1e-6f)));
}

TEST_F(GradientClipTest, ItIsTheNormOfAnyNumberOfNumbers) {
  for (size_t count = 1; count < 40; ++count) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) {
      values[i] = static_cast<float>(static_cast<double>(i) - 7.5);
    }
    double squares = 0;
    for (const double value : values) squares += value * value;
    const double scale = 0.5 / (std::sqrt(squares) + 1e-6);
    const ByVariable clipped = Clipped(0.5, {values, {}, {}, {}, {}});
    for (size_t i = 0; i < count; ++i) {
      // Two roundings to float, of a number below 1.
      EXPECT_NEAR(clipped[0][i], values[i] * scale, 2e-7) << count;
    }
  }
}

}  // namespace
}  // namespace paramd
