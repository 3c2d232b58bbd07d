#include "tensor/number_format.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace paramd {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

uint16_t Encoded(NumberFormat format, float number) {
  std::byte bytes[2];
  EncodeNumbers(format, &number, 1, bytes);
  uint16_t half;
  std::memcpy(&half, bytes, 2);
  return half;
}

float Decoded(NumberFormat format, uint16_t half) {
  std::byte bytes[2];
  std::memcpy(bytes, &half, 2);
  float number;
  DecodeNumbers(format, bytes, 1, &number);
  return number;
}

// What a half means, by its definition.
double MeaningOf(NumberFormat format, uint16_t half) {
  const int fraction_bits = format == NumberFormat::kBf16 ? 7 : 10;
  const int bias = format == NumberFormat::kBf16 ? 127 : 15;
  const int exponent = (half & 0x7fff) >> fraction_bits;
  const int fraction = half & ((1 << fraction_bits) - 1);
  const double sign = half & 0x8000 ? -1 : 1;
  if (exponent == 2 * bias + 1) {
    return fraction == 0 ? sign * kInfinity : std::nan("");
  }
  const double significand =
      (exponent == 0 ? 0 : 1) + std::ldexp(fraction, -fraction_bits);
  return sign * std::ldexp(significand, std::max(exponent, 1) - bias);
}

class HalfTest : public ::testing::TestWithParam<NumberFormat> {};

TEST_P(HalfTest, EveryHalfIsReadAsItsDefinitionSays) {
  for (int half = 0; half < 1 << 16; ++half) {
    const double meaning = MeaningOf(GetParam(), half);
    const float number = Decoded(GetParam(), half);
    if (std::isnan(meaning)) {
      ASSERT_TRUE(std::isnan(number)) << half;
    } else {
      ASSERT_EQ(number, meaning) << half;
      ASSERT_EQ(std::signbit(number), std::signbit(meaning)) << half;
    }
  }
}

TEST_P(HalfTest, EveryHalfIsFiniteAsItsDefinitionSays) {
  for (int half = 0; half < 1 << 16; ++half) {
    std::byte bytes[2];
    const auto bits = static_cast<uint16_t>(half);
    std::memcpy(bytes, &bits, 2);
    ASSERT_EQ(AreFinite(GetParam(), bytes, 1),
              std::isfinite(MeaningOf(GetParam(), half)))
        << half;
  }
}

TEST_P(HalfTest, EveryHalfIsWrittenAsItself) {
  for (int half = 0; half < 1 << 16; ++half) {
    const float number = Decoded(GetParam(), half);
    if (std::isnan(number)) {
      ASSERT_TRUE(std::isnan(Decoded(GetParam(), Encoded(GetParam(), number))));
    } else {
      ASSERT_EQ(Encoded(GetParam(), number), half);
    }
  }
}

// Between two neighbours: below the middle the lower one, above it the higher
// one, at it the even one.
TEST_P(HalfTest, WhatLiesBetweenIsRoundedToTheNearestOrToEven) {
  const uint16_t infinity = Encoded(GetParam(), kInfinity);
  for (uint16_t low = 0; low + 1 < infinity; ++low) {
    const uint16_t high = low + 1;
    const float middle = static_cast<float>(
        (MeaningOf(GetParam(), low) + MeaningOf(GetParam(), high)) / 2);
    const uint16_t even = low % 2 == 0 ? low : high;
    ASSERT_EQ(Encoded(GetParam(), middle), even);
    ASSERT_EQ(Encoded(GetParam(), std::nextafter(middle, 0.0f)), low);
    ASSERT_EQ(Encoded(GetParam(), std::nextafter(middle, kInfinity)), high);
    ASSERT_EQ(Encoded(GetParam(), -middle), even | 0x8000);
  }
}

TEST_P(HalfTest, WhatIsTooLargeBecomesInfinite) {
  const float most = Decoded(GetParam(), Encoded(GetParam(), kInfinity) - 1);
  EXPECT_EQ(Decoded(GetParam(), Encoded(GetParam(), most)), most);
  EXPECT_EQ(Decoded(GetParam(),
                    Encoded(GetParam(), std::numeric_limits<float>::max())),
            kInfinity);
  EXPECT_EQ(Decoded(GetParam(), Encoded(GetParam(), -most * 1.01f)),
            -kInfinity);
}

TEST_P(HalfTest, EveryNanStaysNan) {
  for (const uint32_t bits :
       {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xffffffffu, 0xff800001u}) {
    const float nan = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(Decoded(GetParam(), Encoded(GetParam(), nan))));
  }
}

// Wide instructions do the former, scalar ones the latter.
TEST_P(HalfTest, ManyAtOnceHaveTheBitsOfEachAlone) {
  std::vector<float> numbers;
  for (uint32_t bits = 0; bits < 0xffff0000; bits += 40503) {
    numbers.push_back(std::bit_cast<float>(bits));
  }
  std::vector<std::byte> bytes(2 * numbers.size());
  EncodeNumbers(GetParam(), numbers.data(), numbers.size(), bytes.data());
  std::vector<float> back(numbers.size());
  DecodeNumbers(GetParam(), bytes.data(), back.size(), back.data());
  for (size_t i = 0; i < numbers.size(); ++i) {
    std::byte alone[2];
    EncodeNumbers(GetParam(), &numbers[i], 1, alone);
    ASSERT_EQ(std::memcmp(alone, &bytes[2 * i], 2), 0) << numbers[i];
    float decoded;
    DecodeNumbers(GetParam(), alone, 1, &decoded);
    ASSERT_EQ(std::bit_cast<uint32_t>(decoded),
              std::bit_cast<uint32_t>(back[i]));
  }
}

TEST_P(HalfTest, AnyAddressWillDo) {
  std::vector<float> numbers(1000);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = 0.25f * i - 100;
  std::vector<std::byte> aligned(2 * numbers.size());
  std::vector<std::byte> shifted(2 * numbers.size() + 1);
  EncodeNumbers(GetParam(), numbers.data(), numbers.size(), aligned.data());
  EncodeNumbers(GetParam(), numbers.data(), numbers.size(), &shifted[1]);
  EXPECT_EQ(std::memcmp(aligned.data(), &shifted[1], aligned.size()), 0);
  std::vector<float> a(numbers.size()), b(numbers.size());
  DecodeNumbers(GetParam(), aligned.data(), a.size(), a.data());
  DecodeNumbers(GetParam(), &shifted[1], b.size(), b.data());
  EXPECT_EQ(a, b);
}

INSTANTIATE_TEST_SUITE_P(Both, HalfTest,
                         ::testing::Values(NumberFormat::kBf16,
                                           NumberFormat::kFp16));

std::vector<uint16_t> ByChance(const std::vector<float>& numbers, uint64_t key,
                               uint64_t first) {
  std::vector<uint16_t> halves(numbers.size());
  EncodeBf16ByChance(numbers.data(), numbers.size(), CounterRandom(key), first,
                     reinterpret_cast<std::byte*>(halves.data()));
  return halves;
}

TEST(RoundedByChanceTest, EveryHalfIsWrittenAsItself) {
  for (int half = 0; half < 1 << 16; ++half) {
    const float number =
        Decoded(NumberFormat::kBf16, static_cast<uint16_t>(half));
    if (std::isnan(number)) continue;
    ASSERT_EQ(ByChance({number}, 5, half)[0], half);
  }
}

TEST(RoundedByChanceTest, TheMeanOfManyIsTheNumber) {
  constexpr int kMany = 40000;
  // Between 1 and 1 + 2^-7, a fifth of the way; and so below zero.
  for (const float number : {1 + 0.2f / 128, -1 - 0.2f / 128}) {
    double sum = 0;
    for (const uint16_t half :
         ByChance(std::vector<float>(kMany, number), 3, 0)) {
      const float rounded = Decoded(NumberFormat::kBf16, half);
      ASSERT_LE(std::abs(rounded - number), 1.0f / 128);
      sum += rounded;
    }
    // Five standard deviations of the mean of so many.
    EXPECT_NEAR(sum / kMany, number, 5 * std::sqrt(0.2 * 0.8 / kMany) / 128);
  }
}

TEST(RoundedByChanceTest, WhatIsFiniteStaysSo) {
  const float largest = std::numeric_limits<float>::max();
  for (uint64_t key = 0; key < 100; ++key) {
    EXPECT_EQ(ByChance({largest, -largest}, key, 0),
              (std::vector<uint16_t>{0x7f7f, 0xff7f}));
  }
  EXPECT_EQ(ByChance({kInfinity, -kInfinity}, 1, 0),
            (std::vector<uint16_t>{0x7f80, 0xff80}));
  EXPECT_TRUE(std::isnan(
      Decoded(NumberFormat::kBf16, ByChance({std::nanf("")}, 1, 0)[0])));
}

TEST(RoundedByChanceTest, ChanceBelongsToTheElementHoweverRowsAreCut) {
  std::vector<float> numbers(103);
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = 1 + static_cast<float>(i) / 1000;
  }
  const std::vector<uint16_t> all = ByChance(numbers, 7, 11);
  EXPECT_NE(all, ByChance(numbers, 8, 11));
  for (size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(ByChance({numbers[i]}, 7, 11 + i)[0], all[i]) << i;
  }
}

TEST(NumberFormatTest, Fp32IsTheNumbersThemselves) {
  const float numbers[] = {1.5f, -0.0f, kInfinity};
  std::byte bytes[sizeof(numbers)];
  EncodeNumbers(NumberFormat::kFp32, numbers, 3, bytes);
  EXPECT_EQ(std::memcmp(bytes, numbers, sizeof(numbers)), 0);
  float back[3];
  DecodeNumbers(NumberFormat::kFp32, bytes, 3, back);
  EXPECT_EQ(std::memcmp(back, numbers, sizeof(numbers)), 0);
}

}  // namespace
}  // namespace paramd
