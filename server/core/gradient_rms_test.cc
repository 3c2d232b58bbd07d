#include "server/core/gradient_rms.h"

#include <limits>

#include "gtest/gtest.h"

namespace paramd {
namespace {

// One that has taken `count` gradients of root mean square 2.
GradientRms After(uint32_t count) {
  GradientRms rms;
  for (uint32_t i = 0; i < count; ++i) rms.Add(4);
  return rms;
}

TEST(GradientRmsTest, NothingIsASpikeBeforeTheWarmUp) {
  EXPECT_FALSE(After(0).IsSpike(1e30, 1));
  EXPECT_FALSE(After(GradientRms::kWarmUp - 1).IsSpike(1e30, 1));
  EXPECT_TRUE(After(GradientRms::kWarmUp).IsSpike(1e30, 1));
}

TEST(GradientRmsTest, ASpikeIsAboveSoManyTimesTheRunningValue) {
  const GradientRms rms = After(GradientRms::kWarmUp);
  EXPECT_EQ(rms.value(), 2);
  EXPECT_FALSE(rms.IsSpike(400, 10));
  EXPECT_TRUE(rms.IsSpike(401, 10));
}

TEST(GradientRmsTest, OfTheFirstItIsThePlainMeanOfTheSquares) {
  GradientRms rms;
  rms.Add(1);
  EXPECT_EQ(rms.value(), 1);
  rms.Add(49);
  EXPECT_EQ(rms.value(), 5);
}

TEST(GradientRmsTest, AfterTheWarmUpANewOneHasASmallWeight) {
  GradientRms rms = After(3 * GradientRms::kWarmUp);
  rms.Add(4 + 5 * GradientRms::kWarmUp);
  EXPECT_EQ(rms.value(), 3);
}

TEST(GradientRmsTest, ABlockWithoutAnyGradientYetHasNoMeasure) {
  GradientRms rms;
  for (uint32_t i = 0; i < GradientRms::kWarmUp; ++i) rms.Add(0);
  EXPECT_FALSE(rms.IsSpike(1, 2));
}

TEST(GradientRmsTest, WhatWasSavedGoesOnWithTheSameBits) {
  GradientRms rms = After(GradientRms::kWarmUp);
  rms.Add(3.3);
  GradientRms restored;
  restored.Restore(rms.saved());
  for (const double square : {7.1, 0.3, 2.9}) {
    rms.Add(square);
    restored.Add(square);
    EXPECT_EQ(restored.value(), rms.value());
  }
  EXPECT_TRUE(restored.IsSpike(1e9, 2));
}

TEST(GradientRmsTest, AWarmUpIsNotSavedAndBeginsAnew) {
  EXPECT_EQ(After(GradientRms::kWarmUp - 1).saved(), 0);
  GradientRms rms = After(GradientRms::kWarmUp);
  rms.Restore(0);
  EXPECT_FALSE(rms.IsSpike(1e30, 1));
}

TEST(GradientRmsTest, Promise9_WhatIsNoSuchNumberBeginsAnew) {
  for (const float wrong : {-1.0f, std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
    GradientRms rms = After(GradientRms::kWarmUp);
    rms.Restore(wrong);
    EXPECT_EQ(rms.value(), 0);
    EXPECT_FALSE(rms.IsSpike(1e30, 1));
  }
}

TEST(GradientRmsTest, ItStaysFinite) {
  GradientRms rms;
  rms.Add(1e300);
  EXPECT_EQ(rms.value(), std::numeric_limits<float>::max());
}

}  // namespace
}  // namespace paramd
