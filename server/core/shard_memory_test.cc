// A server at the limit of its memory: what it refuses, and that nothing is
// lost or doubled for it.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/shard.h"
#include "server/core/testing/shard_driver.h"

namespace paramd {
namespace {

using testing::kChief;
using testing::MakeAdamConfiguration;
using testing::MakeConfiguration;
using testing::MakeSeal;
using testing::Numbers;
using testing::Pair;
using testing::Payload;
using testing::ReasonOf;
using testing::ShardDriver;
using testing::Zeros;

constexpr uint32_t kElements = 1000;
constexpr uint64_t kBytes = 4000;  // Of one variable.

std::vector<float> All(float number, size_t count = kElements) {
  return std::vector<float>(count, number);
}

class ShardMemoryTest : public ::testing::Test {
 protected:
  void Start(const v1::Configuration& configuration, uint64_t limit) {
    Shard::Options options;
    options.incarnation = 100;
    options.life_seed = 1000;
    options.memory_limit_bytes = limit;
    driver_ = std::make_unique<ShardDriver>(options);
    driver_->MakeReady(configuration);
  }
  // One variable, plain SGD with rate 1.
  void StartOne(uint64_t limit) {
    Start(MakeConfiguration({Zeros("w", {kElements})}), limit);
  }
  v1::ServerStats Stats() const {
    v1::StatusReply status;
    driver_->shard().FillStatus(&status);
    return status.server();
  }
  static v1::PullRequest PullOf(v1::Encoding encoding) {
    v1::PullRequest pull;
    pull.set_encoding(encoding);
    pull.add_blocks();
    return pull;
  }
  // As of a reader that has not taken it from the network yet.
  BufferChain Unread() {
    return driver_->Call(PeerId{}, PullOf(v1::FP32)).payload;
  }
  absl::Status Push(const v1::PushRequest& push, float gradient = 1) {
    return driver_->Push(push, All(gradient, kElements * push.blocks_size()))
        .status();
  }
  v1::PushRequest PushOf(uint64_t sequence) {
    return driver_->MakePush(sequence, {{0, 0}}, kElements);
  }

  std::unique_ptr<ShardDriver> driver_;
};

// ---- what lasts
// ----------------------------------------------------------------

TEST_F(ShardMemoryTest, VariablesThatDoNotFitAreRefusedWithTheSum) {
  Shard::Options options;
  options.incarnation = 100;
  options.memory_limit_bytes = 3 * kBytes - 1;
  ShardDriver driver(options);
  v1::Configuration configuration =
      MakeAdamConfiguration({Zeros("w", {kElements})});
  const absl::Status refused = driver.Configure(configuration).status();
  EXPECT_EQ(ReasonOf(refused), v1::Refusal::INVALID);
  EXPECT_EQ(RefusalOf(refused).entity(), "memory_limit_bytes");
  EXPECT_EQ(refused.message(),
            "the variables do not fit: weights 4.0 kB + slots 8.0 kB = 12.0 "
            "kB; the limit is 12.0 kB (memory_limit_bytes)");
  configuration.mutable_consistency()->set_mode(v1::Consistency::SYNC);
  EXPECT_EQ(driver.Configure(configuration).status().message(),
            "the variables do not fit: weights 4.0 kB + slots 8.0 kB + sums of "
            "gradients 4.0 kB = 16.0 kB; the limit is 12.0 kB "
            "(memory_limit_bytes)");
}

TEST_F(ShardMemoryTest, ABlockThatNearlyFillsItsHalfOfAPageTakesAllOfIt) {
  constexpr uint64_t kHalf = uint64_t{1} << 20;
  const v1::Configuration configuration =
      MakeConfiguration({Zeros("w", {260000})});
  Shard::Options options;
  options.incarnation = 100;
  options.memory_limit_bytes = kHalf - 1;
  ShardDriver driver(options);
  EXPECT_EQ(driver.Configure(configuration).status().message(),
            "the variables do not fit: weights 1.0 MB = 1.0 MB; the limit is "
            "1.0 MB (memory_limit_bytes)");
  Start(configuration, 2 * kHalf);
  EXPECT_EQ(Stats().memory_bytes(), 2 * kHalf);
  EXPECT_EQ(Stats().spare_bytes(), kHalf) << "the other half";
}

TEST_F(ShardMemoryTest, TheStatusSaysWhatIsUsedAndTheLimit) {
  StartOne(2 * kBytes);
  EXPECT_EQ(Stats().memory_bytes(), kBytes);
  EXPECT_EQ(Stats().memory_limit_bytes(), 2 * kBytes);
  EXPECT_EQ(Stats().memory_refusals(), 0u);
  const BufferChain unread = Unread();
  ASSERT_TRUE(Push(PushOf(1)).ok());
  EXPECT_EQ(Stats().memory_bytes(), 2 * kBytes);
  EXPECT_EQ(Stats().spare_bytes(), kBytes);
}

// ---- readers
// -------------------------------------------------------------------

TEST_F(ShardMemoryTest, Promise1_APushWithoutRoomForACopyIsAppliedOnceLater) {
  StartOne(2 * kBytes - 1);
  BufferChain unread = Unread();
  const absl::Status refused = Push(PushOf(1));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(refused), v1::Refusal::OVER_LIMIT);
  EXPECT_EQ(RefusalOf(refused).retry_after_ms(), 20u);
  EXPECT_EQ(refused.message(),
            "no memory for a push on ps-0: it needs 4.0 kB more; 4.0 kB of 8.0 "
            "kB are used (memory_limit_bytes)");
  EXPECT_EQ(Stats().memory_refusals(), 1u);
  EXPECT_EQ(Stats().blocks_applied(), 0u);
  EXPECT_EQ(driver_->replies_given_up, 1) << "the reader may be stuck";
  EXPECT_EQ(Numbers(unread), All(0));

  unread.clear();
  EXPECT_TRUE(Push(PushOf(1)).ok());
  EXPECT_TRUE(Push(PushOf(1)).ok());
  EXPECT_EQ(driver_->Pull(0), All(-1)) << "repeated, and applied once";
  EXPECT_EQ(Stats().blocks_repeated(), 1u);
}

TEST_F(ShardMemoryTest, Promise9_AChunkOfWhichOneBlockDoesNotFitChangesNone) {
  Start(MakeConfiguration({Zeros("w", {kElements}), Zeros("v", {kElements})}),
        3 * kBytes - 1);
  const BufferChain unread = Unread();
  const v1::PushRequest push =
      driver_->MakePush(1, {{1, 0}, {0, 0}}, kElements);
  EXPECT_EQ(ReasonOf(Push(push)), v1::Refusal::OVER_LIMIT);
  EXPECT_EQ(driver_->Pull(0), All(0));
  EXPECT_EQ(driver_->Pull(1), All(0));
  // The block that nobody reads takes gradients in place.
  EXPECT_TRUE(Push(driver_->MakePush(1, {{1, 0}}, kElements)).ok());
}

TEST_F(ShardMemoryTest, Promise8_ReadersThatNeverReadDoNotGrowTheServer) {
  StartOne(4 * kBytes);
  std::vector<BufferChain> unread;
  uint64_t applied = 0;
  for (int reader = 0; reader < 10; ++reader) {
    unread.push_back(Unread());
    applied += Push(PushOf(applied + 1)).ok() ? 1 : 0;
    EXPECT_LE(Stats().memory_bytes(), 4 * kBytes);
  }
  EXPECT_EQ(applied, 3u);
  EXPECT_EQ(Stats().memory_refusals(), 7u);
  EXPECT_EQ(driver_->replies_given_up, 7);
  EXPECT_EQ(driver_->Pull(0), All(-3));
  EXPECT_EQ(Numbers(unread[0]), All(0));
  EXPECT_EQ(Numbers(unread[9]), All(-3));
}

TEST_F(ShardMemoryTest, APullThatMustBeEncodedNeedsRoomAndOthersDoNot) {
  StartOne(kBytes + kBytes / 2 - 1);
  EXPECT_EQ(ReasonOf(driver_->Call(PeerId{}, PullOf(v1::BF16)).status),
            v1::Refusal::OVER_LIMIT);
  EXPECT_EQ(Stats().memory_refusals(), 1u);
  EXPECT_TRUE(driver_->Call(PeerId{}, PullOf(v1::FP32)).status.ok());
}

TEST_F(ShardMemoryTest, AnEncodedReplyCountsUntilItIsSent) {
  StartOne(2 * kBytes);
  BufferChain unread = driver_->Call(PeerId{}, PullOf(v1::BF16)).payload;
  EXPECT_EQ(Stats().memory_bytes(), kBytes + kBytes / 2);
  unread.clear();
  EXPECT_EQ(Stats().memory_bytes(), kBytes);
}

// ---- snapshots
// -----------------------------------------------------------------

TEST_F(ShardMemoryTest, Promise3_ASnapshotWithoutRoomForCopiesHoldsPushesUp) {
  StartOne(2 * kBytes - 1);
  ASSERT_TRUE(Push(PushOf(1)).ok());
  ASSERT_TRUE(driver_->Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
  EXPECT_EQ(ReasonOf(Push(PushOf(2))), v1::Refusal::OVER_LIMIT);
  EXPECT_EQ(Numbers(driver_->ios.at(0).payload), All(-1));
  IoResult written;
  written.io = driver_->ios.at(0).io;
  written.head = std::make_unique<v1::WriteShardResult>();
  driver_->ios.clear();
  driver_->Complete(std::move(written));
  EXPECT_TRUE(Push(PushOf(2)).ok());
  EXPECT_EQ(driver_->Pull(0), All(-2));
}

TEST_F(ShardMemoryTest, Promise3_ALatePushBeforeTheCutNeedsNoMemoryOfItsOwn) {
  StartOne(2 * kBytes);
  v1::PushRequest behind = PushOf(1);
  *behind.mutable_header()->mutable_snapshot() = Pair(1, 1);
  ASSERT_TRUE(Push(behind, 10).ok());
  EXPECT_EQ(Stats().memory_bytes(), 2 * kBytes);
  // Or the snapshot would wait for memory that only its end can free.
  v1::PushRequest late = PushOf(1);
  late.mutable_header()->set_worker(2);
  *late.mutable_header()->mutable_generation() = Pair(1, 12);
  EXPECT_TRUE(Push(late, 1).ok());
  EXPECT_EQ(Stats().memory_bytes(), 2 * kBytes);
  ASSERT_TRUE(driver_->Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
  EXPECT_EQ(Numbers(driver_->ios.at(0).payload), All(-1));
  EXPECT_EQ(driver_->Pull(0), All(-11));
}

TEST_F(ShardMemoryTest, Promise3_ACutIsReachedThoughZerosForkedTheBlock) {
  StartOne(2 * kBytes);
  v1::PushRequest behind = PushOf(1);
  *behind.mutable_header()->mutable_snapshot() = Pair(1, 1);
  ASSERT_TRUE(Push(behind, 0).ok());
  const BufferChain encoded = driver_->Call(PeerId{}, PullOf(v1::BF16)).payload;
  v1::PushRequest late = PushOf(1);
  late.mutable_header()->set_worker(2);
  *late.mutable_header()->mutable_generation() = Pair(1, 12);
  EXPECT_TRUE(Push(late, 1).ok()) << "or no snapshot would ever be sealed";
  ASSERT_TRUE(driver_->Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
  EXPECT_EQ(Numbers(driver_->ios.at(0).payload), All(-1));
  EXPECT_EQ(driver_->Pull(0), All(-1));
}

TEST_F(ShardMemoryTest, Promise1_APushBehindTheCutWaitsWhereThereIsNoRoom) {
  StartOne(2 * kBytes - 1);
  v1::PushRequest behind = PushOf(1);
  *behind.mutable_header()->mutable_snapshot() = Pair(1, 1);
  EXPECT_EQ(ReasonOf(Push(behind, 10)), v1::Refusal::OVER_LIMIT);
  v1::PushRequest before = PushOf(1);
  before.mutable_header()->set_worker(2);
  *before.mutable_header()->mutable_generation() = Pair(1, 12);
  EXPECT_TRUE(Push(before, 1).ok()) << "in place, so the cut is reached";
  ASSERT_TRUE(driver_->Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
  EXPECT_EQ(Numbers(driver_->ios.at(0).payload), All(-1));
  driver_->ios.clear();
  // A later snapshot that is heard of means that this one has ended.
  *behind.mutable_header()->mutable_snapshot() = Pair(1, 2);
  EXPECT_EQ(ReasonOf(Push(behind, 10)), v1::Refusal::OVER_LIMIT);
  v1::ConfigureRequest configure;
  configure.mutable_header()->set_term(1);
  *configure.mutable_header()->mutable_snapshot() = Pair(1, 2);
  *configure.mutable_committed() = Pair(1, 2);
  *configure.mutable_configuration() =
      MakeConfiguration({Zeros("w", {kElements})});
  ASSERT_TRUE(driver_->Call(kChief, configure).status.ok());
  EXPECT_TRUE(Push(behind, 10).ok());
  EXPECT_EQ(driver_->Pull(0), All(-11));
}

// ---- sync
// ----------------------------------------------------------------------

class ShardMemorySyncTest : public ShardMemoryTest {
 protected:
  static v1::Configuration Sync() {
    v1::Configuration configuration =
        MakeConfiguration({Zeros("w", {kElements})});
    configuration.mutable_consistency()->set_mode(v1::Consistency::SYNC);
    v1::Contributors* const contributors = configuration.mutable_contributors();
    *contributors->mutable_version() = Pair(1, 1);
    contributors->set_first_step(1);
    for (const uint32_t worker : {0, 1, 2}) contributors->add_workers(worker);
    return configuration;
  }
  absl::Status Contribute(uint32_t worker, float gradient) {
    v1::PushRequest push = PushOf(1);
    push.mutable_header()->set_worker(worker);
    *push.mutable_header()->mutable_generation() = Pair(1, 10 + worker);
    push.set_step(1);
    push.set_examples(1);
    *push.mutable_contributors() = Pair(1, 1);
    return Push(push, gradient);
  }
  CallId Decide() {
    v1::DecideRequest decide;
    decide.mutable_header()->set_term(1);
    *decide.mutable_contributors() = Pair(1, 1);
    decide.set_step(1);
    decide.set_examples(3);
    for (const uint32_t worker : {0, 1, 2}) decide.add_workers(worker);
    return driver_->Begin(kChief, decide);
  }
};

TEST_F(ShardMemorySyncTest, Promise6_WhatWaitsLeavesRoomForTheSum) {
  // Weights, the sum, a block, and not quite a gradient that waits.
  Start(Sync(), 4 * kBytes - 1);
  EXPECT_EQ(ReasonOf(Contribute(2, 4)), v1::Refusal::OVER_LIMIT);
  EXPECT_TRUE(Contribute(0, 1).ok());
  EXPECT_EQ(Stats().memory_bytes(), 2 * kBytes) << "kept by reference";
  EXPECT_EQ(ReasonOf(Contribute(2, 4)), v1::Refusal::OVER_LIMIT);
  EXPECT_TRUE(Contribute(1, 2).ok());
  EXPECT_EQ(Stats().memory_bytes(), 2 * kBytes) << "a sum of its own";
  EXPECT_TRUE(Contribute(2, 4).ok());
  EXPECT_EQ(Stats().memory_bytes(), 2 * kBytes);
  const CallId decide = Decide();
  driver_->Settle();
  EXPECT_TRUE(driver_->answered(decide));
  EXPECT_EQ(driver_->Pull(0), All(-7));
}

TEST_F(ShardMemorySyncTest, Promise6_ADecidedStepWaitsForMemoryAndIsNotLost) {
  Start(Sync(), 3 * kBytes);
  EXPECT_TRUE(Contribute(0, 1).ok());
  EXPECT_TRUE(Contribute(1, 2).ok());
  EXPECT_TRUE(Contribute(2, 4).ok());
  BufferChain unread = Unread();
  const BufferChain encoded = driver_->Call(PeerId{}, PullOf(v1::BF16)).payload;
  const CallId decide = Decide();
  EXPECT_FALSE(driver_->answered(decide));
  EXPECT_GE(driver_->replies_given_up, 1);
  EXPECT_EQ(Numbers(unread), All(0));
  driver_->Advance(absl::Milliseconds(20));
  EXPECT_FALSE(driver_->answered(decide));
  unread.clear();
  driver_->Advance(absl::Milliseconds(20));
  EXPECT_TRUE(driver_->answered(decide));
  EXPECT_EQ(driver_->Pull(0), All(-7));
}

// ---- after a peak
// ----------------------------------------------------------------

TEST_F(ShardMemoryTest, Promise8_MemoryOfAPeakIsGivenBackAMinuteLater) {
  StartOne(0);
  std::vector<BufferChain> unread;
  for (uint64_t n = 1; n <= 10; ++n) {
    unread.push_back(Unread());
    ASSERT_TRUE(Push(PushOf(n)).ok());
  }
  unread.clear();
  EXPECT_EQ(Stats().memory_bytes(), 11 * kBytes);
  EXPECT_EQ(Stats().spare_bytes(), 10 * kBytes);
  driver_->Advance(absl::Seconds(59));
  EXPECT_EQ(Stats().spare_bytes(), 10 * kBytes);
  driver_->Advance(absl::Seconds(1));
  EXPECT_EQ(Stats().spare_bytes(), 0u);
  EXPECT_EQ(Stats().memory_bytes(), kBytes);
}

}  // namespace
}  // namespace paramd
