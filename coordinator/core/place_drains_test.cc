#include "coordinator/core/place_drains.h"

#include <map>
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

using ::paramd::testing::JobOptions;
using ::paramd::testing::NoSnapshotCalls;
using ::paramd::testing::PartBench;
using ::paramd::testing::ReplicatedJob;
using ::testing::HasSubstr;

// Two ps, processes 100 and 101, each with a server at home, in places 0 and 2,
// and the other one's backup, in 1 and 3.
class PlaceDrainsTest : public ::testing::Test {
 protected:
  PlaceDrainsTest() {
    for (uint32_t s = 0; s < 2; ++s) {
      ServerRecord& server = bench_.servers[s];
      server.peer = 2 * s;
      server.incarnation = 100 + s;
    }
    bench_.configuration.SetServers(bench_.servers);
    for (const uint32_t peer : {0, 1, 2, 3}) Watched(peer, 100 + peer / 2);
  }

  void Watch() {
    bench_.now = bench_.now + PlaceWatch::kEvery;
    bench_.Do([&](Turn* turn) { watch_.Advance(turn); });
    for (Outbox::SendItem& sent : bench_.out.sends) {
      calls_[sent.to.index] = std::move(sent);
    }
  }
  // The process at `peer` answers the coordinator.
  void Watched(uint32_t peer, uint64_t process, bool leaving = false) {
    Watch();
    v1::WatchReply reply;
    reply.set_incarnation(process);
    reply.set_leaving(leaving);
    Message message;
    message.from = PeerId::Ps(peer);
    message.is_reply = true;
    message.call = calls_.at(peer).call;
    message.head = &reply;
    bench_.Do([&](Turn* turn) { watch_.OnReply(message, *turn); });
  }
  const v1::WatchRequest& Told(uint32_t peer) {
    Watch();
    return static_cast<const v1::WatchRequest&>(*calls_.at(peer).head);
  }
  // Both servers have a backup that has everything.
  void MakeMembers() {
    bench_.Do([&](Turn* turn) { replicas_.Advance(false, turn); });
    std::map<uint32_t, CallId> recalls;
    for (const Outbox::SendItem& sent : bench_.out.sends) {
      recalls[*replicas_.ServerAt(sent.to.index)] = sent.call;
    }
    for (uint32_t s = 0; s < 2; ++s) {
      v1::RecallReply reply;
      reply.set_incarnation(101 - s);
      Message recalled;
      recalled.is_reply = true;
      recalled.call = recalls.at(s);
      recalled.head = &reply;
      bench_.Do([&](Turn* turn) { replicas_.OnReply(s, recalled, turn); });
      v1::Backup& backup = bench_.servers[s].backup.emplace();
      backup.set_peer(s == 0 ? 3 : 1);
      backup.set_incarnation(101 - s);
      backup.mutable_since()->set_term(1);
      backup.set_member(true);
    }
  }
  CallId Ask(uint32_t ps, uint64_t nonce, bool ends = false) {
    v1::DrainRequest request;
    request.set_ps(ps);
    request.set_nonce(nonce);
    request.mutable_origin()->set_who("uid 1000");
    Message message;
    message.call = ++asked_;
    bench_.Do([&](Turn* turn) {
      drains_.OnRequest(message, request, replicas_, watch_, ends, turn);
      drains_.Advance(&watch_, turn);
    });
    return message.call;
  }
  // Why it is refused.
  std::string Refused(uint32_t ps) {
    Ask(ps, 1);
    EXPECT_EQ(bench_.out.replies.size(), 1u);
    if (bench_.out.replies.empty()) return "";
    EXPECT_EQ(RefusalOf(bench_.out.replies[0].status).reason(),
              v1::Refusal::INVALID);
    return std::string(bench_.out.replies[0].status.message());
  }
  const v1::DrainReply* Said() {
    return bench_.out.replies.empty() ? nullptr
                                      : static_cast<const v1::DrainReply*>(
                                            bench_.out.replies[0].head.get());
  }
  void Advance() {
    bench_.Do([&](Turn* turn) { drains_.Advance(&watch_, turn); });
  }

  PartBench bench_{ReplicatedJob()};
  NoSnapshotCalls snapshots_;
  std::map<uint32_t, Outbox::SendItem> calls_;
  PlaceWatch watch_{bench_.options};
  Replicas replicas_{bench_.options, snapshots_, &watch_};
  PlaceDrains drains_;
  CallId asked_ = 0;
};

TEST_F(PlaceDrainsTest, AProcessIsToldToLeaveAndWhoAskedHearsWhenItMay) {
  MakeMembers();
  const CallId first = Ask(1, 7);
  EXPECT_EQ(Said(), nullptr);
  Watched(2, 101);
  Watched(3, 101);
  Advance();
  EXPECT_TRUE(Told(2).leave());
  EXPECT_TRUE(Told(3).leave());
  EXPECT_FALSE(Told(0).leave());
  // Who asks is not kept waiting.
  bench_.now = bench_.now + absl::Seconds(2);
  Advance();
  ASSERT_NE(Said(), nullptr);
  EXPECT_EQ(bench_.out.replies[0].call, first);
  EXPECT_FALSE(Said()->left());
  EXPECT_EQ(Said()->waiting_for(), "the backup of ps-1 to take over");
  watch_.LetGo(2);
  Ask(1, 7);
  EXPECT_EQ(Said(), nullptr) << "it holds a backup yet";
  watch_.LetGo(3);
  Advance();
  ASSERT_NE(Said(), nullptr);
  EXPECT_TRUE(Said()->left());
  EXPECT_EQ(Said()->waiting_for(), "");
  // The answer may have been lost, and the process be back.
  Watched(2, 300);
  Watched(3, 300);
  Ask(1, 7);
  ASSERT_NE(Said(), nullptr);
  EXPECT_TRUE(Said()->left());
  EXPECT_FALSE(Told(2).leave());
}

TEST_F(PlaceDrainsTest, OneThatLostItsBackupAndEndedIsMissed) {
  MakeMembers();
  Ask(1, 7);
  watch_.LetGo(3);
  Watched(2, 0);
  // It may be taken over yet.
  Advance();
  EXPECT_EQ(Said(), nullptr);
  bench_.servers[1].backup.reset();
  Advance();
  ASSERT_EQ(bench_.out.replies.size(), 1u);
  EXPECT_EQ(RefusalOf(bench_.out.replies[0].status).reason(),
            v1::Refusal::NOT_READY);
  EXPECT_EQ(bench_.out.replies[0].status.message(),
            "ps-1 has ended and is not drained: ps-1 lost its backup "
            "meanwhile; start ps-1 again, the job waits for it");
  // Whoever asks again with the same request hears the same.
  Ask(1, 7);
  EXPECT_FALSE(bench_.out.replies.at(0).status.ok());
}

TEST_F(PlaceDrainsTest, WhoWasKilledIsDrainedWhenItsBackupHasTakenOver) {
  MakeMembers();
  Ask(1, 7);
  watch_.LetGo(3);
  Watched(2, 0);
  Advance();
  EXPECT_EQ(Said(), nullptr);
  bench_.servers[1].peer = 1;
  bench_.servers[1].backup.reset();
  Advance();
  ASSERT_NE(Said(), nullptr);
  EXPECT_TRUE(Said()->left());
}

TEST_F(PlaceDrainsTest, WhoseMachineVanishedIsDrainedWhenNobodyNeedsIt) {
  MakeMembers();
  Ask(1, 7);
  bench_.now = bench_.now + absl::Minutes(1);
  Advance();
  ASSERT_NE(Said(), nullptr);
  EXPECT_FALSE(Said()->left());
  EXPECT_EQ(Said()->waiting_for(), "the backup of ps-1 to take over");
  bench_.servers[1].peer = 1;
  bench_.servers[1].backup.reset();
  Ask(1, 7);
  EXPECT_EQ(Said(), nullptr) << "it holds a backup yet";
  bench_.servers[0].backup.reset();
  Advance();
  ASSERT_NE(Said(), nullptr);
  EXPECT_TRUE(Said()->left());
  EXPECT_EQ(drains_.UnderWay(), "");
}

TEST_F(PlaceDrainsTest, ItIsSaidWhetherABackupMayBeAllThatIsLeft) {
  MakeMembers();
  bench_.servers[1].peer = 1;
  bench_.servers[1].backup.reset();
  Ask(1, 7);
  Watched(3, 101, /*leaving=*/true);
  bench_.now = bench_.now + absl::Seconds(2);
  Advance();
  ASSERT_NE(Said(), nullptr);
  EXPECT_EQ(Said()->waiting_for(),
            "ps-0 to answer, or its backup there to take over");
  Watched(0, 100);
  Watched(0, 100);
  Ask(1, 7);
  bench_.now = bench_.now + absl::Seconds(2);
  Advance();
  ASSERT_NE(Said(), nullptr);
  EXPECT_EQ(Said()->waiting_for(), "the log to drop ps-0's backup there");
}

TEST_F(PlaceDrainsTest, WhatCantBeHandedOverIsNotDrained) {
  EXPECT_EQ(Refused(0), "ps-0 can't be drained now: ps-0 has no backup");
  bench_.servers[0].backup.emplace().mutable_since()->set_term(1);
  EXPECT_EQ(Refused(0),
            "ps-0 can't be drained now: the backup of ps-0 does not hold "
            "everything yet");
  EXPECT_EQ(Refused(2), "the job has no ps-2; its last one is ps-1");
  EXPECT_FALSE(Told(0).leave());
}

TEST_F(PlaceDrainsTest, TheLastOneIsNotDrainedNorOneThatIsNotThere) {
  MakeMembers();
  absl::Status ended = absl::UnavailableError("connection refused");
  MarkEnded(&ended);
  Watch();
  for (const uint32_t peer : {2, 3}) {
    Message message;
    message.from = PeerId::Ps(peer);
    message.is_reply = true;
    message.call = calls_.at(peer).call;
    message.status = ended;
    bench_.Do([&](Turn* turn) { watch_.OnReply(message, *turn); });
  }
  EXPECT_EQ(Refused(0), "ps-0 can't be drained: no other ps is there");
  EXPECT_EQ(Refused(1), "ps-1 is not there: nothing has to be drained");
}

TEST_F(PlaceDrainsTest, NobodyIsDrainedBeforeTheJobRunsOrWhenItEnds) {
  MakeMembers();
  bench_.awaited = "worker-1";
  bench_.phase = JobPhase::kAdopting;
  Ask(0, 1);
  ASSERT_EQ(bench_.out.replies.size(), 1u);
  EXPECT_EQ(RefusalOf(bench_.out.replies[0].status).reason(),
            v1::Refusal::RETRY);
  bench_.phase = JobPhase::kRunning;
  Ask(0, 1, /*ends=*/true);
  ASSERT_EQ(bench_.out.replies.size(), 1u);
  EXPECT_THAT(std::string(bench_.out.replies[0].status.message()),
              HasSubstr("the job is being stopped"));
  bench_.phase = JobPhase::kTellingEnd;
  Ask(0, 1);
  ASSERT_EQ(bench_.out.replies.size(), 1u);
  EXPECT_EQ(RefusalOf(bench_.out.replies[0].status).reason(),
            v1::Refusal::JOB_FINISHED);
}

TEST(NoPlaceDrainsTest, WithoutReplicationNobodyIsDrained) {
  PartBench bench{JobOptions()};
  const NoSnapshotCalls snapshots;
  PlaceWatch watch(bench.options);
  const Replicas replicas(bench.options, snapshots, &watch);
  PlaceDrains drains;
  bench.Do([&](Turn* turn) {
    drains.OnRequest(Message(), v1::DrainRequest(), replicas, watch, false,
                     turn);
  });
  ASSERT_EQ(bench.out.replies.size(), 1u);
  EXPECT_THAT(std::string(bench.out.replies[0].status.message()),
              HasSubstr("with replication 1 nobody has what it holds"));
}

}  // namespace
}  // namespace paramd
