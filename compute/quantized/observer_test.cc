#include "compute/quantized/observer.h"

#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"

#include "base/random.h"

namespace paramd {
namespace {

// Near a normal distribution: the sum of twelve uniform numbers.
std::vector<float> NormalValues(size_t count, uint64_t seed) {
  RandomStream random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = -6;
    for (int i = 0; i < 12; ++i) {
      value += static_cast<float>(random.Below(1 << 20)) / (1 << 20);
    }
  }
  return values;
}

FloatRange RangeBy(absl::string_view name,
                   const std::vector<std::vector<float>>& batches,
                   int bits = 8) {
  auto observer = MakeObserver(name, bits);
  EXPECT_TRUE(observer.ok());
  for (const auto& batch : batches) (*observer)->Add(batch);
  return (*observer)->Range();
}

TEST(ObserverTest, AnUnknownOneIsRefusedWithThoseThatThereAre) {
  const auto observer = MakeObserver("median");
  ASSERT_EQ(observer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(observer.status().message(),
            "there is no observer 'median'; there are min_max, "
            "moving_average, percentile, histogram, entropy");
}

TEST(ObserverTest, MinMaxIsTheLeastAndTheGreatestOfAll) {
  const FloatRange range = RangeBy("min_max", {{1, 2}, {-3, 0.5f}, {1.5f}});
  EXPECT_EQ(range.min, -3);
  EXPECT_EQ(range.max, 2);
}

TEST(ObserverTest, AMovingAverageGoesAHundredthOfTheWay) {
  const FloatRange range =
      RangeBy("moving_average", {{-1, 2}, {-3, 4}, {0, 10}});
  EXPECT_NEAR(range.min, (-1 - 0.02) * 0.99, 1e-6);
  EXPECT_NEAR(range.max, 2.02 + 0.01 * (10 - 2.02), 1e-6);
}

TEST(ObserverTest, APercentileLeavesOutAHundredThousandth) {
  // A million values from 0 to 1, and what is left out: 5 on either side.
  std::vector<float> values;
  for (int i = 0; i < 1000000; ++i) {
    values.push_back(static_cast<float>(i) / 1000000);
  }
  for (int i = 0; i < 4; ++i) {
    values.push_back(100);
    values.push_back(-100);
  }
  const FloatRange range = RangeBy("percentile", {values});
  // A bin is 2^-4 wide, for 2,048 reach to 128.
  EXPECT_LE(range.min, 0);
  EXPECT_GE(range.min, -1.0f / 16);
  EXPECT_GE(range.max, 1 - 1e-6);
  EXPECT_LE(range.max, 1 + 1.0f / 16);
}

TEST(ObserverTest, EachCutsAnOutlierOffAndNoneTheBulk) {
  // Enough others that the one costs less than finer levels of all gain.
  std::vector<std::vector<float>> batches(25, NormalValues(80000, 1));
  batches.push_back({60});
  for (const char* const name : {"percentile", "histogram", "entropy"}) {
    const FloatRange range = RangeBy(name, batches);
    EXPECT_LT(range.max, 20) << name;
    EXPECT_GT(range.max, 2) << name;
    EXPECT_LT(range.min, -2) << name;
    EXPECT_GE(range.min, -7) << name;
  }
  EXPECT_EQ(RangeBy("min_max", batches).max, 60);
}

TEST(ObserverTest, WhatReluHasCutOffNarrowsNoRange) {
  std::vector<float> values = NormalValues(200000, 6);
  for (float& value : values) value = std::max(value, 0.0f);
  for (const char* const name : {"percentile", "histogram", "entropy"}) {
    EXPECT_GT(RangeBy(name, {values}).max, 2.5f) << name;
  }
}

TEST(ObserverTest, NoneIsWiderThanWhatWasSeen) {
  for (const char* const name :
       {"min_max", "moving_average", "percentile", "histogram", "entropy"}) {
    const FloatRange range = RangeBy(name, {{0.25f, 0.5f, 0.75f}});
    EXPECT_GE(range.min, 0.25f) << name;
    EXPECT_LE(range.max, 0.75f) << name;
    EXPECT_LE(range.min, range.max) << name;
  }
}

TEST(ObserverTest, ZerosAloneAreARange) {
  for (const char* const name :
       {"min_max", "moving_average", "percentile", "histogram", "entropy"}) {
    const FloatRange range = RangeBy(name, {{0, 0, 0}, {0}});
    EXPECT_EQ(range.min, 0) << name;
    EXPECT_EQ(range.max, 0) << name;
  }
}

TEST(ObserverTest, TheSearchesDependOnNoOrderOfBatches) {
  std::vector<std::vector<float>> batches;
  for (int i = 0; i < 7; ++i) {
    batches.push_back(NormalValues(500, 10 + i));
    for (float& value : batches.back()) {
      value *= static_cast<float>(std::ldexp(1.0, 3 * i - 10));
    }
  }
  for (const char* const name : {"percentile", "histogram", "entropy"}) {
    const FloatRange forth = RangeBy(name, batches);
    std::reverse(batches.begin(), batches.end());
    const FloatRange back = RangeBy(name, batches);
    EXPECT_EQ(forth.min, back.min) << name;
    EXPECT_EQ(forth.max, back.max) << name;
  }
}

TEST(ObserverTest, LeastSquaresHasALesserErrorThanAllThatWasSeen) {
  std::vector<float> values = NormalValues(100000, 4);
  values[5] = -80;
  Histogram histogram;
  histogram.Add(values);
  EXPECT_LT(SquaredError(histogram, RangeBy("histogram", {values})),
            SquaredError(histogram, RangeBy("min_max", {values})));
}

// What 8 bits would have to leave out fits.
TEST(ObserverTest, Of16BitsTheSearchesKeepAnOutlier) {
  std::vector<std::vector<float>> batches(25, NormalValues(80000, 1));
  batches.push_back({60});
  for (const char* const name : {"min_max", "histogram", "entropy"}) {
    EXPECT_EQ(RangeBy(name, batches, 16).max, 60) << name;
  }
  EXPECT_LT(RangeBy("percentile", batches, 16).max, 20);
}

TEST(SquaredErrorTest, Of16BitsIsThatOfTheValuesAsIntegers) {
  const std::vector<float> values = NormalValues(100000, 2);
  Histogram histogram;
  histogram.Add(values);
  for (const FloatRange range :
       {FloatRange{-6, 6}, FloatRange{-1, 3}, FloatRange{0, 2000}}) {
    const float scale = Int16ScaleOf(range);
    double expected = 0;
    for (const float value : values) {
      int16_t integer;
      QuantizeValuesPlainly(scale, {&value, 1}, &integer);
      const double error = value - scale * integer;
      expected += error * error;
    }
    EXPECT_NEAR(SquaredError(histogram, range, 16), expected, expected * 0.01);
  }
}

TEST(SquaredErrorTest, IsThatOfTheValuesAsIntegers) {
  const std::vector<float> values = NormalValues(100000, 2);
  Histogram histogram;
  histogram.Add(values);
  for (const FloatRange range :
       {FloatRange{-6, 6}, FloatRange{-1, 3}, FloatRange{0, 2}}) {
    const Affine affine = AffineOf(range);
    double expected = 0;
    for (const float value : values) {
      uint8_t integer;
      QuantizeValuesPlainly(affine, {&value, 1}, &integer);
      const double error =
          value -
          affine.scale * (integer - static_cast<int>(affine.zero_point));
      expected += error * error;
    }
    EXPECT_NEAR(SquaredError(histogram, range), expected, expected * 0.01);
  }
}

TEST(HistogramTest, TheSumOfTwoIsTheHistogramOfBoth) {
  std::vector<float> small = NormalValues(1000, 3);
  std::vector<float> large = small;
  for (float& value : small) value *= 1e-6f;
  Histogram both;
  both.Add(small);
  both.Add(large);
  for (const bool first : {true, false}) {
    Histogram sum;
    sum.Add(first ? small : large);
    Histogram other;
    other.Add(first ? large : small);
    sum.Add(other);
    EXPECT_EQ(sum.width(), both.width());
    EXPECT_EQ(sum.counts(), both.counts());
    EXPECT_EQ(sum.total(), 2000);
  }
}

TEST(HistogramTest, TakesTheSmallestAndTheLargestNumbers) {
  for (const float value : {1e-45f, 1e-38f, 3e38f, -3e38f}) {
    Histogram histogram;
    histogram.Add(std::vector<float>{value, 0});
    EXPECT_EQ(histogram.total(), 2);
    EXPECT_EQ(
        std::count_if(histogram.counts().begin(), histogram.counts().end(),
                      [](uint64_t count) { return count > 0; }),
        2)
        << value;
  }
}

}  // namespace
}  // namespace paramd
