#include "server/core/step_gradients.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/testing/configurations.h"
#include "server/core/testing/shard_bench.h"

namespace paramd {
namespace {

using ::paramd::testing::Pair;
using ::paramd::testing::Payload;
using ::paramd::testing::ShardBench;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Workers 0 to 2 contribute to both values of "w".
class StepGradientsTest : public ::testing::Test {
 protected:
  StepGradientsTest() {
    *contributors_.mutable_version() = Pair(1, 1);
    for (const uint32_t worker : {0, 1, 2}) contributors_.add_workers(worker);
    gradients_.Begin(contributors_, /*backup_workers=*/0);
    gradients_.NoteSessions(bench_.configuration);
  }

  absl::Status Add(uint32_t worker, const std::vector<float>& gradient,
                   uint64_t sequence = 1) {
    v1::PushRequest push = ShardBench::PushOf(sequence);
    push.mutable_header()->set_worker(worker);
    *push.mutable_header()->mutable_generation() = Pair(1, 10 + worker);
    push.set_step(1);
    push.set_examples(1 + worker);
    const BufferChain payload = Payload(gradient);
    v1::PushReply reply;
    return gradients_.Add(push,
                          *bench_.data.content->pushes().Check(push, payload),
                          payload, &reply);
  }
  void Apply(const std::vector<uint32_t>& workers, float scale = 1) {
    for (size_t block = 0; block < gradients_.blocks(); ++block) {
      ASSERT_TRUE(gradients_.Apply(block, workers, scale, /*step=*/1).ok());
    }
  }

  ShardBench bench_;
  v1::Contributors contributors_;
  // Of two numbers, no more.
  StepGradients gradients_{{.park_bytes = 2 * sizeof(float)},
                           bench_.data.content.get()};
};

TEST_F(StepGradientsTest, Promise6_TheSumIsInTheOrderOfTheContributors) {
  ASSERT_TRUE(Add(1, {-1e8f, 1}).ok());
  EXPECT_EQ(gradients_.parked_bytes(), 2 * sizeof(float)) << "it waits for 0";
  ASSERT_TRUE(Add(0, {1, 1}).ok());
  EXPECT_EQ(gradients_.parked_bytes(), 0u);
  ASSERT_TRUE(Add(2, {1e8f, 1}).ok());
  EXPECT_THAT(gradients_.Complete(), ElementsAre(0, 1, 2));
  EXPECT_THAT(bench_.Values(), ElementsAre(0, 0));
  Apply({0, 1, 2});
  // (1 - 1e8) + 1e8 is 0 in fp32; in another order it is 1.
  EXPECT_THAT(bench_.Values(), ElementsAre(0, -3));
}

TEST_F(StepGradientsTest, WhatHasNoRoomWaitsForThoseWhoAreMissing) {
  ASSERT_TRUE(Add(1, {1, 1}).ok());
  const v1::Refusal refusal = RefusalOf(Add(2, {1, 1}));
  EXPECT_EQ(refusal.reason(), v1::Refusal::RETRY);
  EXPECT_EQ(refusal.waiting_for(),
            "worker-0 generation 1.10, worker-2 generation 1.12 to contribute "
            "to step 1");
}

TEST_F(StepGradientsTest, AContributionIsOfOnePush) {
  ASSERT_TRUE(Add(0, {1, 1}).ok());
  ASSERT_TRUE(Add(0, {1, 1}).ok());
  EXPECT_EQ(RefusalOf(Add(0, {1, 1}, /*sequence=*/2)).reason(),
            v1::Refusal::INVALID);
  EXPECT_EQ(gradients_.ExamplesOf({0}), 1u);
  EXPECT_EQ(RefusalOf(gradients_.CheckContributor(7)).reason(),
            v1::Refusal::INVALID);
}

TEST_F(StepGradientsTest, WithBackupWorkersOnlyThoseDecidedAreAdded) {
  EXPECT_EQ(RefusalOf(gradients_.CheckFits(3, 1)).reason(),
            v1::Refusal::INVALID);
  StepGradients roomy({}, bench_.data.content.get());
  EXPECT_TRUE(roomy.CheckFits(3, 1).ok());
  contributors_.mutable_workers()->Truncate(1);
  gradients_.Begin(contributors_, /*backup_workers=*/1);
  ASSERT_TRUE(Add(0, {1, 2}).ok());
  EXPECT_EQ(gradients_.parked_bytes(), 2 * sizeof(float));
  Apply({0}, /*scale=*/2);
  EXPECT_THAT(bench_.Values(), ElementsAre(-2, -4));
}

TEST_F(StepGradientsTest, Promise1_WhatWasAppliedIsRecordedAsIn) {
  ASSERT_TRUE(Add(0, {1, 1}).ok());
  EXPECT_TRUE(gradients_.IsAdmitted(0));
  Apply({0});
  EXPECT_FALSE(gradients_.IsAdmitted(0));
}

TEST_F(StepGradientsTest, OtherContributorsBeginWithNothing) {
  ASSERT_TRUE(Add(1, {1, 1}).ok());
  gradients_.Begin(contributors_, /*backup_workers=*/0);
  EXPECT_EQ(gradients_.parked_bytes(), 0u);
  EXPECT_THAT(gradients_.Complete(), IsEmpty());
}

}  // namespace
}  // namespace paramd
