#include "tests/sim/model_workload.h"

#include <cstdint>

#include "gtest/gtest.h"

#include "tests/sim/few_seeds.h"

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

uint32_t Epochs() { return FewSeeds() ? 3 : 35; }

TEST(ModelWorkloadTest, Promise6_WorkersInStepGiveTheBitsOfOneThatAccumulates) {
  for (const uint32_t workers : {1, 2, 3, 4}) {
    ModelJob job = DrawnModelJob();
    job.config.set_staleness("sync");
    // 29 batches an epoch: 1,000 steps of one worker.
    job.config.set_epochs(Epochs() * workers);
    job.config.mutable_checkpoint()->set_every_steps(100);
    job.config.set_accumulate(workers);
    const auto expected = TrainModelInProcess(job);
    ASSERT_TRUE(expected.ok()) << expected.status();
    job.config.set_accumulate(1);
    job.workers = workers;
    for (const uint32_t servers : {1, 2, 3}) {
      job.servers = servers;
      const ModelReport report =
          RunModelWorkload(job, /*seed=*/servers, false, *expected);
      EXPECT_TRUE(report.status.ok()) << report.status;
    }
  }
}

TEST(ModelWorkloadTest, Promise6_WorkersInStepScaleLossesAsOneThatAccumulates) {
  for (const uint32_t workers : {2, 3}) {
    ModelJob job = DrawnModelJob();
    job.config.set_staleness("sync");
    job.config.set_compute_format(v1::JobConfig::COMPUTE_FORMAT_FP16);
    // Gradients overflow with it: each batch has a scale of its own.
    job.config.set_loss_scale(16777216);
    job.config.set_epochs(2 * workers);
    job.config.set_accumulate(workers);
    const auto expected = TrainModelInProcess(job);
    ASSERT_TRUE(expected.ok()) << expected.status();
    job.config.set_accumulate(1);
    job.workers = workers;
    const ModelReport report =
        RunModelWorkload(job, /*seed=*/1, false, *expected);
    EXPECT_TRUE(report.status.ok()) << report.status;

    job.config.set_compute_format(v1::JobConfig::COMPUTE_FORMAT_FP32);
    const auto fp32 = TrainModelInProcess(job);
    ASSERT_TRUE(fp32.ok()) << fp32.status();
    EXPECT_NE(*fp32, *expected);
  }
}

TEST(ModelWorkloadTest, WithOneWorkerABoundChangesNoBit) {
  ModelJob job = DrawnModelJob();
  const auto expected = TrainModelInProcess(job);
  ASSERT_TRUE(expected.ok()) << expected.status();
  job.config.set_staleness("0");
  const auto bounded = TrainModelInProcess(job);
  ASSERT_TRUE(bounded.ok()) << bounded.status();
  EXPECT_EQ(*bounded, *expected);
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const ModelReport report = RunModelWorkload(job, seed, false, *expected);
    EXPECT_TRUE(report.status.ok()) << report.status;
  }
}

}  // namespace
}  // namespace paramd
