#include "worker/model/dense.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "worker/model/testing/gradient_check.h"

namespace paramd {
namespace {

using testing::ElementsAre;

TEST(DenseTest, NeedsAGlorotUniformKernelAndAZeroBias) {
  const Dense dense("dense_7", 784, 512);
  ASSERT_EQ(dense.variables().size(), 2u);
  const v1::Variable& kernel = dense.variables()[0];
  EXPECT_EQ(kernel.name(), "dense_7/kernel");
  EXPECT_EQ(kernel.dtype(), v1::FLOAT32);
  EXPECT_THAT(kernel.shape(), ElementsAre(784, 512));
  EXPECT_EQ(kernel.initializer().kind(), v1::Initializer::UNIFORM);
  EXPECT_FLOAT_EQ(kernel.initializer().high(), std::sqrt(6.0f / 1296));
  EXPECT_EQ(kernel.initializer().low(), -kernel.initializer().high());
  const v1::Variable& bias = dense.variables()[1];
  EXPECT_EQ(bias.name(), "dense_7/bias");
  EXPECT_THAT(bias.shape(), ElementsAre(512));
  EXPECT_EQ(bias.initializer().kind(), v1::Initializer::ZEROS);
}

TEST(DenseTest, ForwardIsTheProductPlusTheBias) {
  const Dense dense("dense_1", 2, 3);
  const std::vector<float> kernel = {1, 2, 3, 4, 5, 6};
  const std::vector<float> bias = {10, 20, 30};
  const std::vector<absl::Span<const float>> weights = {kernel, bias};
  const std::vector<float> input = {1, 1, 0, 2};
  std::vector<float> output(6);
  dense.Forward(weights, {input.data(), 2, 2}, {output.data(), 2, 3});
  EXPECT_THAT(output, ElementsAre(15, 27, 39, 18, 30, 42));
}

TEST(DenseTest, GradientsMatchDifferences) {
  ExpectLayerGradientsMatchDifferences(Dense("dense_1", 7, 5), 4, 7, 1);
  ExpectLayerGradientsMatchDifferences(Dense("dense_1", 1, 1), 1, 1, 2);
}

}  // namespace
}  // namespace paramd
