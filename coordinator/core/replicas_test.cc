#include "coordinator/core/replicas.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/core/testing/part_bench.h"
#include "coordinator/core/testing/replicated_job.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;
using ::paramd::testing::JobOptions;
using ::paramd::testing::NoSnapshotCalls;
using ::paramd::testing::Pair;
using ::paramd::testing::PartBench;
using ::paramd::testing::ReplicatedJob;
using ::testing::HasSubstr;
using Call = ServerRecord::Call;

// Two servers, at home in places 0 and 2 as processes 100 and 101, and away in
// 3 and 1. The test does to records what the server part would.
class ReplicasTest : public ::testing::Test {
 protected:
  ReplicasTest() {
    for (uint32_t s = 0; s < 2; ++s) {
      ServerRecord& server = bench_.servers[s];
      server.peer = 2 * s;
      server.incarnation = 100 + s;
      server.generation = Pair(1, s + 1);
      server.heard = bench_.now;
    }
    bench_.configuration.SkipGenerations(2);
    Show();
  }

  void Show() {
    bench_.configuration.SetServers(bench_.servers);
    bench_.configuration.NextVersion();
    for (ServerRecord& server : bench_.servers) {
      server.acknowledged = bench_.configuration.get().version();
    }
  }
  // What is raised changes the record, as it would; OK to call for none.
  const ReplicaChanged* Apply() {
    const auto* change = bench_.Raised<ReplicaChanged>();
    if (change == nullptr) return nullptr;
    ServerRecord& server = bench_.servers[change->member.index()];
    server.backup.reset();
    if (change->member.has_backup()) server.backup = change->member.backup();
    Show();
    return change;
  }
  void Advance() {
    bench_.Do([&](Turn* turn) { replicas_.Advance(false, turn); });
    for (Outbox::SendItem& sent : bench_.out.sends) {
      sent_[sent.to.index] = std::move(sent);
    }
    for (Outbox::IoItem& io : bench_.out.ios) {
      appended_.emplace_back(
          io.io, static_cast<const v1::AppendLog&>(*io.head).entry());
    }
  }
  template <typename Reply>
  void Answer(uint32_t server, const Reply& reply) {
    AnswerFrom(Away(server), server, reply);
  }
  template <typename Reply>
  void AnswerFrom(uint32_t peer, uint32_t server, const Reply& reply) {
    Message message;
    message.is_reply = true;
    message.call = sent_.at(peer).call;
    message.head = &reply;
    bench_.Do([&](Turn* turn) { replicas_.OnReply(server, message, turn); });
  }
  void Refuse(uint32_t server, const absl::Status& why) {
    Message message;
    message.is_reply = true;
    message.call = sent_[Away(server)].call;
    message.status = why;
    bench_.Do([&](Turn* turn) { replicas_.OnReply(server, message, turn); });
  }
  void Recalled(uint32_t server, uint64_t incarnation) {
    v1::RecallReply reply;
    reply.set_incarnation(incarnation);
    Answer(server, reply);
  }
  void Report(uint32_t server, bool whole, const std::string& lost = "") {
    v1::ConfigureReply reply;
    *reply.mutable_backup()->mutable_since() =
        bench_.servers[server].backup->since();
    reply.mutable_backup()->set_whole(whole);
    reply.mutable_backup()->set_lost(lost);
    replicas_.OnConfigured(server, reply);
  }
  // The oldest entry is in the log.
  void Logged() {
    ASSERT_FALSE(appended_.empty());
    bench_.End(appended_.front().first, absl::OkStatus(), v1::AppendLog());
    appended_.erase(appended_.begin());
  }
  static uint32_t Away(uint32_t server) { return server == 0 ? 3 : 1; }

  void MakeLearner() {
    Advance();
    Recalled(0, 200);
    Advance();
    ASSERT_NE(Apply(), nullptr);
  }
  void MakeMember() {
    MakeLearner();
    Report(0, true);
    Advance();
    Logged();
    ASSERT_NE(Apply(), nullptr);
    ASSERT_TRUE(bench_.servers[0].backup->member());
  }

  // The process at `peer` says this to the coordinator's watch.
  void Watched(uint32_t peer, uint64_t process, bool leaving,
               const v1::ConfigurationVersion& stopped = {}) {
    bench_.Do([&](Turn* turn) { watch_.Advance(turn); });
    for (Outbox::SendItem& sent : bench_.out.sends) {
      watched_[sent.to.index] = std::move(sent);
    }
    v1::WatchReply reply;
    reply.set_incarnation(process);
    reply.set_leaving(leaving);
    *reply.mutable_stopped() = stopped;
    Message message;
    message.from = PeerId::Ps(peer);
    message.is_reply = true;
    message.call = watched_[peer].call;
    message.head = &reply;
    bench_.Do([&](Turn* turn) {
      EXPECT_EQ(watch_.OnReply(message, *turn), PlaceWatch::Answer::kSomebody);
    });
  }
  // What it is told next.
  v1::WatchRequest TellWatched(uint32_t peer) {
    bench_.now = bench_.now + PlaceWatch::kEvery;
    bench_.Do([&](Turn* turn) { watch_.Advance(turn); });
    for (Outbox::SendItem& sent : bench_.out.sends) {
      watched_[sent.to.index] = std::move(sent);
    }
    return static_cast<const v1::WatchRequest&>(*watched_[peer].head);
  }

  PartBench bench_{ReplicatedJob()};
  NoSnapshotCalls snapshots_;
  PlaceWatch watch_{bench_.options};
  Replicas replicas_{bench_.options, snapshots_, &watch_};
  std::map<uint32_t, Outbox::SendItem> watched_;
  std::map<uint32_t, Outbox::SendItem> sent_;
  std::vector<std::pair<IoId, v1::LogEntry>> appended_;
};

TEST_F(ReplicasTest, WhoIsInTheOtherPlaceIsTold) {
  Advance();
  EXPECT_NE(DynamicCastToGenerated<v1::RecallRequest>(sent_[3].head.get()),
            nullptr);
  EXPECT_NE(DynamicCastToGenerated<v1::RecallRequest>(sent_[1].head.get()),
            nullptr);
  Recalled(0, 200);
  Advance();
  const ReplicaChanged* const change = Apply();
  ASSERT_NE(change, nullptr);
  EXPECT_EQ(change->member.index(), 0u);
  EXPECT_EQ(change->member.backup().peer(), 3u);
  EXPECT_EQ(change->member.backup().incarnation(), 200u);
  EXPECT_FALSE(change->member.backup().member());
  EXPECT_TRUE(appended_.empty());
  Advance();
  const auto* told =
      DynamicCastToGenerated<v1::ConfigureRequest>(sent_[3].head.get());
  ASSERT_NE(told, nullptr);
  EXPECT_EQ(told->configuration().servers(0).backup().incarnation(), 200u);
}

TEST_F(ReplicasTest, OneOfAnotherBuildIsNoBackup) {
  bench_.servers[0].build = "0.1 abc 01";
  v1::RecallReply reply;
  reply.set_incarnation(200);
  reply.set_build("0.1 abc 02");
  Advance();
  Answer(0, reply);
  Advance();
  EXPECT_EQ(Apply(), nullptr);
  const std::string why =
      "ps-0 has no backup: its process is paramd 0.1 abc 01, that of its other "
      "place 0.1 abc 02: start all ps with one build";
  ASSERT_EQ(bench_.out.notes.size(), 1u);
  EXPECT_EQ(bench_.out.notes[0].sentence, why);
  EXPECT_EQ(replicas_.WhyNotHandedOver(0, bench_.job), why);
  EXPECT_THAT(replicas_.Missing(bench_.job), HasSubstr("ps-0: its process is"));
  Advance();
  EXPECT_TRUE(bench_.out.notes.empty()) << "once is enough";
  // Another process is started there.
  bench_.now = bench_.now + bench_.job.heartbeat();
  Advance();
  reply.set_incarnation(300);
  reply.set_build("0.1 abc 01");
  Answer(0, reply);
  Advance();
  const ReplicaChanged* const change = Apply();
  ASSERT_NE(change, nullptr);
  EXPECT_EQ(change->member.backup().incarnation(), 300u);
}

TEST_F(ReplicasTest, OneThatHasEverythingIsAMemberWhenTheLogHasIt) {
  MakeLearner();
  Report(0, false);
  Advance();
  EXPECT_TRUE(appended_.empty());
  Report(0, true);
  Advance();
  ASSERT_EQ(appended_.size(), 1u);
  EXPECT_TRUE(appended_[0].second.replicas().backup().member());
  EXPECT_EQ(bench_.Raised<ReplicaChanged>(), nullptr);
  Advance();
  EXPECT_EQ(appended_.size(), 1u);  // Once.
  Logged();
  const ReplicaChanged* const change = Apply();
  ASSERT_NE(change, nullptr);
  EXPECT_TRUE(change->member.backup().member());
}

TEST_F(ReplicasTest, WhatIsSaidOfAnotherBackupCountsForNothing) {
  MakeLearner();
  v1::ConfigureReply reply;
  *reply.mutable_backup()->mutable_since() = Pair(1, 1);
  reply.mutable_backup()->set_whole(true);
  replicas_.OnConfigured(0, reply);
  Advance();
  EXPECT_TRUE(appended_.empty());
}

TEST_F(ReplicasTest, AServerThatIsGoneIsTakenOverWhenTheLogHasIt) {
  MakeMember();
  const v1::Backup backup = *bench_.servers[0].backup;
  bench_.servers[0].suspected = bench_.servers[0].ended = true;
  Advance();
  ASSERT_EQ(appended_.size(), 1u);
  EXPECT_EQ(bench_.Raised<ReplicaChanged>(), nullptr);
  Logged();
  const auto* change = bench_.Raised<ReplicaChanged>();
  ASSERT_NE(change, nullptr);
  EXPECT_TRUE(change->takes_over);
  EXPECT_EQ(change->member.peer(), 3u);
  EXPECT_EQ(change->member.incarnation(), 200u);
  EXPECT_TRUE(change->member.generation() > v1::ServerLife(Pair(1, 1)));
  EXPECT_TRUE(change->member.took_over() == backup.since());
  EXPECT_TRUE(change->member.last_has_ended());
  EXPECT_FALSE(change->member.has_backup());
}

TEST_F(ReplicasTest, ASilentOneIsTakenOverAfterItsLease) {
  MakeMember();
  bench_.servers[0].suspected = true;
  bench_.now = bench_.now + absl::Seconds(10);
  Advance();
  EXPECT_TRUE(appended_.empty());
  bench_.now = bench_.now + absl::Milliseconds(1);
  Advance();
  ASSERT_EQ(appended_.size(), 1u);
  EXPECT_FALSE(appended_[0].second.replicas().last_has_ended());
}

TEST_F(ReplicasTest, ALearnerNeverTakesOver) {
  MakeLearner();
  bench_.servers[0].suspected = bench_.servers[0].ended = true;
  bench_.Do([&](Turn* turn) { EXPECT_FALSE(replicas_.TakesOver(0, turn)); });
  Advance();
  EXPECT_TRUE(appended_.empty());
}

TEST_F(ReplicasTest, AServerThatComesBackWithNothingIsTakenOver) {
  MakeMember();
  bench_.Do([&](Turn* turn) {
    EXPECT_TRUE(replicas_.TakesOver(0, turn));
    EXPECT_TRUE(replicas_.TakesOver(0, turn));
  });
  ASSERT_EQ(bench_.out.ios.size(), 1u);
}

TEST_F(ReplicasTest, AMemberIsDroppedWhenTheLogHasIt) {
  MakeMember();
  Report(0, /*whole=*/false, "it has other bits");
  Advance();
  ASSERT_EQ(appended_.size(), 1u);
  EXPECT_FALSE(appended_[0].second.replicas().has_backup());
  bench_.Do([&](Turn* turn) { EXPECT_FALSE(replicas_.TakesOver(0, turn)); });
  EXPECT_EQ(bench_.Raised<ReplicaChanged>(), nullptr);
  Logged();
  const ReplicaChanged* const change = Apply();
  ASSERT_NE(change, nullptr);
  EXPECT_THAT(change->note, HasSubstr("goes on without its backup"));
  // And not told again at once.
  Advance();
  EXPECT_EQ(bench_.Raised<ReplicaChanged>(), nullptr);
  bench_.now = bench_.now + absl::Seconds(10);
  Advance();
  EXPECT_NE(bench_.Raised<ReplicaChanged>(), nullptr);
}

// Its server has not heard of it, and so acknowledges nothing without it.
TEST_F(ReplicasTest, OneThatIsBeingDroppedTakesOverAllTheSame) {
  MakeMember();
  Report(0, /*whole=*/true, "it has taken nothing for 2s");
  Advance();
  ASSERT_EQ(appended_.size(), 1u);
  bench_.Do([&](Turn* turn) { EXPECT_TRUE(replicas_.TakesOver(0, turn)); });
  Logged();
  EXPECT_EQ(bench_.Raised<ReplicaChanged>(), nullptr);
  ASSERT_EQ(bench_.out.ios.size(), 1u);
  const auto& append =
      static_cast<const v1::AppendLog&>(*bench_.out.ios[0].head);
  EXPECT_EQ(append.entry().replicas().peer(), 3u);
}

TEST_F(ReplicasTest, AnotherProcessInTheOtherPlaceIsNoBackup) {
  MakeMember();
  Advance();
  absl::Status refused = absl::UnavailableError("ps-3: refused");
  MarkEnded(&refused);
  Refuse(0, refused);
  Advance();
  ASSERT_EQ(appended_.size(), 1u);
  EXPECT_FALSE(appended_[0].second.replicas().has_backup());
}

TEST_F(ReplicasTest, Promise1_AServerThatLeavesIsHandedOverOnceItHasStopped) {
  MakeMember();
  const v1::Backup backup = *bench_.servers[0].backup;
  Watched(0, 100, /*leaving=*/true);
  Advance();
  EXPECT_TRUE(appended_.empty()) << "it has not stopped";
  EXPECT_EQ(TellWatched(0).hand_over(), backup.since());
  Watched(0, 100, /*leaving=*/true, backup.since());
  Advance();
  ASSERT_EQ(appended_.size(), 1u);
  EXPECT_FALSE(TellWatched(0).may_leave()) << "the log does not have it";
  Logged();
  const auto* change = bench_.Raised<ReplicaChanged>();
  ASSERT_NE(change, nullptr);
  EXPECT_TRUE(change->takes_over);
  EXPECT_THAT(change->note, HasSubstr("ps-0 leaves; its backup takes over"));
  EXPECT_EQ(change->member.peer(), 3u);
  EXPECT_TRUE(change->member.took_over() == backup.since());
  EXPECT_TRUE(change->member.last_has_ended());
  // As the server part does.
  bench_.servers[0].backup.reset();
  bench_.servers[0].peer = 3;
  bench_.servers[0].restored = false;
  replicas_.GoOnAt(0, 3);
  Watched(0, 100, /*leaving=*/true, backup.since());
  Advance();
  EXPECT_FALSE(TellWatched(0).may_leave()) << "the new place has not said so";
  bench_.servers[0].restored = true;
  Watched(0, 100, /*leaving=*/true, backup.since());
  Advance();
  EXPECT_TRUE(TellWatched(0).may_leave());
  v1::RecallReply recalled;
  recalled.set_incarnation(100);
  AnswerFrom(0, 0, recalled);
  Advance();
  EXPECT_EQ(bench_.Raised<ReplicaChanged>(), nullptr) << "it is no backup";
}

TEST_F(ReplicasTest, WhatStoppedForAnotherBackupIsNotHandedOver) {
  MakeMember();
  Watched(0, 100, /*leaving=*/true, Pair(1, 1));
  Advance();
  EXPECT_TRUE(appended_.empty());
}

TEST_F(ReplicasTest, AServerThatLeavesWaitsForItsBackupToHaveEverything) {
  MakeLearner();
  Watched(0, 100, /*leaving=*/true);
  Advance();
  EXPECT_TRUE(IsZero(TellWatched(0).hand_over()));
  Report(0, true);
  Advance();
  Logged();
  ASSERT_NE(Apply(), nullptr);
  Watched(0, 100, /*leaving=*/true);
  Advance();
  EXPECT_EQ(TellWatched(0).hand_over(), bench_.servers[0].backup->since());
}

TEST_F(ReplicasTest, ABackupThatLeavesIsDroppedAndLetGoWhenTheLogHasIt) {
  MakeMember();
  Watched(3, 200, /*leaving=*/true);
  Advance();
  // It was asked before.
  Watched(0, 100, /*leaving=*/false);
  Advance();
  EXPECT_TRUE(appended_.empty()) << "its server may be gone by now";
  TellWatched(0);
  Watched(0, 100, /*leaving=*/false);
  Advance();
  ASSERT_EQ(appended_.size(), 1u);
  EXPECT_FALSE(appended_[0].second.replicas().has_backup());
  EXPECT_FALSE(TellWatched(3).may_leave());
  Logged();
  const ReplicaChanged* const change = Apply();
  ASSERT_NE(change, nullptr);
  EXPECT_THAT(change->note, HasSubstr("its process leaves"));
  Watched(3, 200, /*leaving=*/true);
  Advance();
  EXPECT_TRUE(TellWatched(3).may_leave());
  EXPECT_EQ(bench_.Raised<ReplicaChanged>(), nullptr) << "it is none again";
}

TEST_F(ReplicasTest, Promise1_ABackupThatLeavesTakesOverAServerThatIsGone) {
  MakeMember();
  // Nobody knows yet.
  Watched(3, 200, /*leaving=*/true);
  Advance();
  EXPECT_TRUE(appended_.empty());
  EXPECT_FALSE(TellWatched(3).may_leave());
  // Another process is there, which has nothing.
  Watched(0, 300, /*leaving=*/false);
  TellWatched(0);
  Watched(0, 300, /*leaving=*/false);
  Advance();
  EXPECT_TRUE(appended_.empty());
  bench_.servers[0].suspected = bench_.servers[0].ended = true;
  Advance();
  ASSERT_EQ(appended_.size(), 1u);
  EXPECT_EQ(appended_[0].second.replicas().peer(), 3u);
  EXPECT_EQ(appended_[0].second.replicas().incarnation(), 200u);
  EXPECT_FALSE(TellWatched(3).may_leave());
}

TEST_F(ReplicasTest, WhereTheChiefLeavesTooNothingIsHandedOver) {
  MakeMember();
  replicas_.OnChiefLeaves();
  Watched(0, 100, /*leaving=*/true);
  Advance();
  EXPECT_TRUE(IsZero(TellWatched(0).hand_over()));
}

TEST_F(ReplicasTest, SaysWhyAServerCantBeHandedOver) {
  EXPECT_EQ(replicas_.WhyNotHandedOver(0, bench_.job), "ps-0 has no backup");
  MakeLearner();
  EXPECT_EQ(replicas_.WhyNotHandedOver(0, bench_.job),
            "the backup of ps-0 does not hold everything yet");
  Report(0, true);
  Advance();
  Logged();
  ASSERT_NE(Apply(), nullptr);
  EXPECT_EQ(replicas_.WhyNotHandedOver(0, bench_.job), "");
  Watched(3, 200, /*leaving=*/true);
  EXPECT_EQ(replicas_.WhyNotHandedOver(0, bench_.job),
            "the backup of ps-0 leaves or is lost");
}

TEST_F(ReplicasTest, ABackupThatRefusesWhatHasChangedIsToldTheWhole) {
  MakeMember();
  v1::ConfigureReply reply;
  reply.set_incarnation(200);
  reply.set_takes_changes(true);
  Answer(0, reply);
  const auto told = [this] {
    Advance();
    return DynamicCastToGenerated<v1::ConfigureRequest>(
               sent_.at(Away(0)).head.get())
        ->configuration();
  };
  EXPECT_EQ(told().servers_size(), 2);
  *reply.mutable_configuration() = bench_.configuration.get().version();
  Answer(0, reply);
  bench_.now = bench_.now + bench_.job.heartbeat();
  EXPECT_EQ(told().servers_size(), 1);
  Refuse(0, Invalid("1.2", "was told before with other content"));
  EXPECT_EQ(told().servers_size(), 2);
  EXPECT_EQ(Apply(), nullptr);
}

TEST_F(ReplicasTest, WhatWasLoggedBeforeAllBeganAnewChangesNothing) {
  MakeLearner();
  Report(0, true);
  Advance();
  replicas_.OnRestoreAll();
  Logged();
  EXPECT_EQ(bench_.Raised<ReplicaChanged>(), nullptr);
}

TEST(NoReplicasTest, WithoutReplicationNobodyIsCalled) {
  PartBench bench{JobOptions()};
  const NoSnapshotCalls snapshots;
  PlaceWatch watch(bench.options);
  Replicas replicas(bench.options, snapshots, &watch);
  EXPECT_FALSE(replicas.active());
  bench.Do([&](Turn* turn) { replicas.Advance(false, turn); });
  EXPECT_TRUE(bench.out.sends.empty());
  EXPECT_EQ(replicas.next_tick(bench.job), Time::Never());
}

}  // namespace
}  // namespace paramd
