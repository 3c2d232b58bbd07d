#include "server/core/memory_budget.h"

#include <string>

#include "gtest/gtest.h"

#include "proto/refusal.h"

namespace paramd {
namespace {

TEST(MemoryBudgetTest, Promise8_OnlyWhatFitsIsAllowed) {
  MemoryBudget budget(1000);
  EXPECT_TRUE(budget.Fits(1000));
  EXPECT_FALSE(budget.Fits(1001));
  Buffer held = budget.account().Allocate(600);
  budget.SetKept(300);
  EXPECT_EQ(budget.used(), 900u);
  EXPECT_TRUE(budget.Fits(100));
  EXPECT_FALSE(budget.Fits(101));
  EXPECT_FALSE(budget.Fits(~uint64_t{0})) << "sums do not wrap";
  held = Buffer();
  EXPECT_TRUE(budget.Fits(700));
}

TEST(MemoryBudgetTest, WithoutALimitEverythingFits) {
  const MemoryBudget budget;
  EXPECT_TRUE(budget.Fits(~uint64_t{0}));
  EXPECT_TRUE(budget.CheckParts({{"weights", uint64_t{1} << 60}}).ok());
}

TEST(MemoryBudgetTest, WhatNeverFitsIsRefusedWithTheSum) {
  const MemoryBudget budget(16000000000);
  EXPECT_TRUE(
      budget.CheckParts({{"weights", 8000000000}, {"slots", 8000000000}}).ok());
  const absl::Status refused = budget.CheckParts(
      {{"weights", 12000000000}, {"slots", 24000000000}, {"sums", 0}});
  EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::INVALID);
  EXPECT_EQ(refused.message(),
            "weights 12.0 GB + slots 24.0 GB = 36.0 GB; the limit is 16.0 GB "
            "(memory_limit_bytes)");
}

TEST(MemoryBudgetTest, WhatDoesNotFitNowIsToBeAskedAgainAndCounted) {
  MemoryBudget budget(2000);
  const Buffer held = budget.account().Allocate(1500);
  const absl::Status refused =
      budget.RefuseNow("ps-3", "a push", 600, absl::Milliseconds(20));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::OVER_LIMIT);
  EXPECT_EQ(RefusalOf(refused).retry_after_ms(), 20u);
  EXPECT_EQ(refused.message(),
            "no memory for a push on ps-3: it needs 600 B more; 1.5 kB of 2.0 "
            "kB are used (memory_limit_bytes)");
  EXPECT_EQ(budget.refusals(), 1u);
}

TEST(MemoryBudgetTest, BytesAreForPeople) {
  EXPECT_EQ(BytesForPeople(0), "0 B");
  EXPECT_EQ(BytesForPeople(999), "999 B");
  EXPECT_EQ(BytesForPeople(1000), "1.0 kB");
  EXPECT_EQ(BytesForPeople(999949), "999.9 kB");
  EXPECT_EQ(BytesForPeople(999950), "1.0 MB");
  EXPECT_EQ(BytesForPeople(uint64_t{64} << 20), "67.1 MB");
  EXPECT_EQ(BytesForPeople(uint64_t{5} * 1000000000000), "5.0 TB");
}

}  // namespace
}  // namespace paramd
