#include "server/core/gradient_sum.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "server/core/testing/configurations.h"

namespace paramd {
namespace {

using ::paramd::testing::Numbers;
using ::paramd::testing::Payload;
using ::testing::ElementsAre;

// The same bytes in pieces that no element respects.
BufferChain Scattered(const std::vector<float>& numbers) {
  BufferChain chain;
  const BufferChain whole = Payload(numbers);
  ChainReader reader(whole);
  for (size_t step = 1; reader.remaining() > 0; step = step * 2 + 1) {
    for (const Buffer& piece :
         reader.Take(std::min(step, reader.remaining()))) {
      chain.push_back(piece);
    }
  }
  return chain;
}

TEST(GradientSumTest, TheFirstGradientIsKeptByReference) {
  SpareBuffers spare;
  GradientSum sum;
  EXPECT_TRUE(sum.empty());
  const BufferChain gradient = Payload({1, 2, 3});
  sum.Add(gradient, &spare);
  ASSERT_EQ(sum.chain().size(), 1u);
  EXPECT_EQ(sum.chain()[0].bytes().data(), gradient[0].bytes().data());
  EXPECT_EQ(sum.size(), 12u);
}

TEST(GradientSumTest, GradientsAreAddedInTheOrderInWhichTheyCome) {
  // In another order the small ones would not be lost.
  SpareBuffers spare;
  GradientSum sum;
  for (const float g : {1e8f, 1.0f, 1.0f, 1.0f, 1.0f, -1e8f}) {
    sum.Add(Payload({g}), &spare);
  }
  EXPECT_THAT(Numbers(sum.chain()), ElementsAre(0.0f));
}

TEST(GradientSumTest, HowAGradientIsSplitMakesNoDifference) {
  RandomStream random(7);
  SpareBuffers spare;
  GradientSum whole;
  GradientSum scattered;
  for (int gradient = 0; gradient < 3; ++gradient) {
    std::vector<float> numbers(1000);
    for (float& number : numbers) {
      number = static_cast<float>(random.Below(1000)) / 7.0f;
    }
    whole.Add(Payload(numbers), &spare);
    scattered.Add(Scattered(numbers), &spare);
  }
  EXPECT_EQ(Numbers(whole.chain()), Numbers(scattered.chain()));
}

TEST(GradientSumTest, AddingChangesNoGradientThatCame) {
  SpareBuffers spare;
  GradientSum sum;
  const BufferChain first = Payload({1, 2});
  const BufferChain second = Payload({10, 20});
  sum.Add(first, &spare);
  sum.Add(second, &spare);
  EXPECT_THAT(Numbers(sum.chain()), ElementsAre(11, 22));
  EXPECT_THAT(Numbers(first), ElementsAre(1, 2));
  EXPECT_THAT(Numbers(second), ElementsAre(10, 20));
}

TEST(GradientSumTest, AnEmptyGradientAddsNothing) {
  SpareBuffers spare;
  GradientSum sum;
  sum.Add({}, &spare);
  EXPECT_TRUE(sum.empty());
  sum.Add(Payload({-0.0f}), &spare);
  sum.Add({}, &spare);
  EXPECT_TRUE(std::signbit(Numbers(sum.chain())[0]));
}

TEST(GradientSumTest, ScalingMultipliesEachElementOnce) {
  SpareBuffers spare;
  GradientSum sum;
  sum.Scale(2, &spare);
  const BufferChain gradient = Payload({1, 2});
  sum.Add(gradient, &spare);
  sum.Scale(1.5, &spare);
  EXPECT_THAT(Numbers(sum.chain()), ElementsAre(1.5, 3));
  EXPECT_THAT(Numbers(gradient), ElementsAre(1, 2));
}

TEST(GradientSumTest, AClearedSumBeginsAnewAndGivesItsMemoryBack) {
  SpareBuffers spare;
  GradientSum sum;
  sum.Add(Payload({1}), &spare);
  sum.Add(Payload({2}), &spare);
  sum.Clear(&spare);
  EXPECT_TRUE(sum.empty());
  EXPECT_EQ(spare.count(), 1u);
  sum.Add(Payload({5}), &spare);
  EXPECT_THAT(Numbers(sum.chain()), ElementsAre(5));
}

// Of rows of two: their numbers, then their elements.
BufferChain OfRows(const std::vector<uint32_t>& rows,
                   const std::vector<float>& elements) {
  BufferChain chain = {Buffer::Copy(AsBytes(absl::MakeConstSpan(rows)))};
  for (const Buffer& buffer : Payload(elements)) chain.push_back(buffer);
  return chain;
}

// Its bytes, of which the first `rows` words are numbers of rows.
std::pair<std::vector<uint32_t>, std::vector<float>> RowsIn(
    const GradientSum& sum) {
  ChainReader reader(sum.chain());
  std::vector<uint32_t> rows(sum.rows());
  EXPECT_TRUE(reader.Read(AsWritableBytes(absl::MakeSpan(rows))));
  std::vector<float> elements(rows.size() * 2);
  EXPECT_TRUE(reader.Read(AsWritableBytes(absl::MakeSpan(elements))));
  EXPECT_EQ(reader.remaining(), 0u);
  return {rows, elements};
}

// Of a keyed variable: ids of 8 bytes.
TEST(GradientSumTest, ASumOfKeysHasThemAll) {
  const auto gradient = [](const std::vector<uint64_t>& keys, float element) {
    const std::vector<float> elements(keys.size(), element);
    return BufferChain{Buffer::Copy(AsBytes(absl::MakeConstSpan(keys))),
                       Buffer::Copy(AsBytes(absl::MakeConstSpan(elements)))};
  };
  constexpr uint64_t kLarge = uint64_t{1} << 63;
  SpareBuffers spare;
  GradientSum sum;
  sum.SetRows(1, sizeof(uint64_t));
  sum.Add(gradient({7, kLarge}, 1), &spare);
  sum.Add(gradient({3, kLarge, kLarge + 1}, 10), &spare);
  sum.Scale(2, &spare);
  ASSERT_EQ(sum.rows(), 4u);
  ChainReader reader(sum.chain());
  std::vector<uint64_t> keys(4);
  EXPECT_TRUE(reader.Read(AsWritableBytes(absl::MakeSpan(keys))));
  EXPECT_THAT(keys, ElementsAre(3, 7, kLarge, kLarge + 1));
  std::vector<float> elements(4);
  EXPECT_TRUE(reader.Read(AsWritableBytes(absl::MakeSpan(elements))));
  EXPECT_THAT(elements, ElementsAre(20, 2, 22, 20));
}

TEST(GradientSumTest, ASumOfRowsHasTheRowsOfAll) {
  SpareBuffers spare;
  GradientSum sum;
  sum.SetRows(2, sizeof(uint32_t));
  sum.Add(OfRows({1, 5}, {1, 2, 3, 4}), &spare);
  sum.Add(OfRows({0, 5, 9}, {10, 20, 30, 40, 50, 60}), &spare);
  sum.Add({}, &spare);
  const auto [rows, elements] = RowsIn(sum);
  EXPECT_THAT(rows, ElementsAre(0, 1, 5, 9));
  EXPECT_THAT(elements, ElementsAre(10, 20, 1, 2, 33, 44, 50, 60));
}

TEST(GradientSumTest, ARowThatOnlyOneHasKeepsItsBits) {
  SpareBuffers spare;
  GradientSum sum;
  sum.SetRows(2, sizeof(uint32_t));
  sum.Add(OfRows({1}, {-0.0f, 1}), &spare);
  sum.Add(OfRows({2}, {-0.0f, 2}), &spare);
  for (const float element : {RowsIn(sum).second[0], RowsIn(sum).second[2]}) {
    EXPECT_TRUE(std::signbit(element));
  }
}

TEST(GradientSumTest, ScalingASumOfRowsLeavesTheirNumbers) {
  SpareBuffers spare;
  GradientSum sum;
  sum.SetRows(2, sizeof(uint32_t));
  sum.Add(OfRows({3, 4}, {1, 2, 3, 4}), &spare);
  sum.Scale(2, &spare);
  const auto [rows, elements] = RowsIn(sum);
  EXPECT_THAT(rows, ElementsAre(3, 4));
  EXPECT_THAT(elements, ElementsAre(2, 4, 6, 8));
  sum.Clear(&spare);
  EXPECT_TRUE(sum.empty());
}

}  // namespace
}  // namespace paramd
