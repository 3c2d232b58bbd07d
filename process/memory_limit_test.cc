#include "process/memory_limit.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(MemoryLimitTest, HeldAndReceivedAreNineTenthsTogetherUnlessItIsTold) {
  for (const uint64_t found : {uint64_t{1000}, uint64_t{512} << 20,
                               uint64_t{1} << 30, uint64_t{128} << 30}) {
    const MemoryLimits limits = MemoryLimitsOf(0, found);
    EXPECT_EQ(limits.held + limits.received, found / 10 * 9);
    EXPECT_GE(limits.held, limits.received);
  }
  EXPECT_EQ(MemoryLimitsOf(0, uint64_t{1} << 30).received, uint64_t{256} << 20);
  EXPECT_EQ(MemoryLimitsOf(17, 1000).held, 17u);
  EXPECT_EQ(MemoryLimitsOf(17, 1000).received, 17u);
  EXPECT_EQ(MemoryLimitsOf(0, 0).held, 0u);
  EXPECT_EQ(MemoryLimitsOf(0, 0).received, 0u);
}

TEST(MemoryLimitTest, ServersOfOneProcessShareItsMemory) {
  v1::JobConfig job;
  job.set_memory_limit_bytes(1000);
  EXPECT_EQ(MemoryOfAShard(job, 1), 1000u);
  EXPECT_EQ(MemoryOfAShard(job, 4), 250u);
  job.set_memory_limit_bytes(3);
  EXPECT_EQ(MemoryOfAShard(job, 4), 1u) << "0 would be no limit";
}

}  // namespace
}  // namespace paramd
