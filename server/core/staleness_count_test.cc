#include "server/core/staleness_count.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;

TEST(StalenessCountTest, BucketsArePowersOfTwoAndTheLastHasNoEnd) {
  StalenessCount count;
  for (const uint64_t staleness : {0, 1, 2, 3, 4, 7, 8}) count.Add(staleness);
  count.Add(uint64_t{1} << 40);
  v1::Staleness stats;
  count.Fill(&stats);
  EXPECT_EQ(stats.blocks(), 8);
  EXPECT_EQ(stats.sum(), 25 + (uint64_t{1} << 40));
  EXPECT_THAT(stats.histogram(),
              ElementsAre(1, 1, 2, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1));
}

TEST(StalenessCountTest, FillReplacesWhatWasThere) {
  StalenessCount count;
  count.Add(5);
  v1::Staleness stats;
  count.Fill(&stats);
  count.Fill(&stats);
  EXPECT_EQ(stats.blocks(), 1);
  EXPECT_EQ(stats.histogram_size(), 15);
}

}  // namespace
}  // namespace paramd
