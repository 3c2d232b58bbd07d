#include "tensor/shape.h"

#include <vector>

#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(RowShapeTest, AScalarIsOneRowOfOneElement) {
  const auto shape = ToRowShape({});
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->rows, 1u);
  EXPECT_EQ(shape->row_elements, 1u);
}

TEST(RowShapeTest, TheFirstDimensionIsRows) {
  const auto shape = ToRowShape({3, 4, 5});
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->rows, 3u);
  EXPECT_EQ(shape->row_elements, 20u);
}

TEST(RowShapeTest, HostileShapesAreRefused) {
  EXPECT_FALSE(ToRowShape({0}).ok());
  EXPECT_FALSE(ToRowShape({~uint64_t{0}, ~uint64_t{0}}).ok());
  EXPECT_FALSE(ToRowShape(std::vector<uint64_t>(9, 1)).ok());
}

}  // namespace
}  // namespace paramd
