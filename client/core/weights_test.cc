#include "client/core/weights.h"

#include <cstring>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "client/core/testing/configurations.h"
#include "tensor/stream_copy.h"
#include "tensor/testing/fake_unified_memory.h"

namespace paramd {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::Floats;
using testing::MakeConfiguration;

Placement MakePlacement() {
  return *Placement::Create(
      MakeConfiguration({{"a", {2}, 0}, {"b", {kMaxBlockElements + 2}, 0}}, 1)
          .layout(),
      1);
}

v1::BlockVersion Life(uint64_t life, uint64_t counter) {
  v1::BlockVersion version;
  version.set_life(life);
  version.set_counter(counter);
  return version;
}

TEST(WeightsTest, BeforeThePullAllIsZeroAndHasNoVersion) {
  const Weights weights(MakePlacement());
  EXPECT_THAT(weights.variable(0), ElementsAre(0, 0));
  EXPECT_EQ(weights.variable(1).size(), kMaxBlockElements + 2);
  EXPECT_EQ(weights.version(1, 1).life(), 0u);
}

TEST(WeightsTest, ABlockLandsAtItsPlaceAndLeavesTheOthersAlone) {
  const Placement placement = MakePlacement();
  Weights weights(placement);
  const BufferChain chain = {Floats({7}), Floats({8})};  // Split anywhere.
  ChainReader reader(chain);
  weights.Set(placement.slices()[1], 1, 1, Life(5, 3), &reader);
  const absl::Span<const float> b = weights.variables()[1];
  EXPECT_THAT(b.subspan(kMaxBlockElements), ElementsAre(7, 8));
  EXPECT_THAT(b.first(kMaxBlockElements), Each(0));
  EXPECT_EQ(weights.version(1, 1).life(), 5u);
  EXPECT_EQ(weights.version(1, 1).counter(), 3u);
  EXPECT_EQ(weights.version(1, 0).life(), 0u);
}

TEST(WeightsTest, ABlockOfRowsLandsBehindTheRowsBeforeIt) {
  v1::Layout layout = MakeConfiguration({{"t", {263, 1000}, 0}}, 1).layout();
  layout.mutable_variables(0)->set_sparse(true);
  const Placement placement = *Placement::Create(layout, 1);
  Weights weights(placement);
  const BufferChain chain = {Floats(std::vector<float>(1000, 7))};
  ChainReader reader(chain);
  weights.Set(placement.slices()[0], 0, 1, Life(5, 3), &reader);
  const absl::Span<const float> rows = weights.variable(0);
  EXPECT_THAT(rows.first(262000), Each(0));
  EXPECT_THAT(rows.subspan(262000), Each(7));
  EXPECT_EQ(rows.size(), 263000u);
  EXPECT_EQ(weights.version(0, 1).life(), 5u);
}

TEST(WeightsTest, WhatIsLentIsPulledIntoAndLeftToItsOwner) {
  const Placement placement = MakePlacement();
  std::vector<float> first = {1, 2}, second = {3, 4};
  WeightMemory memory;
  memory.lent = LentWeights{{first.data(), second.data()}, {nullptr, nullptr}};
  {
    Weights weights = Weights::WithoutSparse(placement, memory, /*which=*/1);
    EXPECT_TRUE(weights.is_lent(0));
    EXPECT_FALSE(weights.is_lent(1));
    EXPECT_EQ(weights.variable(0).data(), second.data());
    const BufferChain chain = {Floats({7, 8})};
    ChainReader reader(chain);
    weights.Set(placement.slices()[0], 0, 0, Life(5, 3), &reader);
    EXPECT_EQ(weights.version(0, 0).counter(), 3u);
  }
  EXPECT_THAT(first, ElementsAre(1, 2));
  EXPECT_THAT(second, ElementsAre(7, 8));
}

TEST(WeightsTest, WhatLiesOnADeviceIsCopiedThere) {
  const Placement placement = MakePlacement();
  testing::FakeUnifiedMemory device(size_t{4} << 20);
  Weights weights =
      Weights::WithoutSparse(placement, {.lent = {}, .device = &device});
  EXPECT_TRUE(device.Has(AsBytes(weights.variable(0))));
  EXPECT_THAT(weights.variable(0), ElementsAre(0, 0));
  Buffer block = device.Allocate(8);
  const std::vector<float> numbers = {7, 8};
  std::memcpy(block.mutable_bytes().data(), numbers.data(), 8);
  for (const bool is_there : {true, false}) {
    const BufferChain chain = {is_there ? block : Floats({9, 10})};
    ChainReader reader(chain);
    weights.Set(placement.slices()[1], 1, 1, Life(5, 3), &reader);
    EXPECT_EQ(device.copied_bytes, 8u);
  }
  EXPECT_THAT(weights.variables()[1].subspan(kMaxBlockElements),
              ElementsAre(9, 10));
}

TEST(WeightsTest, AVariableThatNoCacheHoldsIsFilledAsWell) {
  const uint64_t elements = kLeastStreamedBytes / sizeof(float);
  const Placement placement = *Placement::Create(
      MakeConfiguration({{"a", {elements}, 0}}, 1).layout(), 1);
  Weights weights(placement);
  std::vector<float> numbers(kMaxBlockElements);
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = 1.0f + static_cast<float>(i);
  const absl::Span<const std::byte> bytes =
      AsBytes(absl::MakeConstSpan(numbers));
  const BufferChain chain = {Buffer::Copy(bytes.first(4001)),
                             Buffer::Copy(bytes.subspan(4001))};
  ChainReader reader(chain);
  weights.Set(placement.slices()[0], 0, 2, Life(5, 1), &reader);
  const absl::Span<const float> a = weights.variable(0);
  EXPECT_EQ(a.subspan(2 * kMaxBlockElements, kMaxBlockElements),
            absl::MakeConstSpan(numbers));
  EXPECT_EQ(a[2 * kMaxBlockElements - 1], 0);
  EXPECT_EQ(a[3 * kMaxBlockElements], 0);
}

}  // namespace
}  // namespace paramd
