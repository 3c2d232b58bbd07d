#include "server/core/spare_buffers.h"

#include <vector>

#include "gtest/gtest.h"

#include "tensor/testing/fake_unified_memory.h"

namespace paramd {
namespace {

constexpr size_t kMib = size_t{1} << 20;

Time At(absl::Duration after) { return Time::FromNanoseconds(1) + after; }

TEST(SpareBuffersTest, ABufferIsTakenAgainOnlyWhenNobodyElseReadsIt) {
  SpareBuffers spare;
  const Buffer read = Buffer::Allocate(64);
  spare.Give(read);
  const Buffer other = spare.Take(64);
  EXPECT_NE(other.bytes().data(), read.bytes().data());
  EXPECT_EQ(spare.count(), 1u);

  const std::byte* const place = other.bytes().data();
  spare.Give(Buffer(other).Part(0, 64));
  EXPECT_EQ(spare.count(), 2u);
  EXPECT_NE(spare.Take(64).bytes().data(), place) << "still held here";
}

TEST(SpareBuffersTest, OnlyTheWantedSizeIsTaken) {
  SpareBuffers spare;
  Buffer small = Buffer::Allocate(8);
  const std::byte* const place = small.bytes().data();
  spare.Give(std::move(small));
  EXPECT_EQ(spare.Take(16).size(), 16u);
  EXPECT_EQ(spare.Take(8).bytes().data(), place);
  EXPECT_EQ(spare.count(), 0u);
  EXPECT_EQ(spare.bytes(), 0u);
}

TEST(SpareBuffersTest, TheLastOneGivenIsTakenFirst) {
  SpareBuffers spare;
  Buffer first = Buffer::Allocate(8);
  Buffer last = Buffer::Allocate(8);
  const std::byte* const place = last.bytes().data();
  spare.Give(std::move(first));
  spare.Give(std::move(last));
  EXPECT_EQ(spare.Take(8).bytes().data(), place);
}

// As while a snapshot reads what pushes have replaced.
TEST(SpareBuffersTest, BehindManyThatAreReadTheOldestIsTaken) {
  SpareBuffers spare;
  Buffer oldest = Buffer::Allocate(8);
  const std::byte* const place = oldest.bytes().data();
  spare.Give(std::move(oldest));
  std::vector<Buffer> read;
  for (int i = 0; i < 100; ++i) {
    read.push_back(Buffer::Allocate(8));
    spare.Give(read.back());
  }
  EXPECT_EQ(spare.Take(8).bytes().data(), place);
  EXPECT_EQ(spare.count(), 100u);
}

TEST(SpareBuffersTest, RowsThatNearlyFillAPageHaveAHalfOfIt) {
  MemoryBudget budget;
  SpareBuffers spare(&budget);
  for (const size_t size : {kMib, kMib - 16, kMib - 1024}) {
    Buffer taken = spare.Take(size);
    EXPECT_EQ(spare.count(), 1u) << "the other half of " << size;
    Buffer other = spare.Take(size);
    EXPECT_EQ(spare.count(), 0u);
    EXPECT_EQ(other.size(), size);
    EXPECT_EQ(budget.used(), 2 * kMib);
    EXPECT_EQ(SpareBuffers::BudgetBytes(size), kMib);
  }
  const Buffer shorter = spare.Take(kMib / 2);
  EXPECT_EQ(spare.count(), 0u) << "belongs to a small variable";
  EXPECT_EQ(budget.used(), kMib / 2);
  EXPECT_EQ(SpareBuffers::BudgetBytes(kMib / 2), kMib / 2);
}

TEST(SpareBuffersTest, WhatABufferTakesOfTheBudgetIsWhatIsCounted) {
  for (const size_t size : {size_t{0}, size_t{100}, kMib / 8 * 7, kMib - 4,
                            2 * kMib - 4, 2 * kMib, 3 * kMib, 4 * kMib - 4}) {
    MemoryBudget budget;
    SpareBuffers spare(&budget);
    Buffer taken = spare.Take(size);
    EXPECT_EQ(budget.used(), SpareBuffers::BudgetBytes(size) + spare.bytes());
    EXPECT_EQ(spare.bytes(), spare.count() * SpareBuffers::BudgetBytes(size));
    spare.Give(std::move(taken));
    EXPECT_EQ(spare.bytes(), budget.used());
  }
}

TEST(SpareBuffersTest, Promise8_WherePagesDoNotFitTheBytesMay) {
  constexpr size_t kShort = 2 * kMib - 1024;
  MemoryBudget budget(kShort);
  SpareBuffers spare(&budget);
  const Buffer slots = spare.Take(kShort);
  EXPECT_EQ(slots.size(), kShort);
  EXPECT_EQ(budget.used(), kShort);
}

TEST(SpareBuffersTest, Promise8_WhatIsNotUsedForAMinuteGoesBack) {
  MemoryBudget budget;
  SpareBuffers spare(&budget);
  spare.Tick(At(absl::ZeroDuration()));
  EXPECT_EQ(spare.next_tick(), Time::Never());
  std::vector<Buffer> peak;
  for (int i = 0; i < 10; ++i) peak.push_back(spare.Take(100));
  for (Buffer& buffer : peak) spare.Give(std::move(buffer));
  peak.clear();
  EXPECT_EQ(budget.used(), 1000u);
  EXPECT_EQ(spare.next_tick(), At(absl::Seconds(60)));
  // Two of them go on being used.
  for (int second = 20; second < 60; second += 20) {
    spare.Tick(At(absl::Seconds(second)));
    Buffer a = spare.Take(100);
    Buffer b = spare.Take(100);
    spare.Give(std::move(a));
    spare.Give(std::move(b));
  }
  spare.Tick(At(absl::Seconds(60) - absl::Nanoseconds(1)));
  EXPECT_EQ(spare.count(), 10u);
  spare.Tick(At(absl::Seconds(60)));
  EXPECT_EQ(spare.count(), 2u);
  EXPECT_EQ(budget.used(), 200u);
  EXPECT_EQ(spare.next_tick(), At(absl::Seconds(100)));
  spare.Tick(At(absl::Seconds(100)));
  EXPECT_EQ(spare.count(), 0u);
  EXPECT_EQ(spare.bytes(), 0u);
  EXPECT_EQ(budget.used(), 0u);
  EXPECT_EQ(spare.next_tick(), Time::Never());
}

TEST(SpareBuffersTest, BlocksLieTwoToAHugePage) {
  MemoryBudget budget;
  SpareBuffers spare(&budget);
  const Buffer first = spare.Take(kMib);
  EXPECT_EQ(spare.count(), 1u);
  const Buffer second = spare.Take(kMib);
  EXPECT_EQ(spare.count(), 0u);
  EXPECT_EQ(second.bytes().data(), first.bytes().data() + kMib);
  EXPECT_EQ(spare.Take(4 * kMib).size(), 4 * kMib);
  EXPECT_EQ(budget.used(), 2 * kMib);
}

TEST(SpareBuffersTest, Promise8_WhereOnlyOneBlockFitsThereIsNoSecond) {
  MemoryBudget budget(kMib);
  SpareBuffers spare(&budget);
  const Buffer block = spare.Take(kMib);
  EXPECT_EQ(budget.used(), kMib);
  EXPECT_EQ(spare.count(), 0u);
}

TEST(SpareBuffersTest, ClearDropsThemAll) {
  MemoryBudget budget;
  SpareBuffers spare(&budget);
  const Buffer read = spare.Take(8);
  spare.Give(read);
  spare.Give(budget.account().Allocate(16));
  spare.Clear();
  EXPECT_EQ(spare.count(), 0u);
  EXPECT_EQ(budget.used(), 8u) << "what is read stays";
  EXPECT_TRUE(read.unique());
}

TEST(SpareBuffersTest, MemoryOfADeviceIsTakenFirstAndNotCounted) {
  testing::FakeUnifiedMemory device(kMib);
  MemoryBudget budget(kMib);
  SpareBuffers spare(&budget, /*disk=*/nullptr, &device);
  Buffer there = spare.Take(kMib / 2);
  EXPECT_TRUE(device.Has(there.bytes()));
  EXPECT_TRUE(device.Has(spare.Copy(there, {}).bytes()));
  EXPECT_EQ(budget.used(), 0u);
  const std::byte* const place = there.bytes().data();
  spare.Give(std::move(there));
  EXPECT_EQ(spare.Take(kMib / 2).bytes().data(), place);
  // It has no more room.
  const Buffer most = spare.Take(3 * kMib / 4);
  EXPECT_FALSE(device.Has(most.bytes()));
  EXPECT_EQ(budget.used(), most.size());
}

}  // namespace
}  // namespace paramd
