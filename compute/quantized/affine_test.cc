#include "compute/quantized/affine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

#include "base/random.h"

namespace paramd {
namespace {

TEST(AffineTest, ARangeIsWidenedToHaveZeroInIt) {
  EXPECT_EQ(AffineOf({0, 255}), (Affine{1, 0}));
  EXPECT_EQ(AffineOf({10, 255}), (Affine{1, 0}));
  EXPECT_EQ(AffineOf({-255, -10}), (Affine{1, 255}));
  EXPECT_EQ(AffineOf({-0.5f, 2.05f}), (Affine{0.01f, 50}));
}

TEST(AffineTest, ZerosAndWhatNoScaleTellsFromThemHaveAScaleOfOne) {
  EXPECT_EQ(AffineOf({0, 0}), (Affine{1, 0}));
  EXPECT_EQ(AffineOf({0, 1e-40f}), (Affine{1, 0}));
}

TEST(AffineTest, TheLargestRangeHasAFiniteScale) {
  const float most = std::numeric_limits<float>::max();
  const Affine affine = AffineOf({-most, most});
  EXPECT_TRUE(std::isfinite(affine.scale));
  EXPECT_GT(1 / affine.scale, 0);
}

TEST(QuantizeValuesTest, HalvesGoToTheEvenNumberAndWhatIsBeyondToTheEnd) {
  const std::vector<float> values = {-3,   0,      0.5f,  1.5f,
                                     2.5f, 254.6f, 1e30f, std::nanf("")};
  std::vector<uint8_t> out(values.size());
  QuantizeValues({1, 0}, values, out.data());
  EXPECT_EQ(out, (std::vector<uint8_t>{0, 0, 0, 2, 2, 255, 255, 0}));
  QuantizeValues({1, 3}, values, out.data());
  EXPECT_EQ(out, (std::vector<uint8_t>{0, 3, 3, 5, 5, 255, 255, 0}));
}

TEST(QuantizeValuesTest, MoreAtATimeGiveTheSameBits) {
  RandomStream random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<float> values(random.Below(200));
    for (float& value : values) {
      value = (static_cast<float>(random.Below(2001)) - 1000) / 64;
      if (random.Below(50) == 0) value = std::nanf("");
      if (random.Below(50) == 0) value = -1e38f;
    }
    const Affine affine = AffineOf({-static_cast<float>(random.Below(10)),
                                    static_cast<float>(1 + random.Below(10))});
    std::vector<uint8_t> fast(values.size());
    std::vector<uint8_t> plain(values.size());
    QuantizeValues(affine, values, fast.data());
    QuantizeValuesPlainly(affine, values, plain.data());
    ASSERT_EQ(fast, plain) << affine.scale;
  }
}

TEST(Int16Test, ARangeIsSymmetricAroundZero) {
  EXPECT_EQ(Int16ScaleOf({-1, 32767}), 1);
  EXPECT_EQ(Int16ScaleOf({-65534, 10}), 2);
  EXPECT_EQ(Int16ScaleOf({0, 0}), 1);
  EXPECT_EQ(Int16ScaleOf({0, 1e-40f}), 1);
  const float most = std::numeric_limits<float>::max();
  EXPECT_TRUE(std::isfinite(Int16ScaleOf({-most, most})));
}

TEST(Int16Test, HalvesGoToTheEvenNumberAndWhatIsBeyondToTheEnd) {
  const std::vector<float> values = {-40000, -1.5f,    0,     0.5f,
                                     2.5f,   32766.6f, 1e30f, std::nanf("")};
  std::vector<int16_t> out(values.size());
  QuantizeValues(1, values, out.data());
  EXPECT_EQ(out,
            (std::vector<int16_t>{-32767, -2, 0, 0, 2, 32767, 32767, -32767}));
}

TEST(Int16Test, MoreAtATimeGiveTheSameBits) {
  RandomStream random(8);
  for (int round = 0; round < 50; ++round) {
    std::vector<float> values(random.Below(200));
    for (float& value : values) {
      value = (static_cast<float>(random.Below(200001)) - 100000) / 64;
      if (random.Below(50) == 0) value = std::nanf("");
      if (random.Below(50) == 0) value = -1e38f;
    }
    const float scale =
        Int16ScaleOf({0, static_cast<float>(1 + random.Below(2000))});
    std::vector<int16_t> fast(values.size());
    std::vector<int16_t> plain(values.size());
    QuantizeValues(scale, values, fast.data());
    QuantizeValuesPlainly(scale, values, plain.data());
    ASSERT_EQ(fast, plain) << scale;
  }
}

TEST(QuantizeWeightsTest, EachIsWithinHalfAScaleAndTheLargestIsTheLargest) {
  RandomStream random(3);
  for (const int most : {127, 63}) {
    for (const bool per_channel : {true, false}) {
      std::vector<float> weights(5 * 7);
      for (float& weight : weights) {
        weight = static_cast<float>(random.Below(2000)) / 1000 - 1;
      }
      const QuantizedWeights quantized =
          QuantizeWeights(weights, 7, per_channel, most);
      ASSERT_EQ(quantized.scales.size(), per_channel ? 7 : 1);
      int largest = 0;
      for (size_t i = 0; i < weights.size(); ++i) {
        const float scale = quantized.scales[per_channel ? i % 7 : 0];
        EXPECT_NEAR(scale * quantized.values[i], weights[i], scale * 0.50001);
        largest = std::max<int>(largest, std::abs(quantized.values[i]));
        // What a reader makes of them is what they are made of.
        EXPECT_EQ(std::lrint(scale * quantized.values[i] / scale),
                  quantized.values[i]);
      }
      EXPECT_EQ(largest, most);
    }
  }
}

TEST(QuantizeWeightsTest, AChannelOfZerosHasAScaleOfOne) {
  const QuantizedWeights quantized =
      QuantizeWeights(std::vector<float>{0, 2, 0, -1}, 2, true, 127);
  EXPECT_EQ(quantized.scales[0], 1);
  EXPECT_EQ(quantized.values, (std::vector<int8_t>{0, 127, 0, -64}));
}

TEST(RangeTest, IsFromTheLeastToTheGreatestWhateverTheLength) {
  EXPECT_EQ(RangeOf({}).max, 0);
  RandomStream random(5);
  for (size_t size = 1; size < 40; ++size) {
    std::vector<float> values(size);
    for (float& value : values) value = random.Uniform() - 0.5f;
    const FloatRange range = RangeOf(values);
    EXPECT_EQ(range.min, *std::min_element(values.begin(), values.end()));
    EXPECT_EQ(range.max, *std::max_element(values.begin(), values.end()));
    values[size / 2] = std::nanf("");
    EXPECT_FALSE(std::isnan(RangeOf(values).min));
    EXPECT_FALSE(std::isnan(RangeOf(values).max));
  }
}

TEST(FakeQuantizeTest, ValuesAreWhatTheirIntegersStandFor) {
  RandomStream random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<float> values(random.Below(200));
    for (float& value : values) {
      value = (static_cast<float>(random.Below(2001)) - 1000) / 64;
    }
    const Affine affine = AffineOf({-static_cast<float>(random.Below(10)),
                                    static_cast<float>(1 + random.Below(10))});
    std::vector<uint8_t> integers(values.size());
    QuantizeValuesPlainly(affine, values, integers.data());
    std::vector<float> rounded(values.size());
    FakeQuantizeValues(affine, values, rounded.data());
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(
          rounded[i],
          static_cast<float>(integers[i] - affine.zero_point) * affine.scale)
          << values[i];
    }
    // Rounded once more they stay.
    std::vector<float> again(values.size());
    FakeQuantizeValues(affine, rounded, again.data());
    EXPECT_EQ(again, rounded);
  }
}

TEST(FakeQuantizeTest, WhatIsNotFiniteIsNotANumber) {
  for (const float unknown : {std::nanf(""), INFINITY, -INFINITY}) {
    std::vector<float> values(9, 1);
    values[3] = values[8] = unknown;
    FakeQuantizeValues({0.5f, 3}, values, values.data());
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(std::isnan(values[i]), i == 3 || i == 8) << unknown;
    }
  }
}

TEST(FakeQuantizeTest, GradientsPassStraightThroughInsideOfTheRange) {
  // From -1 to 126.5.
  const Affine affine = {0.5f, 2};
  const std::vector<float> values = {-1.01f, -1,           -0.3f,  0,
                                     77.7f,  126.5f,       126.6f, 1e30f,
                                     -1e30f, std::nanf("")};
  std::vector<float> gradients(values.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    gradients[i] = static_cast<float>(i) + 0.25f;
  }
  PassStraightThrough(affine, values, absl::MakeSpan(gradients));
  EXPECT_EQ(gradients, (std::vector<float>{0, 1.25f, 2.25f, 3.25f, 4.25f, 5.25f,
                                           0, 0, 0, 0}));
}

TEST(FakeQuantizeTest, WeightsAreWhatTheirIntegersStandFor) {
  RandomStream random(9);
  for (const int most : {127, 63, 7, 1}) {
    for (uint64_t channels = 1; channels < 12; ++channels) {
      std::vector<float> weights(channels * 13);
      for (float& weight : weights) weight = random.Uniform() - 0.4f;
      // A channel of zeros.
      for (size_t i = 0; i < weights.size(); i += channels) weights[i] = 0;
      const QuantizedWeights integers =
          QuantizeWeights(weights, channels, /*per_channel=*/true, most);
      std::vector<float> scales(channels, -1);
      std::vector<float> rounded(weights.size());
      FakeQuantizeWeights(weights, most, absl::MakeSpan(scales),
                          rounded.data());
      EXPECT_EQ(scales, integers.scales);
      for (size_t i = 0; i < weights.size(); ++i) {
        ASSERT_EQ(rounded[i], static_cast<float>(integers.values[i]) *
                                  scales[i % channels]);
        ASSERT_LE(std::fabs(rounded[i] - weights[i]),
                  0.5001f * scales[i % channels]);
      }
    }
  }
}

}  // namespace
}  // namespace paramd
