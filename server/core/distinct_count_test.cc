#include "server/core/distinct_count.h"

#include "gtest/gtest.h"

#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

// A tenth is three standard errors.
void ExpectNear(uint64_t wanted, const DistinctCount& count) {
  EXPECT_NEAR(static_cast<double>(count.Estimate()),
              static_cast<double>(wanted), 0.1 * static_cast<double>(wanted));
}

TEST(DistinctCountTest, Nothing_IsNone) {
  EXPECT_EQ(0u, DistinctCount().Estimate());
}

TEST(DistinctCountTest, EachKey_CountsOnce) {
  DistinctCount count;
  for (int round = 0; round < 3; ++round) {
    for (uint64_t key = 0; key < 20; ++key) count.Add(MixKey(key));
    EXPECT_NEAR(20.0, static_cast<double>(count.Estimate()), 1);
  }
}

TEST(DistinctCountTest, FewAndManyKeys_AreCountedWithinATenth) {
  DistinctCount count;
  uint64_t added = 0;
  for (const uint64_t wanted :
       {100, 1000, 2000, 2500, 3000, 5000, 20000, 1000000}) {
    while (added < wanted) count.Add(MixKey(added++));
    SCOPED_TRACE(wanted);
    ExpectNear(wanted, count);
  }
}

// As those of one bucket of many do.
TEST(DistinctCountTest, KeysThatBeginAlike_AreCountedAsWell) {
  DistinctCount count;
  for (uint64_t key = 0; key < 50000; ++key) {
    count.Add(uint64_t{77} << 50 | MixKey(key) >> 14);
  }
  ExpectNear(50000, count);
}

}  // namespace
}  // namespace paramd
