#include "tests/sim/model_workload.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(ModelWorkloadTest, TheSameBitsInOneProcessAndOnAnyNetwork) {
  const auto expected = TrainModelInProcess();
  ASSERT_TRUE(expected.ok()) << expected.status();
  // Two dense layers with two slots each.
  ASSERT_EQ(expected->size(), 12u);
  EXPECT_EQ(*TrainModelInProcess(), *expected) << "in two runs of real time";
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const WorkloadReport report = RunModelWorkload(seed, false, *expected);
    EXPECT_TRUE(report.status.ok()) << report.status;
    EXPECT_GE(report.checkpoints, 2u);
  }
}

}  // namespace
}  // namespace paramd
