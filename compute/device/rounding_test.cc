#include "compute/device/rounding.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

#include "base/random.h"
#include "compute/device/half_kernels.h"
#include "tensor/number_format.h"

namespace paramd {
namespace {

// All exponents with fractions around each place where a format rounds, and
// others, of either sign.
std::vector<float> Numbers() {
  std::vector<float> numbers;
  RandomStream random(1);
  for (uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (const uint32_t fraction :
         {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x2fffu, 0x3000u, 0x3001u, 0x7fffu,
          0x8000u, 0x8001u, 0x17fffu, 0x18000u, 0x18001u, 0x7fffffu,
          static_cast<uint32_t>(random.Below(1 << 23))}) {
      for (const uint32_t sign : {0u, 1u}) {
        numbers.push_back(
            std::bit_cast<float>(sign << 31 | exponent << 23 | fraction));
      }
    }
  }
  return numbers;
}

uint16_t Encoded(NumberFormat format, float number) {
  uint16_t half = 0;
  EncodeNumbers(format, &number, 1, reinterpret_cast<std::byte*>(&half));
  return half;
}

TEST(RoundingTest, KernelsWriteTheBitsThatTravel) {
  for (const float number : Numbers()) {
    ASSERT_EQ(kernels::ToBf16(number), Encoded(NumberFormat::kBf16, number))
        << number;
    ASSERT_EQ(kernels::ToFp16(number), Encoded(NumberFormat::kFp16, number))
        << number;
  }
}

TEST(RoundingTest, RoundsToNearestAndTiesToEven) {
  const std::vector<float> numbers = {1 + 0x1p-8f,  1 + 0x3p-8f, 1 + 0x1p-11f,
                                      1 + 0x3p-11f, 0x1p-25f,    65520};
  const auto rounded = [&](ComputeFormat format) {
    std::vector<float> out(numbers.size());
    Round(format, numbers.data(), numbers.size(), out.data());
    return out;
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(rounded(ComputeFormat::kFp32), numbers);
  EXPECT_EQ(rounded(ComputeFormat::kTf32),
            (std::vector<float>{1 + 0x1p-8f, 1 + 0x3p-8f, 1, 1 + 0x4p-11f,
                                0x1p-25f, 65536}));
  EXPECT_EQ(rounded(ComputeFormat::kBf16),
            (std::vector<float>{1, 1 + 0x4p-8f, 1, 1, 0x1p-25f, 65536}));
  EXPECT_EQ(rounded(ComputeFormat::kFp16),
            (std::vector<float>{1 + 0x1p-8f, 1 + 0x3p-8f, 1, 1 + 0x4p-11f, 0,
                                kInfinity}));
}

TEST(RoundingTest, IsAtMostHalfAUnitAwayAndLeavesWhatIsRounded) {
  for (const auto format : {ComputeFormat::kTf32, ComputeFormat::kBf16}) {
    const float half_unit = format == ComputeFormat::kTf32 ? 0x1p-11f : 0x1p-8f;
    for (const float number : Numbers()) {
      float once = 0;
      Round(format, &number, 1, &once);
      if (std::isnan(number)) {
        EXPECT_TRUE(std::isnan(once));
      } else if (std::isfinite(once) && std::abs(number) > 0x1p-120f) {
        EXPECT_LE(std::abs(once - number), half_unit * std::abs(number));
      }
      float twice = 0;
      Round(format, &once, 1, &twice);
      EXPECT_EQ(std::memcmp(&once, &twice, sizeof(once)), 0) << number;
    }
  }
}

}  // namespace
}  // namespace paramd
