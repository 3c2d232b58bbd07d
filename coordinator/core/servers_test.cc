#include "coordinator/core/servers.h"

#include <memory>
#include <utility>

#include "gtest/gtest.h"

#include "base/check.h"
#include "coordinator/core/testing/part_bench.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;
using ::paramd::testing::JobOptions;
using ::paramd::testing::Pair;
using ::paramd::testing::PartBench;
using Call = ServerRecord::Call;

// What a snapshot asks for, as the test says.
class SetSnapshotCalls : public SnapshotCalls {
 public:
  Numbers numbers() const override { return {Pair(1, 4), Pair(1, 3), 4}; }
  Call CallFor(uint32_t) const override { return call; }
  Outbox::Head MakeCall(uint32_t, Call,
                        const v1::Header& header) const override {
    auto seal = std::make_unique<v1::SealRequest>();
    *seal->mutable_header() = header;
    return seal;
  }

  Call call = Call::kNone;
};

// Two servers. What it calls stays open until the test answers it.
class ServersTest : public ::testing::Test {
 protected:
  void Advance() {
    bench_.Do([&](Turn* turn) { servers_.Advance(turn); });
    ShowOthers();
    for (Outbox::SendItem& sent : bench_.out.sends) {
      call_[sent.to.index] = sent.call;
      head_[sent.to.index] = std::move(sent.head);
    }
  }
  // The newest call of the server; null if it is another one.
  template <typename Request>
  const Request* Called(uint32_t server) {
    return DynamicCastToGenerated<Request>(head_[server].get());
  }
  template <typename Reply>
  void Answer(uint32_t server, const Reply& reply) {
    Message message;
    message.is_reply = true;
    message.from = PeerId::Ps(server);
    message.call = call_[server];
    message.head = &reply;
    bench_.Do([&](Turn* turn) { servers_.OnReply(server, message, turn); });
    ShowOthers();
  }
  void Refuse(uint32_t server, const absl::Status& why) {
    Message message;
    message.is_reply = true;
    message.from = PeerId::Ps(server);
    message.call = call_[server];
    message.status = why;
    bench_.Do([&](Turn* turn) { servers_.OnReply(server, message, turn); });
    ShowOthers();
  }
  void AnswerRecall(uint32_t server, uint64_t incarnation) {
    v1::RecallReply reply;
    reply.set_incarnation(incarnation);
    Answer(server, reply);
  }
  void AnswerConfigure(uint32_t server, bool restored) {
    v1::ConfigureReply reply;
    reply.set_incarnation(servers_.all()[server].incarnation);
    *reply.mutable_configuration() = bench_.configuration.get().version();
    reply.set_restored(restored);
    Answer(server, reply);
  }
  // Both are there and hold the newest checkpoint.
  void Fill() {
    Advance();
    for (const uint32_t s : {0, 1}) AnswerRecall(s, 100 + s);
    bench_.Do([&](Turn* turn) {
      servers_.RestoreAll("path", turn);
      turn->live->NextVersion();
    });
    bench_.phase = JobPhase::kFilling;
    Advance();
    for (const uint32_t s : {0, 1}) AnswerConfigure(s, true);
    bench_.phase = JobPhase::kRunning;
  }
  // What server 0 says.
  static v1::ConfigureReply ItDrains() {
    v1::ConfigureReply reply;
    reply.set_incarnation(100);
    reply.set_restored(true);
    reply.set_draining(true);
    return reply;
  }
  // A server that drains is sealed for that snapshot, and another process is
  // there when it is asked again.
  const ServerReborn* GoesSilentAfterSeal(const v1::SnapshotNumber& seal) {
    Fill();
    bench_.now = bench_.now + absl::Seconds(1);
    Advance();
    Answer(0, ItDrains());
    servers_.OnSealedToLeave(0, seal);
    servers_.KeepAliveDraining(bench_.now);
    Advance();
    Refuse(0, absl::UnavailableError("did not answer"));
    bench_.now = bench_.now + absl::Milliseconds(200);
    Advance();
    AnswerRecall(0, 999);
    const auto* reborn = bench_.Raised<ServerReborn>();
    CHECK(reborn != nullptr, "another process is there");
    return reborn;
  }
  const ServerRecord& server(uint32_t index) { return servers_.all()[index]; }
  void ShowOthers() { bench_.servers = servers_.all(); }

  PartBench bench_{JobOptions()};
  SetSnapshotCalls snapshots_;
  Servers servers_{bench_.options, snapshots_};
  CallId call_[2] = {};
  Outbox::Head head_[2];
};

TEST_F(ServersTest, WhoIsThereIsAskedFirst) {
  bench_.phase = JobPhase::kTakingTerm;
  Advance();
  EXPECT_TRUE(bench_.out.sends.empty());
  bench_.phase = JobPhase::kRecalling;
  Advance();
  ASSERT_NE(nullptr, Called<v1::RecallRequest>(0));
  EXPECT_EQ("run", Called<v1::RecallRequest>(0)->run_id());
  AnswerRecall(0, 100);
  const auto* recalled = bench_.Raised<ServerRecalled>();
  ASSERT_NE(nullptr, recalled);
  EXPECT_EQ(0u, recalled->server);
  EXPECT_FALSE(server(0).suspected);
  EXPECT_EQ("ps-1 to be there", servers_.waiting_for(bench_.job));
}

TEST_F(ServersTest, OneCallOfAServerIsUnderWay) {
  bench_.phase = JobPhase::kRecalling;
  Advance();
  EXPECT_EQ(2u, bench_.out.sends.size());
  Advance();
  EXPECT_TRUE(bench_.out.sends.empty());
  EXPECT_EQ(Time::Never(), servers_.next_tick(bench_.job));
}

TEST_F(ServersTest, AServerIsAskedUntilItIsFilled) {
  bench_.phase = JobPhase::kRecalling;
  Advance();
  for (const uint32_t s : {0, 1}) AnswerRecall(s, 100 + s);
  bench_.Do([&](Turn* turn) {
    servers_.RestoreAll("path", turn);
    turn->live->NextVersion();
  });
  bench_.phase = JobPhase::kFilling;
  Advance();
  const auto* configure = Called<v1::ConfigureRequest>(1);
  ASSERT_NE(nullptr, configure);
  EXPECT_EQ("path", configure->configuration().servers(1).restore_directory());
  EXPECT_EQ(Pair(1, 3), configure->committed());
  EXPECT_EQ(0u, configure->header().server_incarnation());
  AnswerConfigure(1, false);
  EXPECT_LT(bench_.now, servers_.next_tick(bench_.job));
  bench_.now = servers_.next_tick(bench_.job);
  Advance();
  EXPECT_EQ(1u, bench_.out.sends.size());
  AnswerConfigure(1, true);
  ASSERT_NE(nullptr, bench_.Raised<ServerConfigured>());
  EXPECT_EQ(1u, bench_.Raised<ServerConfigured>()->server);
  EXPECT_TRUE(server(1).restored);
}

TEST_F(ServersTest, WhatTheSnapshotNeedsComesBeforeKeepingAlive) {
  Fill();
  Advance();
  EXPECT_TRUE(bench_.out.sends.empty());
  snapshots_.call = Call::kSeal;
  Advance();
  const auto* seal = Called<v1::SealRequest>(0);
  ASSERT_NE(nullptr, seal);
  EXPECT_EQ(Pair(1, 4), seal->header().snapshot());
  EXPECT_EQ(100u, seal->header().server_incarnation());
  Answer(0, v1::SealReply());
  const auto* answered = bench_.Raised<SnapshotAnswered>();
  ASSERT_NE(nullptr, answered);
  EXPECT_EQ(0u, answered->server);
  Refuse(1, absl::InternalError("no space"));
  const auto* failed = bench_.Raised<SnapshotCallFailed>();
  ASSERT_NE(nullptr, failed);
  EXPECT_EQ(Pair(1, 4), failed->snapshot);
  EXPECT_EQ("ps-1: no space", failed->why.message());
}

TEST_F(ServersTest, OneThatIsNotReadyForTheSnapshotIsToldOfItFirst) {
  Fill();
  snapshots_.call = Call::kSeal;
  Advance();
  Refuse(0, RefuseForNow(v1::Refusal::NOT_READY, "coordinator",
                         absl::Milliseconds(50),
                         "ps-0 has not heard of snapshot 1.4 yet"));
  bench_.now = servers_.next_tick(bench_.job);
  Advance();
  const auto* configure = Called<v1::ConfigureRequest>(0);
  ASSERT_NE(nullptr, configure);
  EXPECT_EQ(Pair(1, 4), configure->header().snapshot());
  AnswerConfigure(0, true);
  Advance();
  EXPECT_NE(nullptr, Called<v1::SealRequest>(0));
}

TEST_F(ServersTest, OneThatIsBusyIsAskedForTheSameAgain) {
  Fill();
  snapshots_.call = Call::kSeal;
  Advance();
  Refuse(0, RefuseForNow(v1::Refusal::RETRY, "ps-0", absl::Milliseconds(50),
                         "ps-0 is applying a step"));
  bench_.now = servers_.next_tick(bench_.job);
  Advance();
  EXPECT_NE(nullptr, Called<v1::SealRequest>(0));
  EXPECT_EQ(1u, bench_.out.sends.size());
}

TEST_F(ServersTest, OneThatDoesNotAnswerIsRecalled) {
  Fill();
  bench_.now = bench_.now + absl::Seconds(1);
  Advance();
  Refuse(0, absl::UnavailableError("did not answer"));
  EXPECT_TRUE(server(0).suspected);
  EXPECT_EQ(nullptr, Called<v1::RecallRequest>(0));
  bench_.now = bench_.now + absl::Milliseconds(200);
  Advance();
  EXPECT_NE(nullptr, Called<v1::RecallRequest>(0));
}

TEST_F(ServersTest, ANewLifeIsRestoredUnderAGenerationOfItsOwn) {
  Fill();
  const v1::ServerLife first = server(0).generation;
  bench_.now = bench_.now + absl::Seconds(1);
  Advance();
  Refuse(0, absl::UnavailableError("did not answer"));
  bench_.now = bench_.now + absl::Milliseconds(200);
  Advance();
  AnswerRecall(0, 999);
  const auto* reborn = bench_.Raised<ServerReborn>();
  ASSERT_NE(nullptr, reborn);
  EXPECT_FALSE(reborn->drained);
  EXPECT_FALSE(server(0).restored);
  bench_.Do([&](Turn* turn) { servers_.Restore(0, "newer", turn); });
  EXPECT_LT(first, server(0).generation);
  EXPECT_EQ("newer", bench_.configuration.get().servers(0).restore_directory());
}

TEST_F(ServersTest, TheSameLifeKeepsWhatItHolds) {
  Fill();
  bench_.now = bench_.now + absl::Seconds(1);
  Advance();
  Refuse(0, absl::UnavailableError("did not answer"));
  bench_.now = bench_.now + absl::Milliseconds(200);
  Advance();
  AnswerRecall(0, 100);
  EXPECT_EQ(nullptr, bench_.Raised<ServerReborn>());
  EXPECT_TRUE(server(0).restored);
}

TEST_F(ServersTest,
       ACheckpointThatCanNotBeRestoredIsRaisedUntilItIsPassedOver) {
  Fill();
  const absl::Status damaged =
      paramd::Refuse(v1::Refusal::DAMAGED, "path", "a bit flipped");
  bench_.now = bench_.now + absl::Seconds(1);
  Advance();
  Refuse(0, damaged);
  const auto* not_restored = bench_.Raised<NotRestored>();
  ASSERT_NE(nullptr, not_restored);
  EXPECT_TRUE(not_restored->is_damaged);
  EXPECT_FALSE(not_restored->may_pass);
  EXPECT_EQ("ps-0: a bit flipped", not_restored->why);
  servers_.PassOver("path");
  Refuse(1, damaged);
  EXPECT_TRUE(bench_.facts.empty());
  EXPECT_FALSE(bench_.out.exited);
}

TEST_F(ServersTest, WhatNoOtherCheckpointMendsEndsTheJob) {
  Fill();
  bench_.now = bench_.now + absl::Seconds(1);
  Advance();
  Refuse(0, paramd::Refuse(v1::Refusal::INVALID, "other", "no such variable"));
  EXPECT_TRUE(bench_.out.exited);
  EXPECT_EQ("ps-0: no such variable", bench_.out.exit_status.message());
}

TEST_F(ServersTest, WhatASettingOfAServerForbidsIsABadConfiguration) {
  Fill();
  bench_.now = bench_.now + absl::Seconds(1);
  Advance();
  Refuse(0, paramd::Refuse(v1::Refusal::INVALID, "memory_limit_bytes",
                           "the variables do not fit"));
  EXPECT_TRUE(absl::IsInvalidArgument(bench_.out.exit_status));
}

TEST_F(ServersTest, AConfigurationThatIsTooLongEndsTheJob) {
  Fill();
  bench_.now = bench_.now + absl::Seconds(1);
  Advance();
  Refuse(0, RefuseForNow(v1::Refusal::OVER_LIMIT, "ps-0", absl::Seconds(1),
                         "64 calls wait"));
  EXPECT_FALSE(bench_.out.exited);
  Refuse(1, paramd::Refuse(v1::Refusal::OVER_LIMIT, "Configure",
                           "a Configure request of 2 bytes; the limit is 1"));
  EXPECT_TRUE(bench_.out.exited);
  EXPECT_EQ("ps-1: a Configure request of 2 bytes; the limit is 1",
            bench_.out.exit_status.message());
}

TEST_F(ServersTest, AServerOfALaterCoordinatorEndsThisOne) {
  Fill();
  bench_.now = bench_.now + absl::Seconds(1);
  Advance();
  Refuse(0, paramd::Refuse(v1::Refusal::OLD_TERM, "term", "term 2 is known"));
  EXPECT_TRUE(absl::IsAlreadyExists(bench_.out.exit_status));
}

TEST_F(ServersTest, OneThatDrainsMayLeaveWhenItHeardOfItsCheckpoint) {
  Fill();
  bench_.now = bench_.now + absl::Seconds(1);
  Advance();
  v1::ConfigureReply reply = ItDrains();
  Answer(0, reply);
  servers_.OnSealedToLeave(0, Pair(1, 3));
  EXPECT_EQ(Pair(1, 3), server(0).drained_by);
  servers_.KeepAliveDraining(bench_.now);
  Advance();
  *reply.mutable_drained_by() = Pair(1, 3);
  Answer(0, reply);
  EXPECT_TRUE(server(0).drained);
  servers_.OnSealedToLeave(1, Pair(1, 3));
  EXPECT_TRUE(IsZero(server(1).drained_by)) << "it does not drain";
}

TEST_F(ServersTest, OneThatWasSavedHasLostNothingIfItsLastAnswerIsLost) {
  EXPECT_TRUE(GoesSilentAfterSeal(Pair(1, 3))->drained);
}

TEST_F(ServersTest, OneWhoseCheckpointIsNotCommittedHasLostWhatCameAfter) {
  EXPECT_FALSE(GoesSilentAfterSeal(Pair(1, 4))->drained);
}

TEST_F(ServersTest, EachHearsOfTheEndAndOnceMoreWhenEverybodyKnows) {
  Fill();
  bench_.phase = JobPhase::kTellingEnd;
  Advance();
  ASSERT_NE(nullptr, Called<v1::FinishRequest>(0));
  Answer(0, v1::FinishReply());
  EXPECT_EQ(1, server(0).end_told);
  Advance();
  EXPECT_TRUE(bench_.out.sends.empty());
  servers_.OnEverybodyKnows();
  Advance();
  EXPECT_TRUE(Called<v1::FinishRequest>(0)->everybody_knows());
  // It has left by itself.
  Refuse(0, absl::UnavailableError("refused"));
  EXPECT_EQ(2, server(0).end_told);
}

TEST_F(ServersTest, PeopleSeeTheirStates) {
  Fill();
  bench_.now = bench_.now + absl::Seconds(1);
  Advance();
  Refuse(1, absl::UnavailableError("did not answer"));
  v1::JobStats status;
  servers_.FillStatus(bench_.now, &status);
  EXPECT_EQ(v1::Member::ALIVE, status.members(0).state());
  EXPECT_EQ(1000u, status.members(0).silent_ms());
  EXPECT_EQ(v1::Member::LOST, status.members(1).state());
}

TEST(ReplicatedServersTest, PeopleAreToldWhereAServerIsAndOfItsBackup) {
  CoordinatorOptions options = JobOptions();
  options.places = PlacesOf(/*tasks=*/2, /*shards=*/1);
  const SetSnapshotCalls snapshots;
  Servers servers(options, snapshots);
  PartBench bench(options);
  bench.configuration.SetServers(bench.servers);
  const auto told = [&] {
    v1::JobStats status;
    servers.FillStatus(bench.now, &status);
    return status.members(1);
  };
  ReplicaChanged change;
  change.member.set_index(1);
  change.member.set_peer(2);
  v1::Backup& backup = *change.member.mutable_backup();
  backup.set_peer(1);
  *backup.mutable_since() = Pair(1, 7);
  const auto apply = [&] {
    bench.Do([&](Turn* turn) { EXPECT_TRUE(servers.Change(change, turn)); });
  };
  apply();
  EXPECT_EQ(told().peer(), 2u);
  EXPECT_EQ(told().backup_peer(), 1u);
  EXPECT_FALSE(told().backup_is_member());
  backup.set_member(true);
  apply();
  EXPECT_TRUE(told().backup_is_member());
  change.takes_over = true;
  change.member.set_peer(1);
  *change.member.mutable_took_over() = Pair(1, 7);
  change.member.clear_backup();
  apply();
  EXPECT_EQ(told().peer(), 1u);
  EXPECT_FALSE(told().has_backup_peer());
}

TEST(ReplicatedServersTest, TheLifeThatWasFilledIsNamedUntilItIsFilledAgain) {
  CoordinatorOptions options = JobOptions();
  options.places = PlacesOf(/*tasks=*/2, /*shards=*/1);
  const SetSnapshotCalls snapshots;
  Servers servers(options, snapshots);
  PartBench bench(options);
  bench.Do([&](Turn* turn) { servers.RestoreAll("path", turn); });
  const auto told = [&] { return bench.configuration.get().servers(1); };
  const v1::ServerLife filled = told().generation();
  EXPECT_FALSE(told().has_filled());
  for (uint64_t i = 0; i < 2; ++i) {
    ReplicaChanged change;
    change.member = told();
    *change.member.mutable_backup()->mutable_since() = Pair(1, 7 + i);
    bench.Do([&](Turn* turn) { ASSERT_TRUE(servers.Change(change, turn)); });
    change.takes_over = true;
    *change.member.mutable_took_over() = Pair(1, 7 + i);
    *change.member.mutable_generation() = Pair(9, 30 + i);
    change.member.clear_backup();
    bench.Do([&](Turn* turn) { ASSERT_TRUE(servers.Change(change, turn)); });
    EXPECT_EQ(told().generation(), Pair(9, 30 + i));
    EXPECT_EQ(told().filled(), filled);
  }
  bench.Do([&](Turn* turn) { servers.Restore(1, "path", turn); });
  EXPECT_FALSE(told().has_filled());
}

}  // namespace
}  // namespace paramd
