#include "input/example_order.h"

#include <algorithm>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(ExampleOrderTest, IsAPermutation) {
  for (const uint64_t size : {1u, 2u, 3u, 1000u}) {
    std::vector<uint32_t> order = ExampleOrder(1, 2, size);
    std::sort(order.begin(), order.end());
    for (uint64_t i = 0; i < size; ++i) ASSERT_EQ(order[i], i);
  }
}

TEST(ExampleOrderTest, DependsOnSeedAndEpochAlone) {
  EXPECT_EQ(ExampleOrder(1, 2, 100), ExampleOrder(1, 2, 100));
  EXPECT_NE(ExampleOrder(1, 2, 100), ExampleOrder(1, 3, 100));
  EXPECT_NE(ExampleOrder(1, 2, 100), ExampleOrder(2, 2, 100));
}

// A run is resumed, and joined by other builds, in the middle of an epoch.
TEST(ExampleOrderTest, IsTheSameForEver) {
  EXPECT_THAT(ExampleOrder(1, 0, 8),
              ::testing::ElementsAre(1, 0, 4, 6, 3, 7, 2, 5));
}

TEST(ExampleOrderTest, EveryPlaceIsEquallyLikely) {
  constexpr int kEpochs = 6000;
  int counts[6] = {};
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const std::vector<uint32_t> order = ExampleOrder(7, epoch, 6);
    ++counts[std::find(order.begin(), order.end(), 0u) - order.begin()];
  }
  for (const int count : counts) EXPECT_NEAR(count, kEpochs / 6, 150);
}

}  // namespace
}  // namespace paramd
