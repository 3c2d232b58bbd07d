#include "tests/sim/model_workload.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(ModelWorkloadTest, TheSameBitsInOneProcessAndOnAnyNetwork) {
  const ModelJob job = DrawnModelJob();
  const auto expected = TrainModelInProcess(job);
  ASSERT_TRUE(expected.ok()) << expected.status();
  // Two dense layers with two slots each.
  ASSERT_EQ(expected->size(), 12u);
  EXPECT_EQ(*TrainModelInProcess(job), *expected) << "in two runs of real time";
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const ModelReport report = RunModelWorkload(job, seed, false, *expected);
    EXPECT_TRUE(report.status.ok()) << report.status;
    EXPECT_EQ(report.trained, *expected);
    EXPECT_GE(report.checkpoints, 2u);
  }
}

}  // namespace
}  // namespace paramd
