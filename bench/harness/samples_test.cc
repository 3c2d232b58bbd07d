#include "bench/harness/samples.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

Samples Of(std::initializer_list<double> values) {
  Samples samples;
  for (const double value : values) samples.Add(value);
  return samples;
}

TEST(SamplesTest, TheMedianIsTheMiddleOne) {
  EXPECT_EQ(Of({5, 1, 3}).Median(), 3);
  EXPECT_EQ(Of({7}).Median(), 7);
  EXPECT_EQ(Of({4, 1, 3, 2}).Median(), 2.5);
}

TEST(SamplesTest, TheEndsAreTheLowestAndTheHighest) {
  EXPECT_EQ(Of({5, 1, 3}).Low(), 1);
  EXPECT_EQ(Of({5, 1, 3}).High(), 5);
}

TEST(SamplesTest, AQuantileIsASampleThatSoManyAreNotAbove) {
  Samples samples;
  for (int i = 100; i > 0; --i) samples.Add(i);
  EXPECT_EQ(samples.Quantile(0.99), 99);
  EXPECT_EQ(samples.Quantile(0.25), 25);
}

}  // namespace
}  // namespace paramd
