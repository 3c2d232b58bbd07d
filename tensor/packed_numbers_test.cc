#include "tensor/packed_numbers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "base/random.h"

namespace paramd {
namespace {

// A share of them zeros, and of the others some that a format makes zero.
std::vector<float> Sparse(size_t count, double zeros, RandomStream* random) {
  std::vector<float> numbers(count);
  for (float& number : numbers) {
    if (random->Chance(zeros)) continue;
    number = random->Chance(0.1)
                 ? -0.0f
                 : std::ldexp(1.5f, static_cast<int>(random->Below(60)) - 40);
    if (random->Chance(0.5)) number = -number;
  }
  return numbers;
}

std::vector<uint32_t> Bits(const std::vector<float>& numbers) {
  std::vector<uint32_t> bits;
  for (const float number : numbers) {
    bits.push_back(std::bit_cast<uint32_t>(number));
  }
  return bits;
}

std::vector<std::byte> Packed(NumberFormat format,
                              const std::vector<float>& numbers) {
  std::vector<std::byte> packed(
      PackedBytes(format, numbers.size(),
                  CountNonzero(numbers.data(), numbers.size())) +
      1);
  packed.back() = std::byte{77};  // Behind them nothing is written.
  PackNumbers(format, numbers.data(), numbers.size(), packed.data());
  EXPECT_EQ(packed.back(), std::byte{77});
  packed.pop_back();
  return packed;
}

// In pieces of any length, at any alignment.
BufferChain InPieces(const std::vector<std::byte>& bytes,
                     RandomStream* random) {
  BufferChain chain;
  for (size_t begin = 0; begin < bytes.size();) {
    const size_t most = random->Chance(0.5) ? 5 : bytes.size();
    const size_t length =
        std::min<size_t>(1 + random->Below(most), bytes.size() - begin);
    const size_t shift = random->Below(4);
    Buffer piece = Buffer::Allocate(length + shift);
    std::memcpy(piece.mutable_bytes().data() + shift, &bytes[begin], length);
    chain.push_back(piece.Part(shift, length));
    begin += length;
  }
  return chain;
}

std::vector<float> Unpacked(NumberFormat format, const BufferChain& chain,
                            size_t count) {
  ChainReader reader(chain);
  const Bitmap bitmap(&reader, count);
  EXPECT_FALSE(bitmap.IsTooLong());
  std::vector<float> numbers(count, -1);
  size_t next = 0;
  bitmap.ForEachRun(&reader, format,
                    [&](const float* run, size_t offset, size_t length) {
                      EXPECT_EQ(offset, next);
                      std::copy_n(run, length, &numbers[offset]);
                      next += length;
                    });
  EXPECT_EQ(next, count);
  EXPECT_EQ(reader.remaining(), 0u);
  return numbers;
}

class PackedNumbersTest : public ::testing::TestWithParam<NumberFormat> {};

TEST_P(PackedNumbersTest, HaveTheBitsThatTheyHaveIfAllTravel) {
  RandomStream random(8);
  for (int round = 0; round < 200; ++round) {
    const std::vector<float> numbers = Sparse(
        1 + random.Below(5000), 0.25 * static_cast<double>(round % 5), &random);
    std::vector<std::byte> dense(numbers.size() * BytesOf(GetParam()));
    EncodeNumbers(GetParam(), numbers.data(), numbers.size(), dense.data());
    std::vector<float> wanted(numbers.size());
    DecodeNumbers(GetParam(), dense.data(), numbers.size(), wanted.data());
    EXPECT_EQ(Bits(Unpacked(GetParam(),
                            InPieces(Packed(GetParam(), numbers), &random),
                            numbers.size())),
              Bits(wanted));
  }
}

TEST_P(PackedNumbersTest, AreWorthItFromAQuarterFewerBytesOn) {
  const size_t width = BytesOf(GetParam());
  for (size_t nonzero = 0; nonzero <= 800; ++nonzero) {
    EXPECT_EQ(IsWorthPacking(GetParam(), 800, nonzero),
              100 + nonzero * width <= 600 * width)
        << nonzero;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, PackedNumbersTest,
                         ::testing::Values(NumberFormat::kFp32,
                                           NumberFormat::kBf16,
                                           NumberFormat::kFp16));

TEST(PackedNumbersFormTest, TheFirstNumberHasTheLowestBit) {
  const std::vector<float> numbers = {0, 2, 0, 0, 0, 0, 0, 0, -0.0f, 0, 3};
  const std::vector<std::byte> packed = Packed(NumberFormat::kFp32, numbers);
  ASSERT_EQ(packed.size(), 2 + 3 * sizeof(float));
  EXPECT_EQ(packed[0], std::byte{2});
  EXPECT_EQ(packed[1], std::byte{1 + 4});
  float left[3];
  std::memcpy(left, &packed[2], sizeof(left));
  EXPECT_EQ(left[0], 2);
  EXPECT_TRUE(left[1] == 0 && std::signbit(left[1]));
  EXPECT_EQ(left[2], 3);
}

TEST(PackedNumbersFormTest, AllZerosAreBitsAlone) {
  RandomStream random(9);
  const std::vector<float> numbers(130);
  const std::vector<std::byte> packed = Packed(NumberFormat::kFp32, numbers);
  EXPECT_EQ(packed, std::vector<std::byte>(17));
  EXPECT_EQ(Unpacked(NumberFormat::kFp32, InPieces(packed, &random), 130),
            numbers);
}

TEST(PackedNumbersFormTest, EightTimesFewerTakeLessThanAFifth) {
  EXPECT_LT(PackedBytes(NumberFormat::kFp32, 262144, 32768), 1048576 / 5);
}

TEST(PackedNumbersFormTest, BitsBehindTheLastNumberAreSeen) {
  for (const auto& [last, is_too_long] :
       {std::pair(1, false), std::pair(2, true), std::pair(128, true)}) {
    const std::string bytes(16, '\xff');
    const BufferChain chain = {
        Buffer::Copy(bytes + std::string(1, static_cast<char>(last)))};
    ChainReader reader(chain);
    const Bitmap bitmap(&reader, 129);
    EXPECT_EQ(bitmap.IsTooLong(), is_too_long) << last;
    EXPECT_EQ(bitmap.nonzero(), 129u);
  }
  const BufferChain chain = {Buffer::Copy(std::string(8, '\xff'))};
  ChainReader reader(chain);
  EXPECT_FALSE(Bitmap(&reader, 64).IsTooLong());
}

}  // namespace
}  // namespace paramd
