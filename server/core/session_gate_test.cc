#include "server/core/session_gate.h"

#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/testing/configurations.h"
#include "server/core/testing/shard_bench.h"

namespace paramd {
namespace {

using ::paramd::testing::Pair;
using ::paramd::testing::ShardBench;

v1::Refusal::Reason Reason(const absl::Status& status) {
  return RefusalOf(status).reason();
}

// The gate of a server that has been configured.
class SessionGateTest : public ::testing::Test {
 protected:
  SessionGateTest() {
    gate_.HearTerm(1);
    gate_.Accept(bench_.configuration);
  }

  absl::Status Push(const v1::Header& header, uint32_t worker = 1) {
    return gate_.CheckPusher(PeerId::Worker(worker), header);
  }
  absl::Status Member(const v1::Configuration& told) {
    absl::Status status;
    bench_.Do([&](ShardTurn* turn) { status = gate_.CheckMember(told, turn); });
    return status;
  }
  // The configuration, one newer.
  v1::Configuration Newer() {
    v1::Configuration newer = bench_.configuration;
    *newer.mutable_version() = Pair(1, 2);
    return newer;
  }

  ShardBench bench_;
  SessionGate gate_{bench_.view};
  const v1::Header header_ = ShardBench::PushOf(1).header();
};

TEST_F(SessionGateTest, ASessionOfTheConfigurationMayPush) {
  EXPECT_TRUE(Push(header_).ok());
}

TEST_F(SessionGateTest, NobodyPushesInTheNameOfSomebodyElse) {
  EXPECT_EQ(Reason(Push(header_, /*worker=*/2)), v1::Refusal::NOT_ALLOWED);
}

TEST_F(SessionGateTest, Promise1_AnEarlierGenerationIsFencedAndALaterOneWaits) {
  v1::Header header = header_;
  *header.mutable_generation() = Pair(1, 10);
  EXPECT_EQ(Reason(Push(header)), v1::Refusal::FENCED);
  *header.mutable_generation() = Pair(1, 12);
  EXPECT_EQ(Reason(Push(header)), v1::Refusal::NOT_READY);
}

TEST_F(SessionGateTest, Promise1_FencedGenerationsAreMarkedInTheContent) {
  gate_.FenceSessions(bench_.data.content.get());
  const auto admitted = bench_.data.content->owned().front()->applied().Admit(
      {.worker = 1, .generation = Pair(1, 10), .sequence = 1}, 0);
  EXPECT_EQ(Reason(admitted.status()), v1::Refusal::FENCED);
}

TEST_F(SessionGateTest, NothingBelowTheHighestTermHeardIsObeyed) {
  gate_.HearTerm(3);
  EXPECT_EQ(Reason(gate_.CheckTerm(2)), v1::Refusal::OLD_TERM);
  EXPECT_TRUE(gate_.CheckTerm(3).ok());
}

TEST_F(SessionGateTest, Promise1_NoPushIsLetInBetweenRecallAndConfiguration) {
  gate_.HearTerm(2);
  EXPECT_EQ(Reason(Push(header_)), v1::Refusal::NOT_READY);
}

TEST_F(SessionGateTest, Promise1_ASessionPushesWhenItHasToldTheNewCoordinator) {
  v1::Configuration taken_over = bench_.configuration;
  *taken_over.mutable_version() = Pair(2, 1);
  gate_.HearTerm(2);
  gate_.Accept(taken_over);
  EXPECT_EQ(Reason(Push(header_)), v1::Refusal::NOT_READY);
  v1::Header told = header_;
  told.set_term(2);
  EXPECT_TRUE(Push(told).ok());
}

TEST_F(SessionGateTest, Promise1_WhatWasSentToAnEarlierLifeIsNotLetIn) {
  v1::Configuration reborn = Newer();
  *reborn.mutable_servers(0)->mutable_generation() = Pair(1, 5);
  gate_.Accept(reborn);
  v1::Header header = header_;
  *header.mutable_server_generation() = Pair(1, 1);
  EXPECT_EQ(Reason(Push(header)), v1::Refusal::NOT_READY);
  *header.mutable_server_generation() = Pair(1, 5);
  EXPECT_TRUE(Push(header).ok());
}

TEST_F(SessionGateTest, NobodyPushesBehindTheSnapshotThatItLeavesWith) {
  bench_.drained_by = Pair(1, 4);
  EXPECT_EQ(Reason(Push(header_)), v1::Refusal::NOT_READY);
}

TEST_F(SessionGateTest, NobodyPushesIntoContentThatIsNotThere) {
  for (const FillState state :
       {FillState::kNone, FillState::kFilling, FillState::kFailed}) {
    bench_.fill_state = state;
    bench_.fill_failure = absl::DataLossError("truncated file");
    EXPECT_EQ(Reason(Push(header_)), v1::Refusal::NOT_READY);
  }
  EXPECT_EQ(Push(header_).message(), "truncated file");
}

TEST_F(SessionGateTest, WhenTheJobHasFinishedNobodyIsLetIn) {
  bench_.finished = true;
  EXPECT_EQ(Reason(Push(header_)), v1::Refusal::JOB_FINISHED);
}

TEST_F(SessionGateTest, AStampFarBeyondTheNewestSnapshotWaits) {
  const uint64_t most = SessionGate::kMostSnapshotsAhead;
  EXPECT_TRUE(gate_.CheckSnapshot(Pair(1, most)).ok());
  EXPECT_EQ(Reason(gate_.CheckSnapshot(Pair(1, most + 1))),
            v1::Refusal::NOT_READY);
  bench_.data.content->fork().Hear(Pair(1, 1));
  EXPECT_TRUE(gate_.CheckSnapshot(Pair(1, most + 1)).ok());
}

TEST_F(SessionGateTest, ACallForAnotherProcessIsRefusedOnceItIsConfigured) {
  v1::Header header;
  header.set_server_incarnation(7);
  EXPECT_EQ(Reason(gate_.CheckProcess(header)), v1::Refusal::NOT_READY);
  EXPECT_TRUE(SessionGate(bench_.view).CheckProcess(header).ok());
}

TEST_F(SessionGateTest, AnotherRunAndOtherSettingsAreRefused) {
  EXPECT_TRUE(gate_.CheckRun("run", "digest").ok());
  EXPECT_EQ(Reason(gate_.CheckRun("other", "digest")), v1::Refusal::OTHER_JOB);
  EXPECT_EQ(Reason(gate_.CheckRun("run", "other")), v1::Refusal::OTHER_JOB);
}

TEST_F(SessionGateTest, AConfigurationIsRepeatedWithTheSameContent) {
  EXPECT_TRUE(gate_.CheckRepeated(bench_.configuration).ok());
  v1::Configuration other = bench_.configuration;
  other.set_seed(8);
  EXPECT_EQ(Reason(gate_.CheckRepeated(other)), v1::Refusal::INVALID);
}

TEST_F(SessionGateTest, AServerWhosePlaceIsTakenEnds) {
  v1::Configuration told = Newer();
  EXPECT_TRUE(Member(told).ok());
  told.mutable_servers(0)->set_incarnation(101);
  EXPECT_EQ(Reason(Member(told)), v1::Refusal::INVALID) << "no new generation";
  EXPECT_FALSE(bench_.out.exited);
  *told.mutable_servers(0)->mutable_generation() = Pair(1, 5);
  EXPECT_EQ(Reason(Member(told)), v1::Refusal::FENCED);
  EXPECT_TRUE(absl::IsAborted(bench_.out.exit_status));
}

}  // namespace
}  // namespace paramd
