#include "tensor/number_reader.h"

#include <cstring>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

#include "base/random.h"

namespace paramd {
namespace {

// Numbers that every format has.
std::vector<float> Numbers(size_t count) {
  std::vector<float> numbers(count);
  for (size_t i = 0; i < count; ++i) {
    numbers[i] = static_cast<float>(i % 128) * 0.25f - 16;
  }
  return numbers;
}

// In that format, cut at random places, each piece at a random alignment.
BufferChain CutAnywhere(NumberFormat format, const std::vector<float>& numbers,
                        RandomStream* random) {
  std::vector<std::byte> bytes(numbers.size() * BytesOf(format));
  EncodeNumbers(format, numbers.data(), numbers.size(), bytes.data());
  BufferChain chain;
  for (size_t begin = 0; begin < bytes.size();) {
    const size_t most = random->Chance(0.5) ? 5 : bytes.size();
    const size_t length =
        std::min<size_t>(random->Below(most + 1), bytes.size() - begin);
    const size_t shift = random->Below(4);
    Buffer piece = Buffer::Allocate(length + shift);
    if (length > 0) {
      std::memcpy(piece.mutable_bytes().data() + shift, &bytes[begin], length);
    }
    chain.push_back(piece.Part(shift, length));
    begin += length;
  }
  return chain;
}

class NumberReaderTest : public ::testing::TestWithParam<NumberFormat> {};

TEST_P(NumberReaderTest, NumbersAreWrittenInOrderHoweverTheyAreCut) {
  RandomStream random(4);
  for (int round = 0; round < 200; ++round) {
    const std::vector<float> numbers = Numbers(2 + random.Below(5000));
    const BufferChain chain = CutAnywhere(GetParam(), numbers, &random);
    ChainReader reader(chain);
    std::vector<float> read(numbers.size());
    const size_t first = random.Below(numbers.size());
    NumberReader(&reader, GetParam()).ReadTo(read.data(), first);
    NumberReader(&reader, GetParam())
        .ReadTo(&read[first], numbers.size() - first);
    EXPECT_EQ(read, numbers);
    EXPECT_EQ(reader.remaining(), 0u);
  }
}

TEST_P(NumberReaderTest, WhatIsNotFiniteIsFoundHoweverItIsCut) {
  if (GetParam() == NumberFormat::kFp32) return;  // Of two bytes.
  RandomStream random(5);
  const float bad[] = {std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity(),
                       std::numeric_limits<float>::quiet_NaN()};
  for (int round = 0; round < 200; ++round) {
    std::vector<float> numbers = Numbers(1 + random.Below(5000));
    const bool finite = random.Chance(0.5);
    if (!finite) numbers[random.Below(numbers.size())] = bad[random.Below(3)];
    const BufferChain chain = CutAnywhere(GetParam(), numbers, &random);
    ChainReader reader(chain);
    EXPECT_EQ(NumberReader(&reader, GetParam()).ReadFinite(numbers.size()),
              finite);
    EXPECT_EQ(reader.remaining(), 0u);
  }
}

TEST_P(NumberReaderTest, RunsAreAllNumbersInOrderHoweverTheyAreCut) {
  RandomStream random(3);
  for (int round = 0; round < 200; ++round) {
    const std::vector<float> numbers = Numbers(1 + random.Below(5000));
    const BufferChain chain = CutAnywhere(GetParam(), numbers, &random);
    ChainReader reader(chain);
    std::vector<float> read;
    NumberReader(&reader, GetParam())
        .ForEachRun(numbers.size(),
                    [&](const std::byte* bytes, size_t offset, size_t count) {
                      ASSERT_EQ(offset, read.size());
                      read.resize(offset + count);
                      std::memcpy(&read[offset], bytes, count * sizeof(float));
                    });
    EXPECT_EQ(read, numbers);
    EXPECT_EQ(reader.remaining(), 0u);
  }
}

TEST_P(NumberReaderTest, NoMoreThanWasAskedForIsRead) {
  RandomStream random(4);
  const BufferChain chain = CutAnywhere(GetParam(), Numbers(100), &random);
  ChainReader reader(chain);
  NumberReader(&reader, GetParam()).ForEachRun(60, [](auto...) {});
  EXPECT_EQ(reader.remaining(), 40 * BytesOf(GetParam()));
}

TEST_P(NumberReaderTest, WhatIsTakenIsFloat32) {
  RandomStream random(5);
  const std::vector<float> numbers = Numbers(3000);
  const BufferChain chain = CutAnywhere(GetParam(), numbers, &random);
  ChainReader reader(chain);
  const BufferChain taken = NumberReader(&reader, GetParam()).Take(2999);
  ASSERT_EQ(ChainSize(taken), 2999 * sizeof(float));
  std::vector<float> read(2999);
  ChainReader(taken).Read(AsWritableBytes(absl::MakeSpan(read)));
  EXPECT_EQ(read, std::vector<float>(numbers.begin(), numbers.end() - 1));
  EXPECT_EQ(reader.remaining(), BytesOf(GetParam()));
  EXPECT_TRUE(NumberReader(&reader, GetParam()).Take(0).empty());
}

INSTANTIATE_TEST_SUITE_P(All, NumberReaderTest,
                         ::testing::Values(NumberFormat::kFp32,
                                           NumberFormat::kBf16,
                                           NumberFormat::kFp16));

TEST(NumberReaderDeathTest, AChainThatIsTooShortBreaksTheInvariant) {
  const BufferChain chain = {Buffer::Copy(std::string(7, '\0'))};
  ChainReader reader(chain);
  EXPECT_DEATH(NumberReader(&reader).ForEachRun(2, [](auto...) {}),
               "the chain ends with a whole element");
}

TEST(NumberReaderTest, ZerosAreSeenWithoutBeingRead) {
  // Pieces that begin and end anywhere: 5 zeros, then a one.
  std::string bytes(24, '\0');
  bytes[23] = '\x3f';
  const BufferChain chain = {Buffer::Copy(bytes.substr(0, 3)),
                             Buffer::Copy(bytes.substr(3, 6)),
                             Buffer::Copy(bytes.substr(9))};
  ChainReader reader(chain);
  const NumberReader numbers(&reader);
  EXPECT_TRUE(numbers.NextAreZeros(0));
  EXPECT_TRUE(numbers.NextAreZeros(5));
  EXPECT_FALSE(numbers.NextAreZeros(6));
  EXPECT_EQ(reader.remaining(), 24u);
  numbers.Skip(4);
  EXPECT_EQ(reader.remaining(), 8u);
  EXPECT_FALSE(numbers.NextAreZeros(2));
  ChainReader half(chain);
  EXPECT_TRUE(NumberReader(&half, NumberFormat::kBf16).NextAreZeros(11));
  EXPECT_FALSE(NumberReader(&half, NumberFormat::kBf16).NextAreZeros(12));
}

TEST(NumberReaderTest, ANegativeZeroIsNotOneOfThem) {
  const std::vector<float> numbers = {0, -0.0f};
  const BufferChain chain = {
      Buffer::Copy(AsBytes(absl::MakeConstSpan(numbers)))};
  ChainReader reader(chain);
  EXPECT_FALSE(NumberReader(&reader).NextAreZeros(2));
}

}  // namespace
}  // namespace paramd
