// A server with a backup: what is acknowledged both have, and the backup goes
// on as the server with the same bits.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/shard.h"
#include "server/core/testing/replication_bench.h"
#include "server/core/testing/shard_driver.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kAway;
using testing::kAwayProcess;
using testing::kChief;
using testing::kHome;
using testing::kHomeProcess;
using testing::MakeSeal;
using testing::Next;
using testing::Pair;
using testing::Payload;
using testing::ReasonOf;
using testing::ReplicationBench;
using testing::ShardDriver;
using testing::Small;

constexpr PeerId kWorkerOne = PeerId::Worker(1);

class ShardReplicationTest : public ::testing::Test {
 protected:
  ShardReplicationTest() : bench_(Small()) {
    bench_.BeginBackup();
    bench_.MakeMember();
  }

  ReplicationBench bench_;
};

TEST_F(ShardReplicationTest, Promise1_AnAnswerWaitsUntilTheBackupHasThePush) {
  const CallId push = bench_.BeginPush(1);
  EXPECT_FALSE(bench_.home.answered(push));
  const auto under_way = bench_.Arrive();
  EXPECT_FALSE(bench_.home.answered(push));
  bench_.Return(under_way);
  ASSERT_TRUE(bench_.home.answered(push));
  EXPECT_TRUE(bench_.home.Take(push).status.ok());
  EXPECT_EQ(bench_.home.shard().Checksum(), bench_.away.shard().Checksum());
}

TEST_F(ShardReplicationTest, Promise1_WhatIsInAlreadyWaitsForTheBackupToo) {
  const CallId first = bench_.BeginPush(1);
  const CallId again = bench_.BeginPush(1);
  EXPECT_FALSE(bench_.home.answered(again));
  bench_.Carry();
  ASSERT_TRUE(bench_.home.answered(first));
  ASSERT_TRUE(bench_.home.answered(again));
  const auto answer = bench_.home.Take(again);
  EXPECT_EQ(static_cast<const v1::PushReply&>(*answer.head).blocks(0).result(),
            v1::PushedBlock::ALREADY_APPLIED);
}

// The four moments in which a server can die with a push.
TEST_F(ShardReplicationTest, Promise1_KilledBeforeItApplies) {
  bench_.TakeOver();
  EXPECT_EQ(bench_.ResultAway(1), v1::PushedBlock::APPLIED);
  EXPECT_EQ(bench_.ResultAway(1), v1::PushedBlock::ALREADY_APPLIED);
  EXPECT_THAT(bench_.away.Pull(0), ElementsAre(-1, -2));
}

TEST_F(ShardReplicationTest, Promise1_KilledBetweenApplyingAndSending) {
  const CallId push = bench_.BeginPush(1);
  bench_.home.sends.clear();
  EXPECT_FALSE(bench_.home.answered(push));
  bench_.TakeOver();
  EXPECT_EQ(bench_.ResultAway(1), v1::PushedBlock::APPLIED);
  EXPECT_THAT(bench_.away.Pull(0), ElementsAre(-1, -2));
}

TEST_F(ShardReplicationTest, Promise1_KilledBetweenSendingAndTheAnswer) {
  const CallId push = bench_.BeginPush(1);
  bench_.Arrive();
  EXPECT_FALSE(bench_.home.answered(push));
  bench_.TakeOver();
  EXPECT_EQ(bench_.ResultAway(1), v1::PushedBlock::ALREADY_APPLIED);
  EXPECT_THAT(bench_.away.Pull(0), ElementsAre(-1, -2));
}

TEST_F(ShardReplicationTest, Promise1_KilledBetweenTheAnswerAndTheReply) {
  const CallId push = bench_.BeginPush(1);
  bench_.Carry();
  EXPECT_TRUE(bench_.home.answered(push));  // And lost on its way.
  bench_.TakeOver();
  EXPECT_EQ(bench_.ResultAway(1), v1::PushedBlock::ALREADY_APPLIED);
  EXPECT_EQ(bench_.ResultAway(2), v1::PushedBlock::APPLIED);
  EXPECT_THAT(bench_.away.Pull(0), ElementsAre(-2, -4));
}

// ---- a process leaves

// What the coordinator asks `place` with.
v1::WatchRequest WatchOf(const ReplicationBench& bench, uint64_t process) {
  v1::WatchRequest watch;
  watch.mutable_header()->set_term(bench.now.version().term());
  watch.mutable_header()->set_server_incarnation(process);
  watch.set_wait_ms(100);
  return watch;
}

v1::WatchReply SaidIn(const ShardDriver::Answer& answer) {
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  return static_cast<const v1::WatchReply&>(*answer.head);
}

absl::Status ReadFrom(ShardDriver* place) {
  v1::PullRequest pull;
  pull.set_encoding(v1::FP32);
  pull.add_blocks();
  return place->Ask<v1::PullReply>(PeerId{}, pull).status();
}

TEST_F(ShardReplicationTest, Promise1_AServerStopsBeforeItIsHandedOver) {
  v1::WatchRequest watch = WatchOf(bench_, kHomeProcess);
  const CallId first = bench_.home.Begin(PeerId::Coordinator(), watch);
  EXPECT_FALSE(bench_.home.answered(first));
  bench_.home.Drain();
  ASSERT_TRUE(bench_.home.answered(first)) << "it says so at once";
  EXPECT_TRUE(SaidIn(bench_.home.Take(first)).leaving());
  // It is the server until it is told to stop.
  const CallId push = bench_.BeginPush(1);
  watch.set_leaving(true);
  *watch.mutable_hand_over() = bench_.now.servers(0).backup().since();
  const CallId second = bench_.home.Begin(PeerId::Coordinator(), watch);
  EXPECT_FALSE(bench_.home.answered(second)) << "the backup lacks a push";
  const auto refused = bench_.home.Take(bench_.BeginPush(2));
  EXPECT_EQ(ReasonOf(refused.status), v1::Refusal::NOT_READY);
  EXPECT_THAT(std::string(refused.status.message()),
              HasSubstr("is being handed over to its backup"));
  EXPECT_EQ(ReasonOf(ReadFrom(&bench_.home)), v1::Refusal::NOT_READY);
  bench_.Carry();
  EXPECT_TRUE(bench_.home.Take(push).status.ok()) << "both have it";
  ASSERT_TRUE(bench_.home.answered(second));
  EXPECT_TRUE(SaidIn(bench_.home.Take(second)).stopped() ==
              bench_.now.servers(0).backup().since());
  bench_.TakeOver();
  EXPECT_EQ(bench_.ResultAway(1), v1::PushedBlock::ALREADY_APPLIED);
  EXPECT_EQ(bench_.ResultAway(2), v1::PushedBlock::APPLIED);
  EXPECT_THAT(bench_.away.Pull(0), ElementsAre(-2, -4));
  EXPECT_FALSE(bench_.home.exited);
  watch.set_may_leave(true);
  bench_.home.Begin(PeerId::Coordinator(), watch);
  EXPECT_TRUE(bench_.home.exited);
  EXPECT_TRUE(bench_.home.exit_status.ok());
}

TEST_F(ShardReplicationTest, OneThatHasStoppedGoesOnWithoutThatBackup) {
  v1::WatchRequest watch = WatchOf(bench_, kHomeProcess);
  *watch.mutable_hand_over() = bench_.now.servers(0).backup().since();
  bench_.home.Begin(PeerId::Coordinator(), watch);
  EXPECT_FALSE(ReadFrom(&bench_.home).ok());
  bench_.DropBackup();
  EXPECT_TRUE(ReadFrom(&bench_.home).ok());
  // What was said of that one says nothing of the next.
  bench_.BeginBackup();
  bench_.MakeMember();
  bench_.home.Begin(PeerId::Coordinator(), watch);
  EXPECT_TRUE(ReadFrom(&bench_.home).ok());
}

TEST_F(ShardReplicationTest, NobodyIsLetGoWhoDoesNotLeave) {
  v1::WatchRequest watch = WatchOf(bench_, kAwayProcess);
  watch.set_may_leave(true);
  bench_.away.Begin(PeerId::Coordinator(), watch);
  EXPECT_FALSE(bench_.away.exited);
  // An operator may have it leave.
  watch.set_leave(true);
  bench_.away.Begin(PeerId::Coordinator(), watch);
  EXPECT_TRUE(bench_.away.exited);
}

TEST_F(ShardReplicationTest, ABackupThatLeavesTakesWhatItIsToldUntilItIsLetGo) {
  v1::WatchRequest watch = WatchOf(bench_, kAwayProcess);
  bench_.away.Begin(PeerId::Coordinator(), watch);
  bench_.away.Drain();
  EXPECT_FALSE(bench_.away.exited);
  const CallId push = bench_.BeginPush(1);
  bench_.Carry();
  EXPECT_TRUE(bench_.home.answered(push));
  watch.set_leaving(true);
  watch.set_may_leave(true);
  bench_.away.Begin(PeerId::Coordinator(), watch);
  EXPECT_TRUE(bench_.away.exited);
}

TEST_F(ShardReplicationTest, ABackupHearsThatItsServerLeavesToo) {
  v1::WatchRequest watch = WatchOf(bench_, kAwayProcess);
  bench_.away.Begin(PeerId::Coordinator(), watch);
  bench_.away.Drain();
  bench_.home.Drain();
  ASSERT_FALSE(bench_.home.sends.empty()) << "it says so at once";
  bench_.Carry();
  // Nobody lets them go: the chief has gone.
  bench_.away.Advance(absl::Seconds(2));
  EXPECT_TRUE(bench_.away.exited);
  EXPECT_FALSE(bench_.home.exited);
}

TEST_F(ShardReplicationTest, Promise1_ABackupWhoseServerIsSilentWaits) {
  v1::WatchRequest watch = WatchOf(bench_, kAwayProcess);
  bench_.away.Begin(PeerId::Coordinator(), watch);
  bench_.away.Drain();
  bench_.away.Advance(absl::Seconds(2));
  EXPECT_FALSE(bench_.away.exited);
  bench_.away.Advance(absl::Seconds(9));
  EXPECT_TRUE(bench_.away.exited);
}

TEST_F(ShardReplicationTest, NoBlockHasTheVersionThatItHadInTheLastPlace) {
  const CallId push = bench_.BeginPush(1);
  bench_.Carry();
  const auto answer = bench_.home.Take(push);
  const v1::BlockVersion there =
      static_cast<const v1::PushReply&>(*answer.head).blocks(0).version();
  bench_.TakeOver();
  v1::PullRequest pull;
  pull.set_encoding(v1::FP32);
  pull.add_blocks();
  *pull.mutable_blocks(0)->mutable_known() = there;
  const auto pulled = bench_.away.Ask<v1::PullReply>(PeerId{}, pull);
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  EXPECT_EQ(pulled->blocks(0).elements(), 2);
  EXPECT_EQ(pulled->blocks(0).version().counter(), there.counter());
  EXPECT_NE(pulled->blocks(0).version().life(), there.life());
}

TEST_F(ShardReplicationTest, NothingIsLostThatTheReportWouldName) {
  const CallId push = bench_.BeginPush(1);
  bench_.Carry();
  ASSERT_TRUE(bench_.home.answered(push));
  bench_.TakeOver();
  v1::PushRequest next = bench_.SmallPush(2);
  next.set_acknowledged(1);
  ASSERT_TRUE(bench_.away.Push(next, {1, 2}).ok());
  v1::StatusReply status;
  bench_.away.shard().FillStatus(&status);
  EXPECT_EQ(status.server().pushes_lost(), 0);
}

TEST_F(ShardReplicationTest, ABackupAnswersNoWorker) {
  EXPECT_EQ(ReasonOf(bench_.away.Push(bench_.SmallPush(1), {1, 2}).status()),
            v1::Refusal::NOT_READY);
  v1::PullRequest pull;
  pull.set_encoding(v1::FP32);
  pull.add_blocks();
  EXPECT_EQ(ReasonOf(bench_.away.Call(PeerId{}, pull).status),
            v1::Refusal::NOT_READY);
}

// ---- the last place ---------------------------------------------------------

TEST_F(ShardReplicationTest, Promise1_ADeposedServerAcknowledgesNothing) {
  const v1::PushRequest first = bench_.SmallPush(1);
  const v1::PushRequest second = bench_.SmallPush(2);
  bench_.TakeOver();
  const CallId push = bench_.home.Begin(kWorkerOne, first, Payload({1, 2}));
  bench_.Carry();
  EXPECT_FALSE(bench_.home.answered(push));
  // And from then on says so.
  EXPECT_EQ(ReasonOf(bench_.home.Push(second, {1, 2}).status()),
            v1::Refusal::NOT_READY);
  v1::PullRequest pull;
  pull.set_encoding(v1::FP32);
  pull.add_blocks();
  EXPECT_EQ(ReasonOf(bench_.home.Call(PeerId{}, pull).status),
            v1::Refusal::NOT_READY);
  EXPECT_THAT(bench_.away.Pull(0), ElementsAre(0, 0));
}

// As behind a SIGSTOP: what had come before is answered by what the backup said
// last, not by when it came.
TEST_F(ShardReplicationTest, Promise2_AServerThatStoodStillAnswersNoPull) {
  bench_.TakeOver(/*has_ended=*/false);
  bench_.home.StandStill(BackupStream::kLease + absl::Milliseconds(1));
  v1::PullRequest pull;
  pull.set_encoding(v1::FP32);
  pull.add_blocks();
  const auto refused = bench_.home.Call(PeerId{}, pull);
  EXPECT_EQ(ReasonOf(refused.status), v1::Refusal::NOT_READY);
  EXPECT_THAT(std::string(refused.status.message()),
              HasSubstr("has not taken over"));
}

TEST_F(ShardReplicationTest, AServerWhoseBackupAnswersGoesOnAnsweringPulls) {
  for (int i = 0; i < 20; ++i) {
    bench_.home.Advance(absl::Milliseconds(300));
    bench_.away.Advance(absl::Milliseconds(300));
    bench_.Carry();
    EXPECT_THAT(bench_.home.Pull(0), ElementsAre(0, 0));
  }
  bench_.TellHome();
  EXPECT_EQ(bench_.report.lost(), "");
}

// It may believe for so long that nobody has taken over.
TEST_F(ShardReplicationTest,
       Promise2_ASilentServersPlaceIsTakenWhenItHasStopped) {
  bench_.TakeOver(/*has_ended=*/false);
  EXPECT_EQ(ReasonOf(bench_.away.Push(bench_.SmallPush(1), {1, 2}).status()),
            v1::Refusal::NOT_READY);
  bench_.away.Advance(BackupStream::kLease);
  EXPECT_EQ(ReasonOf(bench_.away.Push(bench_.SmallPush(1), {1, 2}).status()),
            v1::Refusal::NOT_READY);
  bench_.away.Advance(BackupStream::kLease / 2);
  EXPECT_EQ(bench_.ResultAway(1), v1::PushedBlock::APPLIED);
}

TEST_F(ShardReplicationTest, TheLastPlaceBecomesTheBackup) {
  const CallId push = bench_.BeginPush(1);
  bench_.TakeOver();
  EXPECT_EQ(bench_.ResultAway(1), v1::PushedBlock::APPLIED);
  bench_.now = Next(bench_.now);
  v1::Backup* const backup = bench_.now.mutable_servers(0)->mutable_backup();
  backup->set_peer(kHome);
  backup->set_incarnation(kHomeProcess);
  *backup->mutable_since() = bench_.now.version();
  bench_.TellHome();
  // Without a reason: it may be in all the same.
  ASSERT_TRUE(bench_.home.answered(push));
  EXPECT_EQ(ReasonOf(bench_.home.Take(push).status),
            v1::Refusal::REASON_UNSPECIFIED);
  bench_.TellAway();
  while (!bench_.away.sends.empty()) {
    for (Outbox::SendItem& send :
         std::exchange(bench_.away.sends, std::vector<Outbox::SendItem>())) {
      EXPECT_EQ(send.to, PeerId::Ps(kHome));
      bench_.away.Reply(
          send.to, send.call,
          bench_.home.Call(PeerId::Ps(kAway), *send.head, send.payload));
    }
  }
  EXPECT_EQ(bench_.home.shard().Checksum(), bench_.away.shard().Checksum());
  const auto told = bench_.away.Configure(bench_.now);
  ASSERT_TRUE(told.ok());
  EXPECT_TRUE(told->backup().whole());
}

// ---- without a backup -------------------------------------------------------

TEST_F(ShardReplicationTest, WithoutItsBackupItAnswersWhenThatIsDurable) {
  const CallId push = bench_.BeginPush(1);
  bench_.home.Advance(absl::Seconds(3));
  EXPECT_FALSE(bench_.home.answered(push));
  bench_.TellHome();
  EXPECT_THAT(bench_.report.lost(), HasSubstr("has taken nothing for"));
  EXPECT_FALSE(bench_.home.answered(push));
  bench_.DropBackup();
  ASSERT_TRUE(bench_.home.answered(push));
  EXPECT_TRUE(bench_.home.Take(push).status.ok());
  const CallId next = bench_.BeginPush(2);
  EXPECT_TRUE(bench_.home.answered(next));
  v1::StatusReply status;
  bench_.home.shard().FillStatus(&status);
  EXPECT_EQ(status.server().acknowledged_alone(), 2);
  EXPECT_EQ(status.server().replica(), v1::REPLICA_ALONE);
  // And so says its file of the next checkpoint.
  ASSERT_TRUE(bench_.home.Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
  ASSERT_EQ(bench_.home.ios.size(), 1u);
  const auto& write =
      static_cast<const v1::WriteShard&>(*bench_.home.ios[0].head);
  EXPECT_EQ(write.file().acknowledged_alone(), 2u);
}

TEST_F(ShardReplicationTest, WhatAllBackupsWereToldIsCounted) {
  const auto told = [&] {
    v1::StatusReply status;
    bench_.home.shard().FillStatus(&status);
    return status.server().replicated_bytes();
  };
  bench_.BeginPush(1);
  bench_.Carry();
  const uint64_t first = told();
  EXPECT_GT(first, 0u);
  bench_.DropBackup();
  EXPECT_EQ(told(), first);
  bench_.BeginBackup();
  bench_.Carry();
  EXPECT_GT(told(), first);
}

TEST_F(ShardReplicationTest, WhatTheBackupDoesNotTakeIsSentAgain) {
  const CallId push = bench_.BeginPush(1);
  ASSERT_EQ(bench_.home.sends.size(), 1u);
  const CallId call = bench_.home.sends[0].call;
  bench_.home.sends.clear();
  bench_.home.Reply(PeerId::Ps(kAway), call,
                    {absl::UnavailableError("connection lost"), nullptr, {}});
  bench_.home.Advance(absl::Milliseconds(100));
  bench_.Carry();
  EXPECT_TRUE(bench_.home.answered(push));
  EXPECT_EQ(bench_.home.shard().Checksum(), bench_.away.shard().Checksum());
}

TEST_F(ShardReplicationTest, WhatComesInAnotherOrderOrTwiceIsTakenOnceInOrder) {
  for (uint64_t push = 1; push <= 3; ++push) bench_.BeginPush(push);
  std::vector<Outbox::SendItem> sends = std::move(bench_.home.sends);
  bench_.home.sends.clear();
  ASSERT_EQ(sends.size(), 3u);
  std::vector<CallId> calls;
  for (const size_t i : {2, 0, 2, 1, 0}) {
    calls.push_back(
        bench_.away.Begin(PeerId::Ps(kHome), *sends[i].head, sends[i].payload));
  }
  EXPECT_EQ(bench_.home.shard().Checksum(), bench_.away.shard().Checksum());
  EXPECT_TRUE(bench_.away.answered(calls[2]));
  EXPECT_TRUE(bench_.away.answered(calls[4]));
}

TEST_F(ShardReplicationTest, WhoIsNotTheServerTellsItsBackupNothing) {
  bench_.BeginPush(1);
  std::vector<Outbox::SendItem> sends = std::move(bench_.home.sends);
  bench_.home.sends.clear();
  ASSERT_EQ(sends.size(), 1u);
  const uint32_t before = bench_.away.shard().Checksum();
  const absl::Status refused =
      bench_.away.Call(PeerId::Ps(1), *sends[0].head, sends[0].payload).status;
  EXPECT_EQ(ReasonOf(refused), v1::Refusal::NOT_ALLOWED);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("ps-1 speaks in the name of"));
  EXPECT_EQ(bench_.away.shard().Checksum(), before);
  EXPECT_TRUE(
      bench_.away.Call(PeerId::Ps(kHome), *sends[0].head, sends[0].payload)
          .status.ok());
  EXPECT_NE(bench_.away.shard().Checksum(), before);
}

TEST_F(ShardReplicationTest, OtherBitsAreFound) {
  const CallId push = bench_.BeginPush(1);
  ASSERT_EQ(bench_.home.sends.size(), 1u);
  bench_.home.sends[0].payload = Payload({1, 3});
  bench_.Carry();
  EXPECT_TRUE(bench_.home.answered(push));
  bench_.home.Advance(absl::Seconds(1));
  bench_.Carry();
  bench_.TellHome();
  EXPECT_THAT(bench_.report.lost(), HasSubstr("has other bits"));
  bench_.DecideTakeOver(true);
  EXPECT_FALSE(bench_.away.Configure(bench_.now).ok());
}

TEST_F(ShardReplicationTest, SessionsThatEndDoSoInTheSameOrder) {
  const CallId push = bench_.BeginPush(1);
  bench_.now = Next(bench_.now);
  *bench_.now.mutable_workers(1)->mutable_generation() = Pair(1, 50);
  // The backup hears of it first.
  bench_.TellAway();
  bench_.TellHome();
  bench_.Carry();
  EXPECT_TRUE(bench_.home.answered(push));
  bench_.TellHome();
  EXPECT_EQ(bench_.report.lost(), "");
  bench_.TakeOver();
  EXPECT_EQ(ReasonOf(bench_.away.Push(bench_.SmallPush(2), {1, 2}).status()),
            v1::Refusal::FENCED);
}

// ---- a place that nobody needs ----------------------------------------------

class ShardForgetsTest : public ShardReplicationTest {
 protected:
  // The coordinator says in this configuration that the place is spare.
  static void SaySpare(ShardDriver* place,
                       const v1::ConfigurationVersion& version) {
    v1::WatchRequest watch;
    watch.mutable_header()->set_term(version.term());
    *watch.mutable_header()->mutable_configuration() = version;
    watch.set_spare(true);
    place->Begin(PeerId::Coordinator(), watch);
  }
};

TEST_F(ShardForgetsTest, WhatNobodyNeedsIsForgotten) {
  bench_.BeginPush(1);
  bench_.Carry();
  EXPECT_NE(bench_.home.shard().Checksum(), 0u);
  bench_.TakeOver();
  SaySpare(&bench_.home, bench_.now.version());
  EXPECT_EQ(bench_.home.shard().Checksum(), 0u);
  EXPECT_FALSE(bench_.home.exited);
  EXPECT_EQ(ReasonOf(ReadFrom(&bench_.home)), v1::Refusal::NOT_READY);
  EXPECT_NE(bench_.away.shard().Checksum(), 0u);
}

TEST_F(ShardForgetsTest, WhereItWasForgottenItIsABackupAgain) {
  bench_.DropBackup();
  SaySpare(&bench_.away, bench_.now.version());
  EXPECT_EQ(bench_.away.shard().Checksum(), 0u);
  bench_.TellHomeOfBackup();
  const std::vector<ReplicationBench::UnderWay> early = bench_.Arrive();
  ASSERT_FALSE(early.empty());
  for (const ReplicationBench::UnderWay& call : early) {
    ASSERT_TRUE(bench_.away.answered(call.call));
    ShardDriver::Answer answer = bench_.away.Take(call.call);
    EXPECT_EQ(ReasonOf(answer.status), v1::Refusal::NOT_READY);
    bench_.home.Reply(PeerId::Ps(kAway), call.sent, std::move(answer));
  }
  bench_.TellAway();
  bench_.home.Advance(absl::Milliseconds(100));
  bench_.MakeMember();
  EXPECT_EQ(bench_.home.shard().Checksum(), bench_.away.shard().Checksum());
  const CallId push = bench_.BeginPush(1);
  bench_.Carry();
  ASSERT_TRUE(bench_.home.answered(push));
  EXPECT_TRUE(bench_.home.Take(push).status.ok());
}

TEST_F(ShardForgetsTest, ACallThatIsLateHasNobodyForgetWhatIsNeeded) {
  v1::ConfigurationVersion before = bench_.now.version();
  before.set_counter(before.counter() - 1);
  const uint32_t kept = bench_.away.shard().Checksum();
  SaySpare(&bench_.away, before);
  EXPECT_EQ(bench_.away.shard().Checksum(), kept);
  bench_.TakeOver();
  EXPECT_EQ(bench_.away.shard().Checksum(), kept);
}

}  // namespace
}  // namespace paramd
