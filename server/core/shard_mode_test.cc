// A server whose job comes to be in sync mode, and leaves it again.
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/shard.h"
#include "server/core/testing/shard_driver.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using testing::MakeConfiguration;
using testing::Pair;
using testing::ReasonOf;
using testing::ShardDriver;
using testing::Zeros;

// Begins as async with workers 0 to 2; each mode has sessions of its own.
class ShardModeTest : public ::testing::Test {
 protected:
  ShardModeTest() : configuration_(MakeConfiguration({Zeros("w", {2})})) {
    SetMode(v1::Consistency::ASYNC);
    driver_.MakeReady(configuration_);
  }
  void SetMode(v1::Consistency::Mode mode) {
    configuration_.mutable_consistency()->set_mode(mode);
    configuration_.clear_contributors();
  }
  void Reconfigure() {
    auto* version = configuration_.mutable_version();
    version->set_counter(version->counter() + 1);
    const auto configured = driver_.Configure(configuration_);
    ASSERT_TRUE(configured.ok()) << configured.status();
  }
  // Nobody's session; then worker 1 alone, in its next one.
  void Begin(v1::Consistency::Mode mode, uint64_t first_step) {
    SetMode(mode);
    configuration_.clear_workers();
    Reconfigure();
    v1::WorkerMember* const worker = configuration_.add_workers();
    worker->set_index(1);
    *worker->mutable_generation() = Pair(1, ++generation_);
    Reconfigure();
    if (mode != v1::Consistency::SYNC) return;
    v1::Contributors* const told = configuration_.mutable_contributors();
    *told->mutable_version() = Pair(1, ++generation_);
    told->set_first_step(first_step);
    told->add_workers(1);
    Reconfigure();
  }
  v1::PushRequest PushOf(uint64_t generation, uint64_t sequence) {
    v1::PushRequest push = driver_.MakePush(sequence, {{0, 0}}, 2);
    *push.mutable_header()->mutable_generation() = Pair(1, generation);
    return push;
  }
  v1::PushRequest ShareOf(uint64_t sequence, uint64_t step) {
    v1::PushRequest push =
        PushOf(configuration_.workers(0).generation().counter(), sequence);
    push.set_step(step);
    push.set_examples(4);
    *push.mutable_contributors() = configuration_.contributors().version();
    return push;
  }
  v1::DecideRequest DecisionOf(uint64_t step) {
    v1::DecideRequest decide;
    decide.mutable_header()->set_term(1);
    *decide.mutable_contributors() = configuration_.contributors().version();
    decide.set_step(step);
    decide.add_workers(1);
    decide.set_examples(4);
    return decide;
  }

  ShardDriver driver_;
  v1::Configuration configuration_;
  uint64_t generation_ = 20;
};

TEST_F(ShardModeTest, StepsGoOnWhereAsyncPushesEnded) {
  ASSERT_TRUE(driver_.Push(PushOf(11, 1), {1, 2}).ok());
  Begin(v1::Consistency::SYNC, /*first_step=*/2);
  const v1::PushRequest share = ShareOf(1, 2);
  ASSERT_TRUE(driver_.Push(share, {10, 20}).ok());
  EXPECT_THAT(driver_.Pull(0), ElementsAre(-1, -2));
  const CallId decide = driver_.Begin(PeerId::Coordinator(), DecisionOf(2));
  driver_.Settle();
  EXPECT_TRUE(driver_.answered(decide));
  EXPECT_THAT(driver_.Pull(0), ElementsAre(-11, -22));
}

TEST_F(ShardModeTest, Promise1_APushOfAnEarlierModeNeverLandsInALaterOne) {
  const v1::PushRequest before = PushOf(11, 1);
  Begin(v1::Consistency::SYNC, 1);
  EXPECT_EQ(ReasonOf(driver_.Push(before, {1, 2}).status()),
            v1::Refusal::FENCED);
  const v1::PushRequest share = ShareOf(1, 1);
  ASSERT_TRUE(driver_.Push(share, {10, 20}).ok());
  Begin(v1::Consistency::ASYNC, 0);
  EXPECT_EQ(ReasonOf(driver_.Push(share, {10, 20}).status()),
            v1::Refusal::FENCED);
  EXPECT_THAT(driver_.Pull(0), ElementsAre(0, 0));
  const uint64_t present = configuration_.workers(0).generation().counter();
  ASSERT_TRUE(driver_.Push(PushOf(present, 1), {3, 4}).ok());
  EXPECT_THAT(driver_.Pull(0), ElementsAre(-3, -4));
}

TEST_F(ShardModeTest, WithTheModeEndWhatWaitedForAStep) {
  Begin(v1::Consistency::SYNC, 1);
  const CallId decide = driver_.Begin(PeerId::Coordinator(), DecisionOf(0));
  v1::PullRequest pull;
  pull.mutable_header()->set_worker(1);
  *pull.mutable_header()->mutable_generation() =
      configuration_.workers(0).generation();
  pull.set_encoding(v1::FP32);
  pull.set_clock(0);
  pull.set_after_step(1);
  pull.add_blocks();
  const CallId read = driver_.Begin(PeerId::Worker(1), pull);
  EXPECT_FALSE(driver_.answered(decide));
  EXPECT_FALSE(driver_.answered(read));
  Begin(v1::Consistency::ASYNC, 0);
  EXPECT_EQ(ReasonOf(driver_.Take(decide).status), v1::Refusal::SUPERSEDED);
  EXPECT_EQ(ReasonOf(driver_.Take(read).status), v1::Refusal::NOT_READY);
}

TEST_F(ShardModeTest, SyncMayComeBackWithOtherContributors) {
  Begin(v1::Consistency::SYNC, 1);
  Begin(v1::Consistency::ASYNC, 0);
  Begin(v1::Consistency::SYNC, 5);
  ASSERT_TRUE(driver_.Push(ShareOf(1, 5), {10, 20}).ok());
  driver_.Begin(PeerId::Coordinator(), DecisionOf(5));
  driver_.Settle();
  EXPECT_THAT(driver_.Pull(0), ElementsAre(-10, -20));
}

}  // namespace
}  // namespace paramd
