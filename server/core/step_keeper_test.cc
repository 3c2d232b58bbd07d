#include "server/core/step_keeper.h"

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

// Worker 1 alone contributes, from step 1 on.
class StepKeeperTest : public ::testing::Test {
 protected:
  StepKeeperTest() {
    v1::Configuration& configuration = bench_.configuration;
    configuration.mutable_consistency()->set_mode(v1::Consistency::SYNC);
    v1::Contributors* const contributors = configuration.mutable_contributors();
    *contributors->mutable_version() = Pair(1, 1);
    contributors->set_first_step(1);
    contributors->add_workers(1);
  }

  absl::Status Configure() {
    absl::Status status;
    bench_.Do([&](ShardTurn* turn) {
      status = steps_.Configure(bench_.configuration, turn);
    });
    return status;
  }
  void Contribute() {
    v1::PushRequest push = ShardBench::PushOf(1);
    push.set_step(1);
    push.set_examples(1);
    *push.mutable_contributors() = Pair(1, 1);
    v1::PushReply reply;
    const absl::Status pushed =
        bench_.data.step->Push(push, Payload({1, 2}), &reply);
    ASSERT_TRUE(pushed.ok()) << pushed;
  }
  // Step 0 asks what is complete.
  void Decide(uint64_t step) {
    v1::DecideRequest decide;
    *decide.mutable_contributors() = Pair(1, 1);
    decide.set_step(step);
    if (step > 0) {
      decide.add_workers(1);
      decide.set_examples(1);
    }
    bench_.Do([&](ShardTurn* turn) {
      steps_.OnDecide(/*call=*/7, decide, turn);
      steps_.Advance(turn);
    });
  }
  v1::Refusal::Reason refusal() const {
    EXPECT_EQ(bench_.out.replies.size(), 1u);
    return RefusalOf(bench_.out.replies.at(0).status).reason();
  }

  ShardBench bench_;
  StepKeeper steps_{bench_.view};
};

TEST_F(StepKeeperTest, ThereIsAStepWhenContentAndContributorsAreThere) {
  bench_.fill_state = FillState::kFilling;
  EXPECT_TRUE(Configure().ok());
  EXPECT_EQ(bench_.data.step, nullptr);
  bench_.fill_state = FillState::kFilled;
  v1::Contributors contributors;
  contributors.Swap(bench_.configuration.mutable_contributors());
  EXPECT_TRUE(Configure().ok());
  EXPECT_EQ(bench_.data.step, nullptr);
  contributors.Swap(bench_.configuration.mutable_contributors());
  EXPECT_TRUE(Configure().ok());
  EXPECT_NE(bench_.data.step, nullptr);
}

TEST_F(StepKeeperTest, Promise6_AStepIsAppliedWhenItIsDecided) {
  ASSERT_TRUE(Configure().ok());
  Contribute();
  bench_.Do([&](ShardTurn* turn) { steps_.Advance(turn); });
  EXPECT_THAT(bench_.Values(), ElementsAre(0, 0));
  Decide(1);
  EXPECT_THAT(bench_.Values(), ElementsAre(-1, -2));
  EXPECT_EQ(bench_.data.step->step(), 1u);
}

TEST_F(StepKeeperTest, NothingIsDecidedWhereThereAreNoSteps) {
  bench_.configuration.mutable_consistency()->set_mode(v1::Consistency::ASYNC);
  Decide(1);
  EXPECT_EQ(refusal(), v1::Refusal::INVALID);
}

TEST_F(StepKeeperTest, WhoMayNotDecideChangesNothing) {
  ASSERT_TRUE(Configure().ok());
  Contribute();
  bench_.checks.answer =
      Refuse(v1::Refusal::OLD_TERM, "term 0", "term 0 is over");
  Decide(1);
  EXPECT_EQ(refusal(), v1::Refusal::OLD_TERM);
  EXPECT_THAT(bench_.Values(), ElementsAre(0, 0));
}

TEST_F(StepKeeperTest, TheStepEndsWithTheModeAndWhoWaitsIsRefused) {
  ASSERT_TRUE(Configure().ok());
  Decide(0);
  EXPECT_TRUE(bench_.out.replies.empty());
  EXPECT_LT(steps_.next_tick(), Time::Never());
  bench_.configuration.mutable_consistency()->set_mode(v1::Consistency::ASYNC);
  EXPECT_TRUE(Configure().ok());
  EXPECT_EQ(refusal(), v1::Refusal::SUPERSEDED);
  EXPECT_EQ(bench_.data.step, nullptr);
  EXPECT_EQ(steps_.next_tick(), Time::Never());
}

}  // namespace
}  // namespace paramd
