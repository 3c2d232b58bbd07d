#include "config/batch_rule.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

v1::JobConfig Job(uint32_t batch, uint32_t accumulate, uint32_t push_every) {
  v1::JobConfig job;
  job.set_batch_per_replica(batch);
  job.set_accumulate(accumulate);
  job.set_push_every(push_every);
  return job;
}

TEST(BatchRuleTest, AGradientIsOfTheBatchesThatAreAccumulated) {
  EXPECT_EQ(ExamplesPerGradient(Job(32, 1, 4)), 32u);
  EXPECT_EQ(ExamplesPerGradient(Job(32, 3, 4)), 96u);
  EXPECT_EQ(ExamplesPerGradient(Job(32, 0, 0)), 32u);
}

TEST(BatchRuleTest, APushIsOfSeveralGradientsWhereThereAreNoSteps) {
  EXPECT_EQ(ExamplesPerPush(Job(32, 3, 4), /*sync=*/false), 384u);
  EXPECT_EQ(ExamplesPerPush(Job(32, 3, 4), /*sync=*/true), 96u);
}

TEST(BatchRuleTest, TheBatchOfAReplicaFollowsFromTheGlobalOne) {
  v1::JobConfig job = Job(32, 2, 1);
  ASSERT_TRUE(DeriveBatch(4, &job).ok());
  EXPECT_EQ(job.batch_per_replica(), 32u) << "there is no global batch";
  job.set_global_batch(256);
  ASSERT_TRUE(DeriveBatch(4, &job).ok());
  EXPECT_EQ(job.batch_per_replica(), 32u);
  ASSERT_TRUE(DeriveBatch(1, &job).ok());
  EXPECT_EQ(job.batch_per_replica(), 128u);
}

TEST(BatchRuleTest, AWholeBatchIsWhatTheJobFileSays) {
  v1::JobConfig job = Job(32, 2, 3);
  EXPECT_EQ(WholeBatch(job), 32u);
  job.set_global_batch(256);
  for (const uint32_t workers : {1u, 4u}) {
    ASSERT_TRUE(DeriveBatch(workers, &job).ok());
    EXPECT_EQ(WholeBatch(job), 256u);
  }
}

TEST(BatchRuleTest, AGlobalBatchThatCannotBeDividedNamesOnesThatCan) {
  v1::JobConfig job = Job(32, 1, 1);
  job.set_global_batch(100);
  EXPECT_EQ(DeriveBatch(3, &job).message(),
            "global_batch: 100 examples can't be divided by 3 workers; give 99 "
            "or 102");
  job.set_accumulate(64);
  EXPECT_EQ(DeriveBatch(2, &job).message(),
            "global_batch: 100 examples can't be divided by 2 workers that "
            "accumulate 64 batches; give 128");
  EXPECT_EQ(job.batch_per_replica(), 32u);
}

TEST(BatchRuleTest, ALossOverABatchNeedsSeveralExamplesInEach) {
  v1::JobConfig job = Job(32, 2, 1);
  job.set_global_batch(8);
  job.mutable_model()->set_loss(v1::IN_BATCH_SOFTMAX);
  EXPECT_EQ(DeriveBatch(4, &job).message(),
            "global_batch: 8 gives each batch one example, and model.loss "
            "in_batch_softmax compares the examples of a batch; give 16 or "
            "more");
  EXPECT_EQ(job.batch_per_replica(), 32u);
  ASSERT_TRUE(DeriveBatch(2, &job).ok());
  EXPECT_EQ(job.batch_per_replica(), 2u);
}

}  // namespace
}  // namespace paramd
