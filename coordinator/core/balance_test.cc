#include "coordinator/core/balance.h"

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
#include "proto/running_setting.h"

namespace paramd {
namespace {

using ::paramd::testing::JobOptions;
using ::paramd::testing::NoSnapshotCalls;
using ::paramd::testing::PartBench;
using ::testing::HasSubstr;

constexpr uint32_t kBalancedPs = 3;

CoordinatorOptions BalancedJob() {
  CoordinatorOptions options = JobOptions();
  options.servers = kBalancedPs;
  options.places = ScalablePlacesOf(kBalancedPs, /*shards=*/1);
  options.job.set_rebalance(true);
  // Nobody is watched while time passes here.
  options.job.set_lease_ms(36000000);
  return options;
}

v1::Move MoveOf(uint32_t server, uint32_t home, uint32_t away,
                v1::Move::State state) {
  v1::Move move;
  move.set_state(state);
  move.set_server(server);
  move.set_home(home);
  move.set_away(away);
  move.set_ps(kBalancedPs);
  move.set_servers(kBalancedPs);
  return move;
}

// Three ps, processes 100 to 102, with a server each: server s has place
// 3 t + s in ps t. Each is at home, and its backup, which has everything, in
// the next ps.
class BalanceTest : public ::testing::Test {
 protected:
  BalanceTest() {
    for (uint32_t s = 0; s < kBalancedPs; ++s) {
      bench_.servers[s].incarnation = 100 + s;
      bench_.servers[s].peer = kBalancedPs * s + s;
    }
    bench_.configuration.SetServers(bench_.servers);
    for (uint32_t peer = 0; peer < kBalancedPs * kBalancedPs; ++peer) {
      Watched(peer, absl::OkStatus());
      busy_[peer] = 0.1;
    }
    Recall();
    for (uint32_t s = 0; s < kBalancedPs; ++s) {
      BeAt(s, s, (s + 1) % kBalancedPs);
    }
    present_.tasks = kBalancedPs;
    present_.may_begin = present_.may_move = true;
  }

  // Places that are to hold a backup say who is there.
  void Recall() {
    bench_.Do([&](Turn* turn) { replicas_.Advance(false, turn); });
    for (const Outbox::SendItem& sent : std::exchange(bench_.out.sends, {})) {
      if (dynamic_cast<const v1::RecallRequest*>(sent.head.get()) == nullptr) {
        continue;
      }
      v1::RecallReply reply;
      reply.set_incarnation(100 + sent.to.index / kBalancedPs);
      Message recalled;
      recalled.is_reply = true;
      recalled.call = sent.call;
      recalled.head = &reply;
      bench_.Do([&](Turn* turn) {
        replicas_.OnReply(sent.to.index % kBalancedPs, recalled, turn);
      });
    }
  }
  void BeAt(uint32_t server, uint32_t task, uint32_t backup_task) {
    ServerRecord& record = bench_.servers[server];
    record.peer = kBalancedPs * task + server;
    record.incarnation = 100 + task;
    v1::Backup& backup = record.backup.emplace();
    backup.set_peer(kBalancedPs * backup_task + server);
    backup.set_incarnation(100 + backup_task);
    backup.mutable_since()->set_term(1);
    backup.mutable_since()->set_counter(7);
    backup.set_member(true);
    bench_.configuration.SetServers(bench_.servers);
  }
  // The process at `peer` answers the coordinator, or does not.
  void Watched(uint32_t peer, absl::Status status) {
    bench_.now = bench_.now + PlaceWatch::kEverySpare;
    bench_.Do([&](Turn* turn) { watch_.Advance(turn); });
    for (const Outbox::SendItem& sent : bench_.out.sends) {
      calls_[sent.to.index] = sent.call;
    }
    v1::WatchReply reply;
    reply.set_incarnation(100 + peer / kBalancedPs);
    Message message;
    message.from = PeerId::Ps(peer);
    message.is_reply = true;
    message.call = calls_.at(peer);
    message.status = std::move(status);
    if (message.status.ok()) message.head = &reply;
    bench_.Do([&](Turn* turn) { watch_.OnReply(message, *turn); });
  }
  void Gone(uint32_t task) {
    absl::Status ended = absl::UnavailableError("connection refused");
    MarkEnded(&ended);
    for (uint32_t s = 0; s < kBalancedPs; ++s) {
      Watched(kBalancedPs * task + s, ended);
    }
  }
  void Advance() {
    for (ServerRecord& server : bench_.servers) server.heard = bench_.now;
    bench_.Do([&](Turn* turn) { balance_.Advance(present_, turn); });
    for (Outbox::IoItem& io : bench_.out.ios) {
      appended_.emplace_back(
          io.io, static_cast<const v1::AppendLog&>(*io.head).entry());
    }
  }
  // Everybody says once a second what it has spent.
  void Pass(absl::Duration time) {
    for (const Time end = bench_.now + time; bench_.now < end;) {
      bench_.now = bench_.now + absl::Seconds(1);
      for (auto& [peer, busy] : busy_) {
        spent_us_[peer] += static_cast<uint64_t>(1e6 * busy);
        v1::ConfigureReply reply;
        reply.set_incarnation(100 + peer / kBalancedPs);
        reply.set_processor_us(spent_us_[peer]);
        balance_.OnConfigured(peer, reply, bench_.now);
      }
      Advance();
    }
  }
  // The oldest entry is in the log.
  v1::Move Logged() {
    EXPECT_FALSE(appended_.empty());
    if (appended_.empty()) return {};
    const auto [io, entry] = appended_.front();
    appended_.erase(appended_.begin());
    bench_.End(io, absl::OkStatus(), v1::AppendLog());
    return entry.move();
  }
  // What is in the log from before.
  void Read(const std::vector<v1::Move>& moves) {
    for (const v1::Move& move : moves) balance_.Read(move);
    bench_.Do([&](Turn* turn) { balance_.OnLogRead(*turn); });
  }
  // ps-0 is the hottest: to have the backup of server 2 in ps-1 helps most.
  void HeatPs0() {
    busy_[0] = 0.6;
    busy_[2] = 0.4;
  }
  v1::Balance Status() {
    v1::JobStats status;
    balance_.FillStatus(bench_.now, &status);
    return status.balance();
  }

  PartBench bench_{BalancedJob()};
  NoSnapshotCalls snapshots_;
  std::map<uint32_t, CallId> calls_;
  std::map<uint32_t, double> busy_;
  std::map<uint32_t, uint64_t> spent_us_;
  std::vector<std::pair<IoId, v1::LogEntry>> appended_;
  PlaceWatch watch_{bench_.options};
  Replicas replicas_{bench_.options, snapshots_, &watch_};
  Balance balance_{bench_.options, &watch_, &replicas_};
  Balance::Present present_;
};

TEST_F(BalanceTest, WhereAllCarryTheSameNobodyIsMoved) {
  Pass(absl::Minutes(5));
  EXPECT_TRUE(appended_.empty());
  ASSERT_EQ(Status().processors_size(), 3);
  EXPECT_NEAR(Status().processors(0), 0.2, 1e-6);
  EXPECT_EQ(Status().hot(), "");
}

TEST_F(BalanceTest, WhatTheHottestCarriesTooMuchIsMovedAfterAMinute) {
  HeatPs0();
  Pass(absl::Seconds(59));
  EXPECT_TRUE(appended_.empty());
  Pass(absl::Seconds(5));
  ASSERT_EQ(appended_.size(), 1u);
  EXPECT_FALSE(Status().has_moving()) << "the log does not have it";
  const v1::Move begun = Logged();
  EXPECT_EQ(begun.state(), v1::Move::BEGUN);
  EXPECT_EQ(begun.server(), 2u);
  EXPECT_EQ(begun.home(), 2u);
  EXPECT_EQ(begun.away(), 1u);
  EXPECT_EQ(begun.ps(), 3u);
  EXPECT_EQ(begun.servers(), 3u);
  EXPECT_EQ(begun.what(), "the backup of server 2 from ps-0 to ps-1");
  EXPECT_EQ(begun.why(),
            "ps-0 spends 1.00 processors and ps-1 0.20; then about 0.60 and "
            "0.60");
  Advance();
  EXPECT_EQ(Status().moving().what(), begun.what());
  EXPECT_EQ(Status().waiting_for(), "its new place to be filled");
  EXPECT_TRUE(appended_.empty());
  // It is there.
  BeAt(2, 2, 1);
  Advance();
  EXPECT_EQ(Logged().state(), v1::Move::DONE);
  EXPECT_FALSE(Status().has_moving());
  EXPECT_EQ(Status().moves(), 1u);
  ASSERT_EQ(Status().moved_size(), 1);
  EXPECT_EQ(Status().moved(0).what(), begun.what());
  EXPECT_EQ(Status().moved(0).failure(), "");
  EXPECT_EQ(balance_.PlacesOf(2, 3).away, 5u);
  EXPECT_EQ(balance_.PlacesOf(1, 3).away, 7u);
  // Of another number of ps that says nothing.
  EXPECT_EQ(balance_.PlacesOf(2, 2).home, 2u);
}

TEST_F(BalanceTest, NoBackupIsGivenUpBeforeTheLogHasTheMove) {
  HeatPs0();
  Pass(absl::Seconds(64));
  ASSERT_EQ(appended_.size(), 1u);
  const auto drops = [this] {
    for (ServerRecord& server : bench_.servers) server.heard = bench_.now;
    bench_.Do([&](Turn* turn) { replicas_.Advance(false, turn); });
    for (const Outbox::IoItem& io : bench_.out.ios) {
      const auto& entry = static_cast<const v1::AppendLog&>(*io.head).entry();
      if (entry.replicas().index() == 2 && !entry.replicas().has_backup()) {
        return true;
      }
    }
    return false;
  };
  EXPECT_FALSE(drops());
  Logged();
  Advance();
  EXPECT_TRUE(drops());
}

TEST_F(BalanceTest, OneThatWasMovedStaysForAWhileAndAnotherOneGoes) {
  Read({MoveOf(2, 2, 0, v1::Move::DONE)});
  HeatPs0();
  Pass(absl::Seconds(64));
  EXPECT_EQ(Logged().server(), 0u);
}

TEST_F(BalanceTest, WhereAllHaveBeenMovedNobodyIsForTenMinutes) {
  Read({MoveOf(0, 0, 1, v1::Move::DONE), MoveOf(1, 1, 2, v1::Move::DONE),
        MoveOf(2, 2, 0, v1::Move::GIVEN_UP)});
  HeatPs0();
  Pass(absl::Minutes(9.5));
  EXPECT_TRUE(appended_.empty());
  EXPECT_EQ(Status().hot(), "") << "a move would help, later";
  Pass(absl::Minutes(3));
  EXPECT_EQ(appended_.size(), 1u) << "and one alone";
}

TEST_F(BalanceTest, AServerThatIsHotAloneIsNamedAndNotMoved) {
  busy_[0] = 2;
  Pass(absl::Minutes(5));
  EXPECT_TRUE(appended_.empty());
  EXPECT_THAT(Status().hot(), HasSubstr("server 0 alone is 80% of all load"));
  busy_[0] = 0.1;
  Pass(absl::Minutes(3));
  EXPECT_EQ(Status().hot(), "");
}

TEST_F(BalanceTest, WhereOneHasNoBackupNobodyIsMoved) {
  HeatPs0();
  bench_.servers[1].backup->set_member(false);
  Pass(absl::Minutes(5));
  EXPECT_TRUE(appended_.empty());
  bench_.servers[1].backup->set_member(true);
  Pass(absl::Seconds(59));
  EXPECT_TRUE(appended_.empty()) << "a minute begins anew";
  Pass(absl::Seconds(5));
  EXPECT_EQ(appended_.size(), 1u);
}

TEST_F(BalanceTest, APsThatIsNotThereKeepsAllWhereTheyAre) {
  HeatPs0();
  Gone(2);
  Pass(absl::Minutes(5));
  EXPECT_TRUE(appended_.empty());
}

TEST_F(BalanceTest, WhatElseIsUnderWayBeginsTheMinuteAnew) {
  HeatPs0();
  Pass(absl::Seconds(50));
  present_.may_begin = false;
  Advance();
  present_.may_begin = true;
  Pass(absl::Seconds(50));
  EXPECT_TRUE(appended_.empty());
  present_.is_scaling = true;
  Pass(absl::Minutes(5));
  EXPECT_TRUE(appended_.empty());
}

TEST_F(BalanceTest, ACheckpointPutsAMoveOffAndDoesNotBeginTheMinuteAnew) {
  HeatPs0();
  Pass(absl::Seconds(50));
  present_.is_saving = true;
  Pass(absl::Seconds(30));
  EXPECT_TRUE(appended_.empty());
  present_.is_saving = false;
  Pass(absl::Seconds(2));
  EXPECT_EQ(Logged().state(), v1::Move::BEGUN);
}

TEST_F(BalanceTest, WhatWasMeasuredIsSaidNoMoreWhenItIsOfOtherPsOrOff) {
  const auto is_hot = [this] {
    busy_[0] = 2;
    Pass(absl::Minutes(3));
    return Status().processors_size() == 3 && !Status().hot().empty();
  };
  ASSERT_TRUE(is_hot());
  present_.is_scaling = true;
  Advance();
  EXPECT_EQ(Status().processors_size(), 0);
  EXPECT_EQ(Status().hot(), "");
  present_.is_scaling = false;
  Read({MoveOf(2, 2, 0, v1::Move::DONE)});
  ASSERT_TRUE(is_hot());
  v1::SettingChange set;
  set.set_key("rebalance");
  set.set_value("false");
  SetRunningSetting(set, bench_.configuration.mutable_plan());
  Advance();
  EXPECT_EQ(Status().moved_size(), 1);
  EXPECT_EQ(Status().processors_size(), 0);
  EXPECT_EQ(Status().hot(), "");
}

TEST_F(BalanceTest, WhoDoesNotSayWhatItSpendsIsNotMoved) {
  busy_.clear();
  Pass(absl::Minutes(5));
  EXPECT_TRUE(appended_.empty());
  EXPECT_EQ(Status().processors_size(), 0);
}

TEST_F(BalanceTest, AnotherNumberOfPsTakesThePlaceOfAMove) {
  HeatPs0();
  Pass(absl::Seconds(64));
  Logged();
  EXPECT_TRUE(balance_.IsUnderWay());
  present_.is_scaling = true;
  Advance();
  EXPECT_FALSE(balance_.IsUnderWay());
  EXPECT_TRUE(appended_.empty());
}

TEST_F(BalanceTest, WhereAPsDoesNotComeBackAMoveIsGivenUp) {
  HeatPs0();
  Pass(absl::Seconds(64));
  Logged();
  bench_.servers[2].backup->set_member(false);
  Gone(1);
  Pass(absl::Seconds(20));
  EXPECT_TRUE(appended_.empty());
  EXPECT_EQ(Status().waiting_for(), "ps-1 to be there");
  Pass(absl::Seconds(20));
  const v1::Move given_up = Logged();
  EXPECT_EQ(given_up.state(), v1::Move::GIVEN_UP);
  EXPECT_EQ(given_up.failure(), "ps-1 is not there");
  EXPECT_FALSE(balance_.IsUnderWay());
  EXPECT_EQ(Status().given_up(), 1u);
  EXPECT_EQ(Status().moved(0).failure(), "ps-1 is not there");
  EXPECT_EQ(balance_.PlacesOf(2, 3).away, 2u) << "where it was before";
}

TEST_F(BalanceTest, AChiefThatStoodStillGivesAPsTimeToBeThere) {
  HeatPs0();
  Pass(absl::Seconds(64));
  Logged();
  Gone(1);
  bench_.now = bench_.now + absl::Minutes(2);
  Advance();
  EXPECT_TRUE(appended_.empty()) << "nobody has looked for so long";
  EXPECT_EQ(Status().waiting_for(), "ps-1 to be there");
  Pass(absl::Seconds(20));
  EXPECT_TRUE(appended_.empty());
  Pass(absl::Seconds(20));
  EXPECT_EQ(Logged().state(), v1::Move::GIVEN_UP);
}

TEST_F(BalanceTest, AnOperatorEndsItAtOnceAndBeginsItAnew) {
  HeatPs0();
  Pass(absl::Seconds(64));
  Logged();
  Advance();
  v1::SettingChange set;
  set.set_key("rebalance");
  set.set_value("false");
  SetRunningSetting(set, bench_.configuration.mutable_plan());
  Advance();
  const v1::Move given_up = Logged();
  EXPECT_EQ(given_up.state(), v1::Move::GIVEN_UP);
  EXPECT_EQ(given_up.failure(), "rebalance is false");
  EXPECT_EQ(balance_.PlacesOf(2, 3).away, 2u) << "where it was before";
  Pass(absl::Minutes(20));
  EXPECT_TRUE(appended_.empty());
  set.set_value("true");
  SetRunningSetting(set, bench_.configuration.mutable_plan());
  Pass(absl::Seconds(64));
  EXPECT_EQ(Logged().state(), v1::Move::BEGUN);
}

TEST_F(BalanceTest, WhereAnotherServerHasNoBackupAMoveWaitsForThat) {
  HeatPs0();
  Pass(absl::Seconds(64));
  Logged();
  bench_.servers[1].backup->set_member(false);
  Pass(absl::Minutes(2));
  EXPECT_EQ(Status().waiting_for(), "server 1 to have a backup");
  bench_.Do([&](Turn* turn) { replicas_.Advance(false, turn); });
  EXPECT_TRUE(bench_.out.ios.empty()) << "no backup is dropped";
  bench_.servers[1].backup->set_member(true);
  Advance();
  EXPECT_EQ(Status().waiting_for(), "its new place to be filled");
}

TEST_F(BalanceTest, Promise5_AnotherCoordinatorGoesOnWithAMove) {
  Read({MoveOf(1, 1, 2, v1::Move::DONE), MoveOf(2, 2, 1, v1::Move::BEGUN)});
  EXPECT_TRUE(balance_.IsUnderWay());
  BeAt(2, 2, 1);
  Advance();
  EXPECT_EQ(Logged().state(), v1::Move::DONE);
  EXPECT_FALSE(balance_.IsUnderWay());
  EXPECT_EQ(balance_.PlacesOf(2, 3).away, 5u);
}

TEST_F(BalanceTest, AMoveThatTheLogHasScaledAwayIsNotGoneOnWith) {
  balance_.Read(MoveOf(2, 2, 1, v1::Move::BEGUN));
  balance_.ReadScale();
  Read({});
  EXPECT_FALSE(balance_.IsUnderWay());
}

TEST_F(BalanceTest, WhatTheLogSaysOfAnotherClusterCountsNoMore) {
  v1::Move of_more = MoveOf(2, 2, 1, v1::Move::DONE);
  of_more.set_servers(6);
  v1::Move beyond = MoveOf(1, 5, 1, v1::Move::DONE);
  v1::Move begun = MoveOf(7, 1, 2, v1::Move::BEGUN);
  Read({of_more, beyond, begun});
  EXPECT_FALSE(balance_.IsUnderWay());
  EXPECT_EQ(balance_.PlacesOf(2, 3).away, 2u);
  EXPECT_EQ(balance_.PlacesOf(1, 3).home, 4u);
}

TEST(BalanceOffTest, WithoutTheSettingNobodyIsMovedAndNothingIsSaid) {
  CoordinatorOptions options = BalancedJob();
  options.job.set_rebalance(false);
  PartBench bench(options);
  NoSnapshotCalls snapshots;
  PlaceWatch watch(options);
  Replicas replicas(options, snapshots, &watch);
  Balance balance(options, &watch, &replicas);
  Balance::Present present{.tasks = kBalancedPs};
  present.may_begin = present.may_move = true;
  for (int i = 0; i < 200; ++i) {
    bench.now = bench.now + absl::Seconds(1);
    bench.Do([&](Turn* turn) { balance.Advance(present, turn); });
    EXPECT_TRUE(bench.out.ios.empty());
  }
  v1::JobStats status;
  balance.FillStatus(bench.now, &status);
  EXPECT_FALSE(status.has_balance());
}

}  // namespace
}  // namespace paramd
