#include "compute/device/elementwise.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(ElementwiseTest, AddBiasAddsToEveryRow) {
  std::vector<float> values = {1, 2, 3, 4};
  AddBias({10.0f, 20.0f}, {values.data(), 2, 2});
  EXPECT_THAT(values, ElementsAre(11, 22, 13, 24));
}

TEST(ElementwiseTest, SumRowsOverwritesWithTheSumOfEachColumn) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  std::vector<float> sums = {kNaN, kNaN};
  SumRows({values.data(), 3, 2}, absl::MakeSpan(sums));
  EXPECT_THAT(sums, ElementsAre(9, 12));
}

TEST(ElementwiseTest, SumRowsOfNoRowsIsZero) {
  std::vector<float> sums = {kNaN, kNaN};
  SumRows({nullptr, 0, 2}, absl::MakeSpan(sums));
  EXPECT_THAT(sums, ElementsAre(0, 0));
}

TEST(ElementwiseTest, ReluReplacesNegativesAndKeepsNaN) {
  std::vector<float> values = {-1, 0, 2, kNaN};
  Relu(values, absl::MakeSpan(values));
  EXPECT_EQ(values[0], 0);
  EXPECT_EQ(values[1], 0);
  EXPECT_EQ(values[2], 2);
  EXPECT_TRUE(std::isnan(values[3]));
}

TEST(ElementwiseTest, ReluBackwardPassesTheGradientWhereTheOutputIsNotZero) {
  const std::vector<float> out = {0, 3, 0, 1};
  std::vector<float> gradient = {5, 6, 7, 8};
  ReluBackward(out, gradient, absl::MakeSpan(gradient));
  EXPECT_THAT(gradient, ElementsAre(0, 6, 0, 8));
}

}  // namespace
}  // namespace paramd
