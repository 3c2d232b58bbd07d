#include "config/magnitudes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace paramd {
namespace {

// Both signs, over some thirty powers of two.
std::vector<float> Weights(size_t n) {
  std::vector<float> weights;
  uint64_t state = 7;
  for (size_t i = 0; i < n; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double uniform = static_cast<double>(state >> 11) * 0x1p-53;
    const double size = std::exp2(-30 * uniform);
    weights.push_back(
        static_cast<float>((state >> 10 & 1) != 0 ? -size : size));
  }
  return weights;
}

size_t Below(const std::vector<float>& weights, float threshold) {
  return static_cast<size_t>(std::count_if(
      weights.begin(), weights.end(),
      [threshold](float weight) { return std::abs(weight) < threshold; }));
}

float ThresholdOf(const std::vector<float>& weights, double share) {
  Magnitudes magnitudes;
  magnitudes.AddValues(weights);
  return magnitudes.ThresholdFor(share);
}

TEST(MagnitudesTest, BelowTheThresholdLiesTheShareButForOneClass) {
  const std::vector<float> weights = Weights(20000);
  for (const double share : {0.0, 0.1, 0.5, 0.75, 0.9, 0.999}) {
    const float threshold = ThresholdOf(weights, share);
    const auto wanted =
        static_cast<size_t>(20000 - std::floor(20000 * (1 - share) + 0.5));
    EXPECT_LE(Below(weights, threshold), wanted) << share;
    // With the next class there would be more than the share.
    EXPECT_GT(Below(weights, threshold * (1 + 0x1p-9f)), wanted) << share;
  }
}

TEST(MagnitudesTest, OneIsLeft) {
  EXPECT_EQ(Below({1, 2, 3, 4}, ThresholdOf({1, 2, 3, 4}, 0.999)), 3u);
  EXPECT_EQ(Below({5}, ThresholdOf({5}, 0.999)), 0u);
  EXPECT_EQ(Magnitudes().ThresholdFor(0.5), 0);
}

TEST(MagnitudesTest, WhatIsOfOneClassGoesTogetherOrNotAtAll) {
  const std::vector<float> weights = {1, 1, -1, 1, 2, 2, 2, 2};
  EXPECT_EQ(Below(weights, ThresholdOf(weights, 0.25)), 0u);
  EXPECT_EQ(Below(weights, ThresholdOf(weights, 0.5)), 4u);
  EXPECT_EQ(Below(weights, ThresholdOf(weights, 0.75)), 4u);
}

TEST(MagnitudesTest, ZerosAndTheSmallestNumbersAreCountedToo) {
  const std::vector<float> weights = {
      0, -0.0f, std::numeric_limits<float>::denorm_min(), 1e-30f, 1};
  EXPECT_EQ(Below(weights, ThresholdOf(weights, 0.6)), 3u);
  EXPECT_EQ(Below(weights, ThresholdOf(weights, 0.8)), 4u);
}

TEST(MagnitudesTest, NoNumbersAreLargest) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(ThresholdOf({nan, infinity, 1, nan}, 0.5), infinity);
  EXPECT_EQ(ThresholdOf({nan, infinity, 1, nan}, 0.25), infinity);
}

TEST(MagnitudesTest, CountsOfSeveralAreThoseOfAll) {
  const std::vector<float> weights = Weights(1000);
  Magnitudes all;
  all.AddValues(weights);
  Magnitudes sum;
  for (size_t begin = 0; begin < weights.size(); begin += 250) {
    Magnitudes part;
    part.AddValues(absl::MakeConstSpan(weights).subspan(begin, 250));
    v1::MagnitudeCounts counts;
    part.Fill(&counts);
    EXPECT_TRUE(sum.AddCounts(counts));
  }
  for (const double share : {0.2, 0.5, 0.8}) {
    EXPECT_EQ(sum.ThresholdFor(share), all.ThresholdFor(share));
  }
  v1::MagnitudeCounts of_all, of_sum;
  all.Fill(&of_all);
  sum.Fill(&of_sum);
  EXPECT_EQ(of_all.SerializeAsString(), of_sum.SerializeAsString());
}

TEST(MagnitudesTest, WhatIsNoHistogramIsNotAdded) {
  Magnitudes magnitudes;
  v1::MagnitudeCounts counts;
  counts.add_distances(1);
  EXPECT_FALSE(magnitudes.AddCounts(counts));  // Of how many?
  counts.add_counts(5);
  EXPECT_TRUE(magnitudes.AddCounts(counts));
  counts.add_distances(0);  // The same class again.
  counts.add_counts(5);
  EXPECT_FALSE(magnitudes.AddCounts(counts));
  counts.set_distances(1, 1 << 18);  // Beyond the last class.
  EXPECT_FALSE(magnitudes.AddCounts(counts));
  counts.set_distances(1, 1);
  counts.set_counts(1, std::numeric_limits<uint64_t>::max());
  EXPECT_FALSE(magnitudes.AddCounts(counts));
  v1::MagnitudeCounts present;
  magnitudes.Fill(&present);
  ASSERT_EQ(present.counts_size(), 1);
  EXPECT_EQ(present.counts(0), 5u);
}

}  // namespace
}  // namespace paramd
