#include "coordinator/core/layout.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

v1::Variable Make(const std::string& name, std::vector<uint64_t> shape) {
  v1::Variable variable;
  variable.set_name(name);
  variable.set_dtype(v1::FLOAT32);
  for (const uint64_t d : shape) variable.add_shape(d);
  return variable;
}

TEST(PlanLayoutTest, ASmallVariableIsOneSlice) {
  const auto layout = PlanLayout({Make("w", {784, 10})}, 3);
  ASSERT_TRUE(layout.ok());
  ASSERT_EQ(layout->slices_size(), 1);
  EXPECT_EQ(layout->slices(0).row_end(), 784u);
}

TEST(PlanLayoutTest, FiveMebibytesAreTwoSlicesOfWholeRows) {
  const auto layout = PlanLayout({Make("w", {1280, 1024})}, 2);
  ASSERT_TRUE(layout.ok());
  ASSERT_EQ(layout->slices_size(), 2);
  EXPECT_EQ(layout->slices(0).row_end(), 1024u);
  EXPECT_EQ(layout->slices(1).row_begin(), 1024u);
  EXPECT_NE(layout->slices(0).server(), layout->slices(1).server());
}

TEST(PlanLayoutTest, ARowAboveFourMebibytesIsASliceOfItsOwn) {
  const auto layout = PlanLayout({Make("w", {2, 2000000})}, 1);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->slices_size(), 2);
}

TEST(PlanLayoutTest, BytesAreSpreadOverTheServers) {
  const auto layout = PlanLayout(
      {Make("a", {100}), Make("b", {1000, 1000}), Make("c", {100}),
       Make("d", {1000, 1000})},
      2);
  ASSERT_TRUE(layout.ok());
  EXPECT_NE(layout->slices(1).server(), layout->slices(3).server());
  EXPECT_NE(layout->slices(0).server(), layout->slices(2).server());
}

TEST(PlanLayoutTest, BadVariablesAreNamed) {
  EXPECT_THAT(PlanLayout({Make("w", {2}), Make("w", {2})}, 1)
                  .status()
                  .message(),
              HasSubstr("two variables are named 'w'"));
  EXPECT_THAT(PlanLayout({Make("w", {2, 0})}, 1).status().message(),
              HasSubstr("variable 'w': shape 2x0"));
  EXPECT_FALSE(PlanLayout({Make("", {2})}, 1).ok());
  EXPECT_FALSE(PlanLayout({Make(std::string(513, 'x'), {2})}, 1).ok());
}

}  // namespace
}  // namespace paramd
