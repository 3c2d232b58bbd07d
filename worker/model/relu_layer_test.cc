#include "worker/model/relu_layer.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "worker/model/testing/gradient_check.h"

namespace paramd {
namespace {

TEST(ReluLayerTest, HasNoVariablesAndKeepsTheWidth) {
  const ReluLayer relu(9);
  EXPECT_TRUE(relu.variables().empty());
  EXPECT_EQ(relu.output_width(), 9u);
}

TEST(ReluLayerTest, ForwardReplacesNegativesByZero) {
  const std::vector<float> input = {-1, 2, 3, -4};
  std::vector<float> output(4);
  ReluLayer(2).Forward({}, {input.data(), 2, 2}, {output.data(), 2, 2});
  EXPECT_THAT(output, testing::ElementsAre(0, 2, 3, 0));
}

TEST(ReluLayerTest, GradientsMatchDifferences) {
  ExpectLayerGradientsMatchDifferences(ReluLayer(6), 5, 6, 1);
}

}  // namespace
}  // namespace paramd
