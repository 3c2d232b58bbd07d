#include "checkpoint/number_histogram.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

constexpr double kWithin = 0.008;

TEST(NumberHistogramTest, QuantilesAreThoseOfTheNumbers) {
  NumberHistogram numbers;
  // Not in order: 1 to 9,973, which is prime, each once.
  for (uint64_t i = 1; i <= 9973; ++i) {
    numbers.Add(static_cast<double>(i * 7919 % 9973 + 1));
  }
  EXPECT_EQ(numbers.count(), 9973u);
  EXPECT_EQ(numbers.Quantile(0), 1);
  EXPECT_EQ(numbers.Quantile(1), 9973);
  for (const double share : {0.01, 0.1, 0.5, 0.9, 0.99}) {
    EXPECT_NEAR(numbers.Quantile(share), share * 9973, share * 9973 * kWithin);
  }
  EXPECT_EQ(numbers.sum(), 9973. * 9974 / 2);
}

TEST(NumberHistogramTest, TheLargestAreSummed) {
  NumberHistogram numbers;
  for (const double value : {1., 1000., 1., 10., 1., 100., 0.}) {
    numbers.Add(value);
  }
  EXPECT_EQ(numbers.SumOfLargest(0), 0);
  EXPECT_EQ(numbers.SumOfLargest(1), 1000);
  EXPECT_EQ(numbers.SumOfLargest(3), 1110);
  EXPECT_EQ(numbers.SumOfLargest(4), 1111);
  EXPECT_EQ(numbers.SumOfLargest(100), numbers.sum());
}

TEST(NumberHistogramTest, OfNoNumberAndOfTheLargestThereAreAnswers) {
  NumberHistogram numbers;
  EXPECT_EQ(numbers.Quantile(0.5), 0);
  EXPECT_EQ(numbers.SumOfLargest(5), 0);
  for (const double value : {-0.0, 1e-300, 1e300}) numbers.Add(value);
  EXPECT_EQ(numbers.Quantile(0.5), 1e-300 / 2);
  EXPECT_EQ(numbers.Quantile(1), 1e300);
}

}  // namespace
}  // namespace paramd
