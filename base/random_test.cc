#include "base/random.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

// Known answers of Philox4x32-10 from the authors' Random123 distribution:
// counter 0, key 0 gives 6627e8d5 e169c58d …
TEST(CounterRandomTest, MatchesThePublishedKnownAnswer) {
  EXPECT_EQ(CounterRandom(0).Bits(0), 0xE169C58D6627E8D5u);
}

TEST(CounterRandomTest, UniformStaysInItsRangeAndFillsIt) {
  const CounterRandom random(7);
  double sum = 0;
  for (uint64_t i = 0; i < 10000; ++i) {
    const float u = random.Uniform(i);
    ASSERT_GE(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    sum += u;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.01);
}

TEST(CounterRandomTest, BelowStaysBelow) {
  const CounterRandom random(7);
  for (uint64_t i = 0; i < 1000; ++i) ASSERT_LT(random.Below(3, i), 3u);
}

TEST(StableHashTest, DependsOnTextAndSeed) {
  EXPECT_EQ(StableHash("a"), 0xAF63DC4C8601EC8Cu);
  EXPECT_NE(StableHash("a", 1), StableHash("a", 2));
  EXPECT_NE(StableHash("a", 1), StableHash("b", 1));
}

}  // namespace
}  // namespace paramd
