#ifndef PARAMD_SERVER_CORE_TESTING_REPLICATION_BENCH_H_
#define PARAMD_SERVER_CORE_TESTING_REPLICATION_BENCH_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "server/core/shard.h"
#include "server/core/testing/configurations.h"
#include "server/core/testing/shard_driver.h"
#include "tensor/disk_memory.h"

namespace paramd::testing {

inline constexpr uint32_t kHome = 0;
inline constexpr uint32_t kAway = 3;
inline constexpr uint64_t kHomeProcess = 100;
inline constexpr uint64_t kAwayProcess = 200;

inline Shard::Options PlaceOptions(uint32_t peer, uint64_t incarnation) {
  Shard::Options options;
  options.index = 0;
  options.incarnation = incarnation;
  options.life_seed = incarnation;
  options.peer = peer;
  options.places_of_a_ps = 1;
  options.disk = DiskMemory::CreateInMemory();
  return options;
}

// Both places of server 0, and the network between them. Not thread-safe.
class ReplicationBench {
 public:
  explicit ReplicationBench(v1::Configuration configuration)
      : home(PlaceOptions(kHome, kHomeProcess)),
        away(PlaceOptions(kAway, kAwayProcess)),
        now(std::move(configuration)) {
    now.mutable_servers(0)->set_peer(kHome);
    home.MakeReady(now);
  }

  // ---- what the coordinator says
  void TellHome() {
    const auto told = home.Configure(now);
    ASSERT_TRUE(told.ok()) << told.status();
    report = told->backup();
  }
  void TellAway() {
    const auto told = away.Configure(now);
    ASSERT_TRUE(told.ok()) << told.status();
  }
  // The server begins before the other place has heard of it.
  void TellHomeOfBackup() {
    now = Next(now);
    v1::Backup* const backup = now.mutable_servers(0)->mutable_backup();
    backup->set_peer(kAway);
    backup->set_incarnation(kAwayProcess);
    *backup->mutable_since() = now.version();
    backup->set_member(false);
    TellHome();
  }
  void BeginBackup() {
    TellHomeOfBackup();
    TellAway();
  }
  void MakeMember() {
    Carry();
    TellHome();
    ASSERT_TRUE(report.whole());
    now = Next(now);
    now.mutable_servers(0)->mutable_backup()->set_member(true);
    TellHome();
    TellAway();
    Carry();
  }
  void DropBackup() {
    now = Next(now);
    now.mutable_servers(0)->clear_backup();
    TellHome();
  }
  // Configuration `now` is that of the take-over; it is told by TellAway.
  void DecideTakeOver(bool has_ended) {
    now = Next(now);
    v1::ServerMember* const server = now.mutable_servers(0);
    *server->mutable_took_over() = server->backup().since();
    server->set_peer(kAway);
    server->set_incarnation(kAwayProcess);
    server->set_last_has_ended(has_ended);
    *server->mutable_generation() =
        Pair(1, server->generation().counter() + 100);
    server->clear_backup();
  }
  void TakeOver(bool has_ended = true) {
    DecideTakeOver(has_ended);
    TellAway();
  }

  // ---- the network
  // What home has sent arrives.
  struct UnderWay {
    CallId sent;
    CallId call;
  };
  std::vector<UnderWay> Arrive() {
    std::vector<UnderWay> under_way;
    for (Outbox::SendItem& send :
         std::exchange(home.sends, std::vector<Outbox::SendItem>())) {
      EXPECT_EQ(send.to, PeerId::Ps(kAway));
      under_way.push_back(
          {send.call, away.Begin(PeerId::Ps(kHome), *send.head, send.payload)});
    }
    return under_way;
  }
  // And is answered.
  void Return(const std::vector<UnderWay>& under_way) {
    for (const UnderWay& call : under_way) {
      if (!away.answered(call.call)) continue;
      home.Reply(PeerId::Ps(kAway), call.sent, away.Take(call.call));
    }
  }
  // Until there is nothing more.
  void Carry() {
    while (!home.sends.empty()) Return(Arrive());
  }

  // ---- what workers do
  v1::PushRequest PushOf(uint64_t sequence,
                         const std::vector<ShardDriver::Place>& blocks,
                         uint32_t elements) {
    v1::PushRequest push = home.MakePush(sequence, blocks, elements);
    *push.mutable_header()->mutable_server_generation() =
        now.servers(0).generation();
    return push;
  }
  v1::PushRequest SmallPush(uint64_t sequence) {
    return PushOf(sequence, {{0, 0}}, 2);
  }
  CallId BeginPush(uint64_t sequence) {
    return home.Begin(PeerId::Worker(1), SmallPush(sequence), Payload({1, 2}));
  }
  v1::PushedBlock::Result ResultAway(uint64_t sequence) {
    const auto reply = away.Push(SmallPush(sequence), {1, 2});
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? reply->blocks(0).result()
                      : v1::PushedBlock::RESULT_UNSPECIFIED;
  }

  ShardDriver home;
  ShardDriver away;
  v1::Configuration now;
  v1::BackupReport report;  // As home said last.
};

}  // namespace paramd::testing

#endif  // PARAMD_SERVER_CORE_TESTING_REPLICATION_BENCH_H_
