// A server that is told to stop.
#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/shard.h"
#include "server/core/testing/shard_driver.h"

namespace paramd {
namespace {

using testing::kChief;
using testing::MakeConfiguration;
using testing::MakeSeal;
using testing::Pair;
using testing::ShardDriver;
using testing::Zeros;

class ShardDrainTest : public ::testing::Test {
 protected:
  static v1::Configuration Config() {
    return MakeConfiguration({Zeros("w", {2})});
  }

  ShardDriver driver_;
};

TEST_F(ShardDrainTest, OneThatHoldsNothingLeavesAtOnce) {
  driver_.Drain();
  EXPECT_TRUE(driver_.exited);
  EXPECT_TRUE(driver_.exit_status.ok());
}

TEST_F(ShardDrainTest, BeforeAnythingWasPushedItLeavesAtOnceAndLosesNothing) {
  v1::Configuration starting = Config();
  starting.set_state(v1::STARTING);
  driver_.MakeReady(starting);
  driver_.Drain();
  EXPECT_TRUE(driver_.exited);
  EXPECT_TRUE(driver_.exit_status.ok());
  for (const std::string& note : driver_.notes) {
    EXPECT_EQ(note.find("lost"), std::string::npos) << note;
  }
}

TEST_F(ShardDrainTest, ItAsksForASnapshotAndStays) {
  driver_.MakeReady(Config());
  driver_.Drain();
  EXPECT_FALSE(driver_.exited);
  const auto reply = driver_.Configure(Config());
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->draining());
  EXPECT_EQ(reply->drained_by(), Pair(0, 0));
  EXPECT_EQ(driver_.shard().overdue(Time()),
            "the coordinator to save ps-0 generation 1.1");
}

TEST_F(ShardDrainTest, Promise1_NothingIsAppliedAfterTheSnapshotItLeavesWith) {
  driver_.MakeReady(Config());
  driver_.Drain();
  ASSERT_TRUE(driver_.Push(driver_.MakePush(1, {{0, 0}}, 2), {1, 1}).ok());
  ASSERT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
  const auto late = driver_.Push(driver_.MakePush(2, {{0, 0}}, 2), {1, 1});
  EXPECT_EQ(RefusalOf(late.status()).reason(), v1::Refusal::NOT_READY);
  EXPECT_EQ(driver_.Pull(0), (std::vector<float>{-1, -1}));
}

TEST_F(ShardDrainTest, Promise1_ASnapshotThatNobodyStoppedForIsNotTheOne) {
  driver_.MakeReady(Config());
  driver_.Drain();
  v1::SealRequest seal = MakeSeal(1);
  seal.set_stopped(false);
  ASSERT_TRUE(driver_.Ask<v1::SealReply>(kChief, seal).ok());
  EXPECT_TRUE(driver_.Push(driver_.MakePush(1, {{0, 0}}, 2), {1, 1}).ok());
  EXPECT_EQ(driver_.Configure(Config(), Pair(1, 1))->drained_by(), Pair(0, 0));
  EXPECT_FALSE(driver_.exited);
}

TEST_F(ShardDrainTest, ItLeavesWhenItHearsThatTheSnapshotIsCommitted) {
  driver_.MakeReady(Config());
  driver_.Drain();
  ASSERT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(2)).ok());
  auto reply = driver_.Configure(Config(), Pair(1, 1));  // The one before.
  EXPECT_EQ(reply->drained_by(), Pair(1, 2));
  EXPECT_FALSE(driver_.exited);
  reply = driver_.Configure(Config(), Pair(1, 2));
  EXPECT_TRUE(reply.ok());
  EXPECT_TRUE(driver_.exited);
  EXPECT_TRUE(driver_.exit_status.ok());
}

TEST_F(ShardDrainTest, ASnapshotSealedBeforeIsNotTheOneToLeaveWith) {
  driver_.MakeReady(Config());
  ASSERT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
  driver_.Drain();
  ASSERT_TRUE(driver_.Configure(Config(), Pair(1, 1)).ok());
  EXPECT_FALSE(driver_.exited);
  EXPECT_TRUE(driver_.Push(driver_.MakePush(1, {{0, 0}}, 2), {1, 1}).ok());
}

TEST_F(ShardDrainTest, Promise4_IfItsSnapshotIsGivenUpItAppliesUntilTheNext) {
  driver_.MakeReady(Config());
  driver_.Drain();
  ASSERT_TRUE(driver_.Ask<v1::SealReply>(kChief, MakeSeal(2)).ok());
  v1::ConfigureRequest configure;
  configure.mutable_header()->set_term(1);
  *configure.mutable_configuration() = Config();
  *configure.mutable_committed() = Pair(1, 1);
  // A message from before the seal, and one from while the snapshot is open.
  for (const uint64_t open : {1, 2}) {
    *configure.mutable_header()->mutable_snapshot() = Pair(1, open);
    const auto reply = driver_.Ask<v1::ConfigureReply>(kChief, configure);
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->drained_by(), Pair(1, 2));
    EXPECT_FALSE(driver_.Push(driver_.MakePush(1, {{0, 0}}, 2), {1, 1}).ok());
  }
  *configure.mutable_header()->mutable_snapshot() = Pair(1, 3);
  const auto reply = driver_.Ask<v1::ConfigureReply>(kChief, configure);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->drained_by(), Pair(0, 0));
  EXPECT_TRUE(reply->draining());
  EXPECT_TRUE(driver_.Push(driver_.MakePush(1, {{0, 0}}, 2), {1, 1}).ok());
}

TEST_F(ShardDrainTest, Promise4_WithoutACoordinatorItLeavesAfterTheLease) {
  driver_.MakeReady(Config());
  driver_.Drain();
  driver_.Advance(absl::Seconds(10));
  EXPECT_FALSE(driver_.exited);
  driver_.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(driver_.exited);
  EXPECT_NE(driver_.notes.back().find("without a checkpoint"),
            std::string::npos);
}

}  // namespace
}  // namespace paramd
