// What a server says to a new coordinator, and until it is configured by it.
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/shard.h"
#include "server/core/testing/shard_driver.h"

namespace paramd {
namespace {

using testing::MakeConfiguration;
using testing::Pair;
using testing::ShardDriver;
using testing::Zeros;

class ShardTakeOverTest : public ::testing::Test {
 protected:
  ShardTakeOverTest()
      : configuration_(MakeConfiguration({Zeros("w", {2}), Zeros("v", {2})})) {
    driver_.MakeReady(configuration_);
  }

  absl::StatusOr<v1::RecallReply> Recall(uint64_t term) {
    v1::RecallRequest recall;
    recall.mutable_header()->set_term(term);
    recall.set_run_id(configuration_.run_id());
    recall.set_job_digest(configuration_.job_digest());
    return driver_.Ask<v1::RecallReply>(PeerId::Coordinator(), recall);
  }
  // Of examples 2 * sequence - 2 and the next one.
  absl::Status Push(uint64_t sequence,
                    const std::vector<ShardDriver::Place>& blocks,
                    uint64_t term = 1) {
    v1::PushRequest push = driver_.MakePush(sequence, blocks, 2);
    push.mutable_header()->set_term(term);
    push.set_epoch(1);
    push.set_input_begin(2 * sequence - 2);
    push.set_input_end(2 * sequence);
    return driver_.Push(push, std::vector<float>(2 * blocks.size(), 1.0f))
        .status();
  }

  ShardDriver driver_;
  v1::Configuration configuration_;
};

TEST_F(ShardTakeOverTest, ItSaysWhatItHoldsAndWhichPushesAreIn) {
  v1::ConfigureRequest configure;
  *configure.mutable_configuration() = configuration_;
  configure.mutable_header()->set_term(1);
  configure.mutable_input_left()->set_next_epoch(1);
  ASSERT_TRUE(
      driver_.Ask<v1::ConfigureReply>(PeerId::Coordinator(), configure).ok());
  ASSERT_TRUE(Push(1, {{0, 0}, {1, 0}}).ok());
  ASSERT_TRUE(Push(2, {{0, 0}}).ok());
  const auto told = Recall(2);
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_TRUE(told->filled());
  EXPECT_EQ(told->generation(), configuration_.servers(0).generation());
  EXPECT_EQ(told->input_left().next_epoch(), 1u);
  ASSERT_EQ(told->input_used_size(), 1);
  EXPECT_EQ(told->input_used(0).end(), 2u);
  ASSERT_EQ(told->sessions_size(), 1);
  EXPECT_EQ(told->sessions(0).worker(), 1u);
  EXPECT_EQ(told->sessions(0).sequence(), 1u)
      << "its worker will count the open one";
}

TEST_F(ShardTakeOverTest, Promise1_UntilItIsConfiguredItTakesNoPush) {
  ASSERT_TRUE(Push(1, {{0, 0}}).ok());
  ASSERT_TRUE(Recall(2).ok());
  const absl::Status refused = Push(1, {{1, 0}});
  EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::NOT_READY);
  EXPECT_EQ(refused.message(),
            "the coordinator of term 2 takes over and has not configured ps-0 "
            "yet");
  EXPECT_EQ(driver_.Pull(0), (std::vector<float>{-1, -1}));

  *configuration_.mutable_version() = Pair(2, 1);
  ASSERT_TRUE(driver_.Configure(configuration_)->restored());
  EXPECT_TRUE(Push(1, {{1, 0}}, /*term=*/2).ok());
  EXPECT_EQ(driver_.Pull(0), (std::vector<float>{-1, -1}));
}

TEST_F(ShardTakeOverTest,
       Promise1_ASessionThatGoesOnIsHeardByItsCoordinatorFirst) {
  ASSERT_TRUE(Push(1, {{0, 0}}).ok());
  ASSERT_TRUE(Recall(2).ok());
  *configuration_.mutable_version() = Pair(2, 1);
  ASSERT_TRUE(driver_.Configure(configuration_)->restored());
  const absl::Status refused = Push(1, {{1, 0}});
  EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::NOT_READY);
  EXPECT_EQ(
      refused.message(),
      "the coordinator of term 2 has not heard yet what worker-1 holds of "
      "the input");
  EXPECT_TRUE(Push(1, {{1, 0}}, /*term=*/2).ok());
  // What was in is known.
  EXPECT_TRUE(Push(1, {{0, 0}}, /*term=*/2).ok());
  EXPECT_EQ(driver_.Pull(0), (std::vector<float>{-1, -1}));
}

// The coordinator of term 2 had asked the process before this one.
TEST_F(ShardTakeOverTest,
       Promise5_ALaterCoordinatorHearsThatAnotherProcessIsHere) {
  v1::Configuration told = configuration_;
  *told.mutable_version() = Pair(2, 1);
  told.mutable_servers(0)->set_incarnation(
      configuration_.servers(0).incarnation() + 1);
  v1::ConfigureRequest configure;
  *configure.mutable_configuration() = told;
  configure.mutable_header()->set_term(2);
  const auto reply =
      driver_.Ask<v1::ConfigureReply>(PeerId::Coordinator(), configure);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->incarnation(), configuration_.servers(0).incarnation());
  EXPECT_FALSE(reply->restored());
  EXPECT_FALSE(reply->has_configuration());
}

TEST_F(ShardTakeOverTest, OneThatIsNotFilledSaysNothing) {
  ShardDriver empty;
  v1::RecallRequest recall;
  recall.mutable_header()->set_term(1);
  const auto told = empty.Ask<v1::RecallReply>(PeerId::Coordinator(), recall);
  ASSERT_TRUE(told.ok());
  EXPECT_FALSE(told->filled());
  EXPECT_FALSE(told->has_input_left());
}

}  // namespace
}  // namespace paramd
