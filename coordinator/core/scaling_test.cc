#include "coordinator/core/scaling.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

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
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kTasks = 3;

CoordinatorOptions ScalableJob() {
  CoordinatorOptions options = JobOptions();
  options.servers = kTasks;
  options.places = ScalablePlacesOf(kTasks, /*shards=*/1);
  // Each that is asked takes a second here.
  options.job.set_lease_ms(3600000);
  return options;
}

// Three ps, processes 100 to 102, with a server each: server s has place
// 3 t + s in ps t. Each is at home, and its backup, which has everything, in
// the next ps.
class ScalingTest : public ::testing::Test {
 protected:
  ScalingTest() {
    for (uint32_t s = 0; s < kTasks; ++s) {
      bench_.servers[s].incarnation = 100 + s;
      bench_.servers[s].peer = kTasks * s + s;
    }
    bench_.configuration.SetServers(bench_.servers);
    for (uint32_t peer = 0; peer < kTasks * kTasks; ++peer) {
      Watched(peer, 100 + peer / kTasks);
    }
    scaling_.OnLogRead(bench_.job);
    Recall();
    for (uint32_t s = 0; s < kTasks; ++s) BeAt(s, s, (s + 1) % kTasks);
  }

  // Places that are to hold a backup say who is there.
  void Recall() {
    bench_.Do([&](Turn* turn) { replicas_.Advance(false, turn); });
    for (const Outbox::SendItem& sent : std::exchange(bench_.out.sends, {})) {
      if (dynamic_cast<const v1::RecallRequest*>(sent.head.get()) == nullptr) {
        continue;
      }
      v1::RecallReply reply;
      reply.set_incarnation(100 + sent.to.index / kTasks);
      Message recalled;
      recalled.is_reply = true;
      recalled.call = sent.call;
      recalled.head = &reply;
      bench_.Do([&](Turn* turn) {
        replicas_.OnReply(sent.to.index % kTasks, recalled, turn);
      });
    }
  }
  // The server is in this ps, and its backup in that one.
  void BeAt(uint32_t server, uint32_t task, uint32_t backup_task) {
    ServerRecord& record = bench_.servers[server];
    record.peer = kTasks * task + server;
    record.incarnation = 100 + task;
    v1::Backup& backup = record.backup.emplace();
    backup.set_peer(kTasks * backup_task + server);
    backup.set_incarnation(100 + backup_task);
    backup.mutable_since()->set_term(1);
    backup.mutable_since()->set_counter(7);
    backup.set_member(true);
    bench_.configuration.SetServers(bench_.servers);
  }
  // As where the first two ps hold everything.
  void BeOnTwo(uint32_t server) {
    bench_.servers[server].backup.reset();
    const ServerPlaces places = PlacesAmong(bench_.options.places, server, 2);
    replicas_.Aim(server, places, /*settles=*/false);
    replicas_.GoOnAt(server, places.home);
    Recall();
    BeAt(server, places.home / kTasks, places.away / kTasks);
  }
  void BeOnTwo() {
    for (uint32_t s = 0; s < kTasks; ++s) BeOnTwo(s);
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
  void Gone(uint32_t task) {
    for (uint32_t s = 0; s < kTasks; ++s) {
      Watch();
      absl::Status ended = absl::UnavailableError("connection refused");
      MarkEnded(&ended);
      Message message;
      message.from = PeerId::Ps(kTasks * task + s);
      message.is_reply = true;
      message.call = calls_.at(kTasks * task + s).call;
      message.status = ended;
      bench_.Do([&](Turn* turn) { watch_.OnReply(message, *turn); });
    }
  }
  void Watch() {
    bench_.now = bench_.now + PlaceWatch::kEverySpare;
    bench_.Do([&](Turn* turn) { watch_.Advance(turn); });
    for (Outbox::SendItem& sent : bench_.out.sends) {
      calls_[sent.to.index] = std::move(sent);
    }
  }
  // What is said in the next call.
  const v1::WatchRequest& Told(uint32_t peer) {
    Watched(peer, 100 + peer / kTasks);
    Watch();
    return static_cast<const v1::WatchRequest&>(*calls_.at(peer).head);
  }
  void Ask(uint32_t servers, uint64_t nonce, const std::string& obstacle = "") {
    v1::ScaleRequest request;
    request.set_servers(servers);
    request.set_nonce(nonce);
    request.mutable_origin()->set_who("uid 1000");
    Message message;
    message.call = ++asked_;
    bench_.Do([&](Turn* turn) {
      scaling_.OnRequest(message, request, obstacle, turn);
      scaling_.Advance(/*may_move=*/true, turn);
    });
    Keep();
  }
  void Advance() {
    for (ServerRecord& server : bench_.servers) server.heard = bench_.now;
    bench_.Do([&](Turn* turn) {
      scaling_.Advance(/*may_move=*/true, turn);
      replicas_.Advance(/*everybody_knows=*/false, turn);
    });
    Keep();
  }
  void Keep() {
    for (Outbox::IoItem& io : bench_.out.ios) {
      appended_.emplace_back(
          io.io, static_cast<const v1::AppendLog&>(*io.head).entry());
    }
  }
  // The oldest entry is in the log.
  v1::LogEntry Logged() {
    EXPECT_FALSE(appended_.empty());
    if (appended_.empty()) return {};
    const auto [io, entry] = appended_.front();
    appended_.erase(appended_.begin());
    bench_.End(io, absl::OkStatus(), v1::AppendLog());
    Keep();
    return entry;
  }
  std::string Refused(uint32_t servers, const std::string& obstacle = "") {
    Ask(servers, ++nonce_, obstacle);
    EXPECT_EQ(bench_.out.replies.size(), 1u);
    if (bench_.out.replies.empty()) return "";
    EXPECT_EQ(RefusalOf(bench_.out.replies[0].status).reason(),
              v1::Refusal::INVALID);
    EXPECT_TRUE(appended_.empty());
    return std::string(bench_.out.replies[0].status.message());
  }
  const v1::ScaleReply* Said() {
    return bench_.out.replies.empty() ? nullptr
                                      : static_cast<const v1::ScaleReply*>(
                                            bench_.out.replies[0].head.get());
  }
  std::string WaitsFor() {
    v1::JobStats status;
    scaling_.FillStatus(&status);
    return status.scaling().waiting_for();
  }

  PartBench bench_{ScalableJob()};
  NoSnapshotCalls snapshots_;
  std::map<uint32_t, Outbox::SendItem> calls_;
  std::vector<std::pair<IoId, v1::LogEntry>> appended_;
  PlaceWatch watch_{bench_.options};
  Replicas replicas_{bench_.options, snapshots_, &watch_};
  Balance balance_{bench_.options, &watch_, &replicas_};
  Scaling scaling_{bench_.options, balance_, &watch_, &replicas_};
  CallId asked_ = 0;
  uint64_t nonce_ = 1000;
};

TEST_F(ScalingTest, WhatCantBeIsRefusedInASentenceAndNothingIsLogged) {
  EXPECT_EQ(Refused(1),
            "the job can't be scaled: with replication 2 it needs 2 ps or "
            "more, not 1");
  EXPECT_THAT(Refused(0), HasSubstr("needs 2 ps or more, not 0"));
  EXPECT_THAT(Refused(4), HasSubstr("the cluster names 3 ps, not 4"));
  EXPECT_EQ(Refused(2, "ps-1 is being drained"),
            "the job can't be scaled: ps-1 is being drained");
  EXPECT_FALSE(scaling_.IsUnderWay());
}

TEST_F(ScalingTest, BeforeTheJobRunsAndAtItsEndNobodyIsMoved) {
  bench_.awaited = "worker-1";
  bench_.phase = JobPhase::kAdopting;
  Ask(2, 1);
  ASSERT_EQ(bench_.out.replies.size(), 1u);
  EXPECT_EQ(RefusalOf(bench_.out.replies[0].status).reason(),
            v1::Refusal::RETRY);
  bench_.phase = JobPhase::kTellingEnd;
  Ask(2, 1);
  ASSERT_EQ(bench_.out.replies.size(), 1u);
  EXPECT_EQ(RefusalOf(bench_.out.replies[0].status).reason(),
            v1::Refusal::JOB_FINISHED);
}

TEST_F(ScalingTest, TheNumberThatIsThereAlreadyIsAnsweredAtOnce) {
  Ask(3, 1);
  ASSERT_NE(Said(), nullptr);
  EXPECT_TRUE(Said()->done());
  EXPECT_TRUE(appended_.empty());
}

TEST_F(ScalingTest, OneServerIsMovedAtATimeAndNoneBeforeTheLogHasTheNumber) {
  Ask(2, 1);
  Advance();
  ASSERT_EQ(appended_.size(), 1u) << "the number alone";
  EXPECT_TRUE(scaling_.IsUnderWay());
  const v1::LogEntry number = Logged();
  EXPECT_EQ(number.scale().servers(), 2u);
  EXPECT_EQ(number.scale().nonce(), 1u);
  EXPECT_FALSE(number.scale().done());
  EXPECT_EQ(number.origin().who(), "uid 1000");
  Advance();
  // Server 0 is where it belongs. Server 1 loses its backup in ps-2, which is
  // to be in ps-0; that of server 2 is there, but it is not its turn.
  ASSERT_EQ(appended_.size(), 1u);
  EXPECT_EQ(appended_[0].second.replicas().index(), 1u);
  EXPECT_FALSE(appended_[0].second.replicas().has_backup());
  EXPECT_TRUE(IsZero(Told(8).hand_over()));
  EXPECT_EQ(WaitsFor(), "server 1 to be in ps-1, and its backup in ps-0");
}

TEST_F(ScalingTest, WhereItsBackupIsAServerIsHandedOver) {
  BeOnTwo(1);
  Ask(2, 1);
  Logged();
  Advance();
  EXPECT_EQ(WaitsFor(), "server 2 to be in ps-0, and its backup in ps-1");
  EXPECT_EQ(Told(8).hand_over().counter(), 7u);
  EXPECT_FALSE(Told(8).leave()) << "it is the server yet";
  EXPECT_FALSE(Told(8).spare());
}

TEST_F(ScalingTest, ThosePsEndThatHoldNothingAndThenItIsDone) {
  BeOnTwo();
  Ask(2, 1);
  Logged();
  Advance();
  EXPECT_EQ(WaitsFor(), "ps-2 to end");
  for (const uint32_t peer : {6, 7, 8}) EXPECT_TRUE(Told(peer).leave());
  for (const uint32_t peer : {0, 4}) EXPECT_FALSE(Told(peer).leave());
  // Who asks is not kept waiting.
  bench_.now = bench_.now + absl::Seconds(2);
  Advance();
  ASSERT_NE(Said(), nullptr);
  EXPECT_FALSE(Said()->done());
  EXPECT_EQ(Said()->waiting_for(), "ps-2 to end");
  Gone(2);
  Ask(2, 1);
  EXPECT_EQ(Said(), nullptr) << "the log does not have it";
  const v1::LogEntry done = Logged();
  EXPECT_EQ(done.scale().servers(), 2u);
  EXPECT_TRUE(done.scale().done());
  Advance();
  ASSERT_NE(Said(), nullptr);
  EXPECT_TRUE(Said()->done());
  // It comes back, and stays.
  Watched(6, 300);
  Advance();
  Watched(6, 300);
  Watch();
  EXPECT_FALSE(
      static_cast<const v1::WatchRequest&>(*calls_.at(6).head).leave());
  EXPECT_FALSE(scaling_.IsUnderWay());
}

TEST_F(ScalingTest, APsThatIsNotThereIsNamedAndNobodyIsMovedToIt) {
  BeOnTwo();
  v1::Scale two;
  two.set_servers(2);
  two.set_done(true);
  scaling_.Read(two);
  scaling_.OnLogRead(bench_.job);
  Gone(2);
  Ask(3, 1);
  Logged();
  Advance();
  EXPECT_EQ(WaitsFor(), "ps-2 to be there");
  EXPECT_TRUE(appended_.empty());
}

TEST_F(ScalingTest, AnotherNumberTakesThePlaceOfTheOneUnderWay) {
  Ask(2, 1);
  Logged();
  Advance();
  Logged();  // What it began.
  Ask(3, 2);
  const v1::LogEntry back = Logged();
  EXPECT_EQ(back.scale().servers(), 0u) << "all";
  // Whoever asked first asks again.
  Ask(2, 1);
  ASSERT_FALSE(bench_.out.replies.empty());
  std::vector<std::string> refused;
  for (const Outbox::ReplyItem& reply : bench_.out.replies) {
    if (!reply.status.ok()) {
      refused.emplace_back(reply.status.message());
    }
  }
  EXPECT_THAT(refused,
              ElementsAre("the job can't be scaled: somebody else has scaled "
                          "it to 3 ps meanwhile"));
}

TEST_F(ScalingTest, Promise5_AnotherCoordinatorGoesOnWithTheNumber) {
  v1::Scale two;
  two.set_servers(2);
  scaling_.Read(two);
  scaling_.OnLogRead(bench_.job);
  EXPECT_TRUE(scaling_.IsUnderWay());
  EXPECT_EQ(scaling_.servers(), 2u);
  two.set_done(true);
  scaling_.Read(two);
  EXPECT_FALSE(scaling_.IsUnderWay());
}

TEST_F(ScalingTest, WhatOthersHaveReplacedAnotherCoordinatorDoesNotBegin) {
  v1::Scale logged;
  logged.set_servers(2);
  logged.set_nonce(1);
  scaling_.Read(logged);
  logged.set_servers(0);
  logged.set_nonce(2);
  scaling_.Read(logged);
  logged.set_done(true);
  scaling_.Read(logged);
  scaling_.OnLogRead(bench_.job);
  Ask(2, 1);
  ASSERT_EQ(bench_.out.replies.size(), 1u);
  EXPECT_EQ(bench_.out.replies[0].status.message(),
            "the job can't be scaled: somebody else has scaled it to 3 ps "
            "meanwhile");
  EXPECT_TRUE(appended_.empty());
}

TEST_F(ScalingTest, ANumberThatTheClusterDoesNotHaveAnyMoreIsForgotten) {
  v1::Scale many;
  many.set_servers(5);
  scaling_.Read(many);
  scaling_.OnLogRead(bench_.job);
  EXPECT_FALSE(scaling_.IsUnderWay());
  EXPECT_EQ(scaling_.servers(), 3u);
}

TEST_F(ScalingTest, WhatWasScaledToAllOfItsPsGoesOnWithAllThatItHasNow) {
  v1::Scale all;
  all.set_servers(0);
  all.set_done(true);
  scaling_.Read(all);
  scaling_.OnLogRead(bench_.job);
  EXPECT_FALSE(scaling_.IsUnderWay());
  EXPECT_EQ(scaling_.servers(), 3u);
}

TEST_F(ScalingTest, WithServersBehindTheNumberItIsNotReached) {
  // As where a later start names more ps: server 2 begins in ps-2.
  v1::Scale two;
  two.set_servers(2);
  two.set_done(true);
  scaling_.Read(two);
  scaling_.OnLogRead(bench_.job);
  EXPECT_TRUE(scaling_.IsUnderWay());
  Ask(2, 1);
  EXPECT_EQ(Said(), nullptr) << "it is not done";
  BeOnTwo();
  scaling_.Read(two);
  scaling_.OnLogRead(bench_.job);
  EXPECT_FALSE(scaling_.IsUnderWay());
}

TEST_F(ScalingTest, NoBackupIsGivenUpForAPsThatSaysNothing) {
  BeOnTwo();
  v1::Scale two;
  two.set_servers(2);
  two.set_done(true);
  scaling_.Read(two);
  scaling_.OnLogRead(bench_.job);
  bench_.now = bench_.now + absl::Hours(2);
  for (const uint32_t peer : {0, 1, 2, 3, 4, 5}) {
    Watched(peer, 100 + peer / kTasks);
  }
  Ask(3, 1);
  Logged();
  Advance();
  EXPECT_EQ(WaitsFor(), "ps-2 to be there");
  EXPECT_TRUE(appended_.empty()) << "no backup is dropped";
  Watched(7, 102);
  Advance();
  EXPECT_EQ(appended_.size(), 1u);
}

TEST_F(ScalingTest, WhoIsNeededAgainIsNotToldToEnd) {
  BeOnTwo();
  Ask(2, 1);
  Logged();
  Advance();
  EXPECT_TRUE(Told(6).leave());
  Ask(3, 2);
  Logged();
  for (const uint32_t peer : {6, 7, 8}) EXPECT_FALSE(Told(peer).leave());
}

TEST_F(ScalingTest, APsOfWhichOnePlaceLeavesLeavesWithAllItsPlaces) {
  BeOnTwo();
  Ask(2, 1);
  Logged();
  Advance();
  EXPECT_TRUE(Told(6).leave());
  Watched(6, 102, /*leaving=*/true);
  Ask(3, 2);
  Logged();
  Advance();
  for (const uint32_t peer : {7, 8}) EXPECT_TRUE(Told(peer).leave());
  EXPECT_EQ(WaitsFor(), "ps-2 to be there");
  Gone(2);
  for (const uint32_t peer : {6, 7, 8}) Watched(peer, 300);
  Watch();
  EXPECT_FALSE(
      static_cast<const v1::WatchRequest&>(*calls_.at(7).head).leave());
}

TEST_F(ScalingTest, WhoAskedForTheSameDoesNotBeginItAgain) {
  Ask(2, 1);
  Logged();
  Ask(2, 2);
  Ask(3, 3);
  Logged();
  Ask(2, 2);
  std::vector<std::string> refused;
  for (const Outbox::ReplyItem& reply : bench_.out.replies) {
    if (!reply.status.ok()) refused.emplace_back(reply.status.message());
  }
  EXPECT_THAT(refused,
              ElementsAre("the job can't be scaled: somebody else has scaled "
                          "it to 3 ps meanwhile"));
}

TEST_F(ScalingTest, APsWhoseMachineIsGoneIsNotWaitedForForEver) {
  BeOnTwo();
  Ask(2, 1);
  Logged();
  Advance();
  EXPECT_EQ(WaitsFor(), "ps-2 to end");
  EXPECT_TRUE(appended_.empty());
  bench_.now = bench_.now + absl::Hours(2);
  Advance();
  EXPECT_TRUE(Logged().scale().done());
}

std::string RefusedBy(CoordinatorOptions options) {
  PartBench bench{std::move(options)};
  const NoSnapshotCalls snapshots;
  PlaceWatch watch(bench.options);
  Replicas replicas(bench.options, snapshots, &watch);
  const Balance balance(bench.options, &watch, &replicas);
  Scaling scaling(bench.options, balance, &watch, &replicas);
  scaling.OnLogRead(bench.job);
  v1::ScaleRequest request;
  request.set_servers(2);
  request.set_nonce(1);
  bench.Do(
      [&](Turn* turn) { scaling.OnRequest(Message(), request, "", turn); });
  EXPECT_EQ(bench.out.replies.size(), 1u);
  return bench.out.replies.empty()
             ? ""
             : std::string(bench.out.replies[0].status.message());
}

TEST(NoScalingTest, WhatAJobWasNotStartedForItDoesNotDo) {
  EXPECT_THAT(RefusedBy(JobOptions()),
              HasSubstr("with replication 1 nobody has what a ps holds"));
  CoordinatorOptions fixed = JobOptions();
  fixed.servers = kTasks;
  fixed.places = PlacesOf(kTasks, /*shards=*/1);
  EXPECT_THAT(RefusedBy(std::move(fixed)),
              HasSubstr("it was started without scalable"));
  CoordinatorOptions mirrored = JobOptions();
  mirrored.job.set_strategy(v1::JobConfig::MIRRORED);
  EXPECT_THAT(RefusedBy(std::move(mirrored)),
              HasSubstr("strategy \"mirrored\" has no servers"));
}

}  // namespace
}  // namespace paramd
