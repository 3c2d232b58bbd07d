// Sync mode on a server with a backup: contributions and decided steps are in
// both places before anybody builds on them, and a step goes on in the other.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/shard.h"
#include "server/core/testing/replication_bench.h"
#include "server/core/testing/shard_driver.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

using testing::AddRows;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MakeAdamConfiguration;
using testing::MakeConfiguration;
using testing::Next;
using testing::Pair;
using testing::Payload;
using testing::ReasonOf;
using testing::ReplicationBench;
using testing::ShardDriver;
using testing::Small;
using testing::Uniform;

v1::Configuration WithSteps(v1::Configuration configuration,
                            const std::vector<uint32_t>& contributing,
                            uint32_t backup_workers = 0) {
  configuration.mutable_consistency()->set_mode(v1::Consistency::SYNC);
  configuration.mutable_consistency()->set_backup_workers(backup_workers);
  v1::Contributors* const contributors = configuration.mutable_contributors();
  *contributors->mutable_version() = Pair(1, 50);
  contributors->set_first_step(1);
  contributors->mutable_workers()->Assign(contributing.begin(),
                                          contributing.end());
  return configuration;
}

// Workers push a block at a time.
class StepBench : public ReplicationBench {
 public:
  using ReplicationBench::ReplicationBench;

  v1::PushRequest ShareOf(uint32_t worker, uint64_t step,
                          const ShardDriver::Place& block, uint32_t elements) {
    v1::PushRequest share = PushOf(step, {block}, elements);
    share.mutable_header()->set_worker(worker);
    *share.mutable_header()->mutable_generation() = Pair(1, 10 + worker);
    share.set_step(step);
    share.set_examples(4);
    *share.mutable_contributors() = now.contributors().version();
    return share;
  }
  // Of Small(): all that it has.
  CallId Contribute(ShardDriver* place, uint32_t worker, uint64_t step,
                    const std::vector<float>& gradient) {
    return place->Begin(PeerId::Worker(worker),
                        ShareOf(worker, step, {0, 0}, 2), Payload(gradient));
  }
  // Step 0 asks what is complete.
  CallId Decide(ShardDriver* place, uint64_t step,
                const std::vector<uint32_t>& workers) {
    v1::DecideRequest decide;
    decide.mutable_header()->set_term(1);
    *decide.mutable_contributors() = now.contributors().version();
    decide.set_step(step);
    if (step > 0) {
      decide.mutable_workers()->Assign(workers.begin(), workers.end());
      decide.set_examples(4 * now.contributors().workers_size());
      if (prune_below > 0) {
        decide.add_thresholds()->set_magnitude(prune_below);
      }
    }
    const CallId call = place->Begin(PeerId::Coordinator(), decide);
    place->Settle();
    return call;
  }
  float prune_below = 0;  // With the next steps.

  static v1::DecideReply Decided(ShardDriver* place, CallId call) {
    EXPECT_TRUE(place->answered(call));
    if (!place->answered(call)) return {};
    const auto answer = place->Take(call);
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    return answer.status.ok()
               ? static_cast<const v1::DecideReply&>(*answer.head)
               : v1::DecideReply();
  }
  static v1::PushedBlock::Result ResultOf(ShardDriver* place, CallId call) {
    EXPECT_TRUE(place->answered(call));
    if (!place->answered(call)) return v1::PushedBlock::RESULT_UNSPECIFIED;
    const auto answer = place->Take(call);
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    return answer.status.ok() ? static_cast<const v1::PushReply&>(*answer.head)
                                    .blocks(0)
                                    .result()
                              : v1::PushedBlock::RESULT_UNSPECIFIED;
  }
  v1::Refusal::Reason RefusedAs(ShardDriver* place, CallId call) {
    EXPECT_TRUE(place->answered(call));
    return place->answered(call) ? ReasonOf(place->Take(call).status)
                                 : v1::Refusal::REASON_UNSPECIFIED;
  }
  // A step that both take part in, while nobody dies.
  void DoStep(uint64_t step) {
    Contribute(&home, 1, step, {1, 2});
    Contribute(&home, 2, step, {10, 20});
    Carry();
    const CallId decide = Decide(&home, step, {1, 2});
    Carry();
    EXPECT_EQ(Decided(&home, decide).step(), step);
  }
};

TEST(PrunedReplicationTest, WhatBecomesZeroDoesSoInTheBackup) {
  v1::Configuration configuration = WithSteps(Small(), {1, 2});
  v1::OptimizerConfig::Pruning* const pruning =
      configuration.mutable_optimizer()->add_pruning();
  pruning->set_variables("w");
  pruning->set_sparsity(0.5);
  pruning->set_end_step(1);
  pruning->set_scope(v1::OptimizerConfig::Pruning::GLOBAL);
  StepBench bench(configuration);
  bench.BeginBackup();
  bench.MakeMember();
  bench.DoStep(1);
  EXPECT_THAT(bench.home.Pull(0), ElementsAre(-11, -22));
  bench.prune_below = 20;
  bench.DoStep(2);
  EXPECT_THAT(bench.home.Pull(0), ElementsAre(0, -44));
  EXPECT_EQ(bench.home.shard().Checksum(), bench.away.shard().Checksum());
  bench.TakeOver();
  EXPECT_THAT(bench.away.Pull(0), ElementsAre(0, -44));
}

// Workers 1 and 2 contribute.
class ShardSyncReplicationTest : public ::testing::Test {
 protected:
  ShardSyncReplicationTest() : bench_(WithSteps(Small(), {1, 2})) {
    bench_.BeginBackup();
    bench_.MakeMember();
  }
  void ExpectSameBits() {
    EXPECT_EQ(bench_.home.shard().Checksum(), bench_.away.shard().Checksum());
  }
  uint64_t StepAway() {
    v1::StatusReply status;
    bench_.away.shard().FillStatus(&status);
    return status.server().step();
  }
  // In the place that has taken over, all of step 1 comes, again or for the
  // first time, and is decided, again or for the first time.
  void EndStepAway() {
    ShardDriver* const away = &bench_.away;
    bench_.Contribute(away, 1, 1, {1, 2});
    bench_.Contribute(away, 2, 1, {10, 20});
    const CallId decide = bench_.Decide(away, 1, {1, 2});
    away->Advance(absl::Seconds(1));  // It may be known by now.
    EXPECT_EQ(StepBench::Decided(away, decide).step(), 1u);
    EXPECT_THAT(away->Pull(0), ElementsAre(-11, -22));
    for (const uint32_t worker : {1, 2}) {
      const CallId again = bench_.Contribute(away, worker, 1, {1, 2});
      EXPECT_EQ(StepBench::ResultOf(away, again),
                v1::PushedBlock::ALREADY_APPLIED);
    }
    // And the next one.
    EXPECT_EQ(StepBench::ResultOf(away, bench_.Contribute(away, 2, 2, {1, 1})),
              v1::PushedBlock::HELD);
    EXPECT_EQ(StepBench::ResultOf(away, bench_.Contribute(away, 1, 2, {1, 1})),
              v1::PushedBlock::HELD);
    const CallId next = bench_.Decide(away, 2, {1, 2});
    EXPECT_EQ(StepBench::Decided(away, next).step(), 2u);
    EXPECT_THAT(away->Pull(0), ElementsAre(-13, -24));
  }

  StepBench bench_;
};

TEST_F(ShardSyncReplicationTest, Promise1_AShareIsHeldWhenTheBackupHasIt) {
  const CallId share = bench_.Contribute(&bench_.home, 1, 1, {1, 2});
  EXPECT_FALSE(bench_.home.answered(share));
  bench_.Carry();
  EXPECT_EQ(StepBench::ResultOf(&bench_.home, share), v1::PushedBlock::HELD);
  ExpectSameBits();
}

TEST_F(ShardSyncReplicationTest, Promise1_WhatIsCompleteTheBackupHas) {
  bench_.Contribute(&bench_.home, 1, 1, {1, 2});
  const CallId asked = bench_.Decide(&bench_.home, 0, {});
  EXPECT_FALSE(bench_.home.answered(asked));
  bench_.Carry();
  EXPECT_THAT(StepBench::Decided(&bench_.home, asked).complete(),
              ElementsAre(1));
}

TEST_F(ShardSyncReplicationTest, Promise1_AStepIsAppliedWhenTheBackupHasIt) {
  bench_.Contribute(&bench_.home, 1, 1, {1, 2});
  bench_.Contribute(&bench_.home, 2, 1, {10, 20});
  bench_.Carry();
  const CallId decide = bench_.Decide(&bench_.home, 1, {1, 2});
  EXPECT_FALSE(bench_.home.answered(decide));
  bench_.Carry();
  EXPECT_EQ(StepBench::Decided(&bench_.home, decide).step(), 1u);
  EXPECT_EQ(StepAway(), 1u);
  ExpectSameBits();
}

// The moments of a step in which a server can die.
TEST_F(ShardSyncReplicationTest, Promise1_KilledBeforeAShareIsIn) {
  bench_.TakeOver();
  EndStepAway();
}

TEST_F(ShardSyncReplicationTest, Promise1_KilledWhenTheBackupHasNoShareYet) {
  const CallId share = bench_.Contribute(&bench_.home, 1, 1, {1, 2});
  bench_.home.sends.clear();
  EXPECT_FALSE(bench_.home.answered(share));
  bench_.TakeOver();
  EndStepAway();
}

TEST_F(ShardSyncReplicationTest, Promise1_KilledBetweenTwoShares) {
  const CallId share = bench_.Contribute(&bench_.home, 1, 1, {1, 2});
  bench_.Carry();
  EXPECT_TRUE(bench_.home.answered(share));
  bench_.TakeOver();
  const CallId asked = bench_.Decide(&bench_.away, 0, {});
  EXPECT_THAT(StepBench::Decided(&bench_.away, asked).complete(),
              ElementsAre(1));
  // Which is not sent again, unless the answer was lost.
  const CallId other = bench_.Contribute(&bench_.away, 2, 1, {10, 20});
  EXPECT_EQ(StepBench::ResultOf(&bench_.away, other), v1::PushedBlock::HELD);
  EndStepAway();
}

TEST_F(ShardSyncReplicationTest, Promise1_KilledBetweenSharesAndDecision) {
  bench_.Contribute(&bench_.home, 1, 1, {1, 2});
  bench_.Contribute(&bench_.home, 2, 1, {10, 20});
  bench_.Carry();
  bench_.TakeOver();
  // Nobody sends anything again.
  const CallId decide = bench_.Decide(&bench_.away, 1, {1, 2});
  EXPECT_EQ(StepBench::Decided(&bench_.away, decide).step(), 1u);
  EXPECT_THAT(bench_.away.Pull(0), ElementsAre(-11, -22));
  EndStepAway();
}

TEST_F(ShardSyncReplicationTest, Promise1_KilledWhenTheBackupHasNoDecision) {
  bench_.Contribute(&bench_.home, 1, 1, {1, 2});
  bench_.Contribute(&bench_.home, 2, 1, {10, 20});
  bench_.Carry();
  const CallId decide = bench_.Decide(&bench_.home, 1, {1, 2});
  bench_.home.sends.clear();
  EXPECT_FALSE(bench_.home.answered(decide));
  bench_.TakeOver();
  EXPECT_EQ(StepAway(), 0u);
  EndStepAway();
}

TEST_F(ShardSyncReplicationTest, Promise1_KilledBetweenDecisionAndAnswer) {
  bench_.Contribute(&bench_.home, 1, 1, {1, 2});
  bench_.Contribute(&bench_.home, 2, 1, {10, 20});
  bench_.Carry();
  const CallId decide = bench_.Decide(&bench_.home, 1, {1, 2});
  bench_.Arrive();
  EXPECT_FALSE(bench_.home.answered(decide));
  bench_.TakeOver();
  // At once, nobody knows it yet.
  const CallId again = bench_.Decide(&bench_.away, 1, {1, 2});
  EXPECT_EQ(StepBench::Decided(&bench_.away, again).step(), 1u);
  EndStepAway();
}

TEST_F(ShardSyncReplicationTest, AReaderWaitsForTheStepInTheNewPlace) {
  bench_.Contribute(&bench_.home, 1, 1, {1, 2});
  bench_.Contribute(&bench_.home, 2, 1, {10, 20});
  bench_.Carry();
  bench_.TakeOver();
  v1::PullRequest pull;
  pull.mutable_header()->set_worker(1);
  *pull.mutable_header()->mutable_generation() = Pair(1, 11);
  pull.set_encoding(v1::FP32);
  pull.set_after_step(1);
  pull.add_blocks();
  const CallId read = bench_.away.Begin(PeerId::Worker(1), pull);
  EXPECT_FALSE(bench_.away.answered(read));
  bench_.Decide(&bench_.away, 1, {1, 2});
  ASSERT_TRUE(bench_.away.answered(read));
  const auto answer = bench_.away.Take(read);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(static_cast<const v1::PullReply&>(*answer.head).step(), 1u);
}

// It is acknowledged, and of no step that is applied.
TEST_F(ShardSyncReplicationTest, AShareOfTheOpenStepIsNotReportedAsLost) {
  bench_.DoStep(1);
  bench_.Contribute(&bench_.home, 1, 2, {1, 2});
  bench_.Contribute(&bench_.home, 2, 2, {10, 20});
  bench_.Carry();
  bench_.TakeOver();
  bench_.Decide(&bench_.away, 2, {1, 2});
  v1::PushRequest next = bench_.ShareOf(1, 3, {0, 0}, 2);
  next.set_acknowledged(2);
  ASSERT_TRUE(bench_.away.Push(next, {1, 2}).ok());
  v1::StatusReply status;
  bench_.away.shard().FillStatus(&status);
  EXPECT_EQ(status.server().pushes_lost(), 0u);
  const auto told = bench_.away.Configure(bench_.now);
  ASSERT_TRUE(told.ok());
  EXPECT_EQ(told->lost_size(), 0);
}

TEST_F(ShardSyncReplicationTest, OtherContributorsAreTheBackupsToo) {
  const CallId share = bench_.Contribute(&bench_.home, 2, 1, {10, 20});
  bench_.Carry();
  EXPECT_TRUE(bench_.home.answered(share));
  bench_.now = Next(bench_.now);
  v1::Contributors* const others = bench_.now.mutable_contributors();
  *others->mutable_version() = Pair(1, 60);
  others->clear_workers();
  others->add_workers(1);
  // The backup hears of it by itself, and goes by what the server says.
  bench_.TellAway();
  const CallId last = bench_.Contribute(&bench_.home, 1, 1, {5, 5});
  EXPECT_EQ(bench_.RefusedAs(&bench_.home, last), v1::Refusal::NOT_READY);
  bench_.TellHome();
  bench_.Contribute(&bench_.home, 1, 1, {1, 2});
  bench_.Carry();
  const CallId decide = bench_.Decide(&bench_.home, 1, {1});
  bench_.Carry();
  EXPECT_EQ(StepBench::Decided(&bench_.home, decide).step(), 1u);
  EXPECT_THAT(bench_.home.Pull(0), ElementsAre(-1, -2));
  ExpectSameBits();
  bench_.TellHome();
  EXPECT_EQ(bench_.report.lost(), "");
}

// Of which the server was told, and the backup not by it any more.
TEST_F(ShardSyncReplicationTest, OtherContributorsMayComeWithTheTakeOver) {
  bench_.DoStep(1);
  bench_.Contribute(&bench_.home, 2, 2, {10, 20});
  bench_.Carry();
  bench_.now = Next(bench_.now);
  v1::Contributors* const others = bench_.now.mutable_contributors();
  *others->mutable_version() = Pair(1, 60);
  others->set_first_step(2);
  others->clear_workers();
  others->add_workers(1);
  bench_.TellHome();
  bench_.home.sends.clear();
  bench_.TakeOver();
  bench_.Contribute(&bench_.away, 1, 2, {1, 2});
  const CallId decide = bench_.Decide(&bench_.away, 2, {1});
  EXPECT_EQ(StepBench::Decided(&bench_.away, decide).step(), 2u);
  EXPECT_THAT(bench_.away.Pull(0), ElementsAre(-12, -24));
}

TEST_F(ShardSyncReplicationTest, TheModeMayChangeAndComeBack) {
  bench_.DoStep(1);
  bench_.Contribute(&bench_.home, 1, 2, {7, 7});
  bench_.now = Next(bench_.now);
  bench_.now.mutable_consistency()->set_mode(v1::Consistency::ASYNC);
  bench_.now.clear_contributors();
  for (uint32_t w = 0; w < 3; ++w) {
    *bench_.now.mutable_workers(w)->mutable_generation() = Pair(1, 60 + w);
  }
  bench_.TellHome();
  bench_.TellAway();
  v1::PushRequest push = bench_.SmallPush(1);
  *push.mutable_header()->mutable_generation() = Pair(1, 61);
  const CallId pushed =
      bench_.home.Begin(PeerId::Worker(1), push, Payload({1, 2}));
  bench_.Carry();
  EXPECT_EQ(StepBench::ResultOf(&bench_.home, pushed),
            v1::PushedBlock::APPLIED);
  ExpectSameBits();
  v1::StatusReply status;
  bench_.away.shard().FillStatus(&status);
  EXPECT_EQ(status.server().parked_bytes(), 0u);
  bench_.now = WithSteps(Next(bench_.now), {1, 2});
  *bench_.now.mutable_contributors()->mutable_version() = Pair(1, 70);
  bench_.now.mutable_contributors()->set_first_step(3);
  bench_.TellHome();
  for (const uint32_t worker : {2, 1}) {
    v1::PushRequest share = bench_.ShareOf(worker, 3, {0, 0}, 2);
    share.mutable_header()->set_sequence(2);
    *share.mutable_header()->mutable_generation() = Pair(1, 60 + worker);
    bench_.home.Begin(PeerId::Worker(worker), share, Payload({1, 1}));
  }
  bench_.Carry();
  bench_.TakeOver();
  const CallId decide = bench_.Decide(&bench_.away, 3, {1, 2});
  EXPECT_EQ(StepBench::Decided(&bench_.away, decide).step(), 3u);
  EXPECT_THAT(bench_.away.Pull(0), ElementsAre(-14, -26));
}

// Without having told the backup, which has what nobody needs any more.
TEST(ShardSyncModeTest, TheModeMayChangeWithTheTakeOver) {
  for (const bool sync : {false, true}) {
    StepBench bench(WithSteps(Small(), {1, 2}));
    bench.BeginBackup();
    bench.MakeMember();
    bench.DoStep(1);
    bench.Contribute(&bench.home, 1, 2, {7, 7});
    bench.Carry();
    if (!sync)
      bench.now.mutable_consistency()->set_mode(v1::Consistency::ASYNC);
    bench.now.clear_contributors();
    bench.TakeOver();
    EXPECT_THAT(bench.away.Pull(0), ElementsAre(-11, -22));
    v1::StatusReply status;
    bench.away.shard().FillStatus(&status);
    EXPECT_EQ(status.server().parked_bytes(), 0u);
    if (sync) continue;
    const auto pushed = bench.away.Push(bench.SmallPush(2), {1, 2});
    ASSERT_TRUE(pushed.ok()) << pushed.status();
    EXPECT_EQ(pushed->blocks(0).result(), v1::PushedBlock::APPLIED);
  }
}

TEST_F(ShardSyncReplicationTest, WithoutItsBackupItTellsWhatIsComplete) {
  const CallId share = bench_.Contribute(&bench_.home, 1, 1, {1, 2});
  const CallId asked = bench_.Decide(&bench_.home, 0, {});
  bench_.DropBackup();
  EXPECT_EQ(StepBench::ResultOf(&bench_.home, share), v1::PushedBlock::HELD);
  EXPECT_THAT(StepBench::Decided(&bench_.home, asked).complete(),
              ElementsAre(1));
  v1::StatusReply status;
  bench_.home.shard().FillStatus(&status);
  EXPECT_EQ(status.server().acknowledged_alone(), 1u);
}

TEST_F(ShardSyncReplicationTest, AShareThatComesAgainIsNotToldAgain) {
  bench_.Contribute(&bench_.home, 1, 1, {1, 2});
  bench_.Carry();
  const CallId again = bench_.Contribute(&bench_.home, 1, 1, {1, 2});
  EXPECT_TRUE(bench_.home.sends.empty());
  EXPECT_EQ(StepBench::ResultOf(&bench_.home, again), v1::PushedBlock::HELD);
}

TEST_F(ShardSyncReplicationTest, WhatIsComparedIsOfWholeSteps) {
  for (uint64_t step = 1; step <= 20; ++step) {
    bench_.Contribute(&bench_.home, 2, step, {10, 20});
    bench_.Contribute(&bench_.home, 1, step, {1, 2});
    bench_.home.Advance(absl::Milliseconds(700));
    bench_.Carry();
    bench_.Decide(&bench_.home, step, {1, 2});
    bench_.home.Advance(absl::Milliseconds(700));
    bench_.Carry();
    ExpectSameBits();
  }
  bench_.TellHome();
  EXPECT_EQ(bench_.report.lost(), "");
}

// ---- other steps ------------------------------------------------------------

// Rounding tells in which order gradients were summed.
TEST(ShardSyncBitsTest, Promise6_TheBackupSumsInTheSameOrder) {
  for (const uint32_t backup_workers : {0, 1}) {
    StepBench bench(WithSteps(MakeAdamConfiguration({Uniform("w", {2})}),
                              {0, 1, 2}, backup_workers));
    bench.BeginBackup();
    bench.MakeMember();
    for (uint64_t step = 1; step <= 6; ++step) {
      std::vector<uint32_t> decided = {0, 1, 2};
      if (backup_workers > 0) decided.erase(decided.begin() + step % 3);
      for (const uint32_t w : {2, 0, 1}) {
        const float by = static_cast<float>(step) / 3;
        bench.Contribute(&bench.home, w, step,
                         {1e-3f * static_cast<float>(w) + by, 0.7f * by});
      }
      bench.Carry();
      const CallId decide = bench.Decide(&bench.home, step, decided);
      bench.Carry();
      EXPECT_EQ(StepBench::Decided(&bench.home, decide).step(), step);
      EXPECT_EQ(bench.home.shard().Checksum(), bench.away.shard().Checksum());
      if (backup_workers == 0) continue;
      const CallId late = bench.Contribute(&bench.home, step % 3, step, {1, 2});
      EXPECT_EQ(bench.RefusedAs(&bench.home, late), v1::Refusal::LATE);
    }
    bench.TakeOver();
    const CallId late = bench.Contribute(&bench.away, 0, 6, {1, 2});
    if (backup_workers > 0) {
      EXPECT_EQ(bench.RefusedAs(&bench.away, late), v1::Refusal::LATE);
    } else {
      EXPECT_EQ(StepBench::ResultOf(&bench.away, late),
                v1::PushedBlock::ALREADY_APPLIED);
    }
  }
}

TEST(ShardSyncBitsTest, Promise6_TheBackupSumsRowsByKeyInTheSameOrder) {
  v1::Variable table = Uniform("table", {3, 2});
  table.set_sparse(true);
  table.set_keyed(true);
  table.set_when_full(v1::Variable::EVICT);
  table.set_admit_after(2);
  StepBench bench(WithSteps(MakeAdamConfiguration({table}), {0, 1, 2}));
  const auto contribute = [&](ShardDriver* place, uint32_t w, uint64_t step) {
    std::vector<uint64_t> keys = {MixKey(step / 4), MixKey(7 + (step + w) % 3)};
    std::sort(keys.begin(), keys.end());
    v1::PushRequest share = bench.ShareOf(w, step, {0, 0}, 0);
    share.clear_blocks();
    AddRows({0, 0}, 2, share.mutable_rows());
    BufferChain payload = {Buffer::Copy(AsBytes(absl::MakeConstSpan(keys)))};
    const float by = static_cast<float>(step) / 3;
    for (const Buffer& numbers : Payload({by, 0.7f * by, 1e-3f, by + 1})) {
      payload.push_back(numbers);
    }
    return place->Begin(PeerId::Worker(w), share, payload);
  };
  bench.BeginBackup();
  bench.MakeMember();
  for (uint64_t step = 1; step <= 20; ++step) {
    if (step == 15) bench.TakeOver();
    ShardDriver* const place = step < 15 ? &bench.home : &bench.away;
    for (const uint32_t w : {2, 0, 1}) contribute(place, w, step);
    bench.Carry();
    const CallId decide = bench.Decide(place, step, {0, 1, 2});
    bench.Carry();
    EXPECT_EQ(StepBench::Decided(place, decide).step(), step);
    if (step >= 15) continue;
    EXPECT_EQ(bench.home.shard().Checksum(), bench.away.shard().Checksum());
  }
  v1::StatusReply status;
  bench.away.shard().FillStatus(&status);
  EXPECT_GT(status.server().tables(0).evicted(), 0u);
}

// ---- a learner --------------------------------------------------------------

TEST(ShardSyncLearnerTest, OneThatComesInTheMiddleOfAStepIsFilledBehindIt) {
  StepBench bench(WithSteps(Small(), {1, 2}));
  bench.Contribute(&bench.home, 1, 1, {1, 2});
  bench.BeginBackup();
  bench.Carry();
  bench.TellHome();
  EXPECT_FALSE(bench.report.whole());
  const CallId share = bench.Contribute(&bench.home, 2, 1, {10, 20});
  bench.Carry();
  EXPECT_EQ(StepBench::ResultOf(&bench.home, share), v1::PushedBlock::HELD);
  bench.TellHome();
  EXPECT_FALSE(bench.report.whole());
  bench.Decide(&bench.home, 1, {1, 2});
  bench.MakeMember();
  EXPECT_EQ(bench.home.shard().Checksum(), bench.away.shard().Checksum());
  bench.DoStep(2);
  bench.Contribute(&bench.home, 1, 3, {1, 1});
  bench.Carry();
  bench.TellHome();
  EXPECT_EQ(bench.report.lost(), "");
  bench.TakeOver();
  bench.Contribute(&bench.away, 2, 3, {1, 1});
  const CallId decide = bench.Decide(&bench.away, 3, {1, 2});
  EXPECT_EQ(StepBench::Decided(&bench.away, decide).step(), 3u);
  EXPECT_THAT(bench.away.Pull(0), ElementsAre(-24, -46));
}

TEST(ShardSyncLearnerTest, NoStepBeginsBeforeAllSlicesAreCut) {
  StepBench bench(
      WithSteps(MakeConfiguration({Uniform("w", {4096, 1024})}), {1, 2}));
  const auto contribute = [&](uint64_t step) {
    return bench.home.Begin(
        PeerId::Worker(1), bench.ShareOf(1, step, {3, 0}, kMaxBlockElements),
        Payload(std::vector<float>(kMaxBlockElements, 0.5f)));
  };
  bench.BeginBackup();
  const CallId early = contribute(1);
  ASSERT_TRUE(bench.home.answered(early));
  const auto refused = bench.home.Take(early);
  EXPECT_EQ(ReasonOf(refused.status), v1::Refusal::RETRY);
  EXPECT_THAT(std::string(refused.status.message()),
              HasSubstr("the backup of ps-0 is being filled: step 1"));
  bench.MakeMember();
  const CallId share = contribute(1);
  bench.Carry();
  EXPECT_EQ(StepBench::ResultOf(&bench.home, share), v1::PushedBlock::HELD);
  EXPECT_EQ(bench.home.shard().Checksum(), bench.away.shard().Checksum());
}

}  // namespace
}  // namespace paramd
