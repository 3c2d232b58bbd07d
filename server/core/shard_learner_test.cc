// A backup that is being filled, while its server goes on.
#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/shard.h"
#include "server/core/testing/replication_bench.h"
#include "server/core/testing/shard_driver.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

using testing::kAway;
using testing::kHome;
using testing::MakeAdamConfiguration;
using testing::MakeConfiguration;
using testing::Payload;
using testing::ReasonOf;
using testing::ReplicationBench;
using testing::Small;
using testing::Uniform;

constexpr PeerId kPusher = PeerId::Worker(1);

TEST(ShardLearnerTest, OnlyWhoHasEverythingTakesOver) {
  ReplicationBench bench(Small());
  bench.BeginBackup();
  bench.TellHome();
  EXPECT_FALSE(bench.report.whole());
  bench.DecideTakeOver(true);
  const auto told = bench.away.Configure(bench.now);
  EXPECT_EQ(ReasonOf(told.status()), v1::Refusal::INVALID);
}

TEST(ShardLearnerTest, ItTakesASliceAsItIsAndPushesSince) {
  const std::vector<v1::Configuration> configurations = {
      MakeConfiguration({Uniform("w", {3 * kMaxBlockElements / 256, 256}),
                         Uniform("v", {2}), Uniform("u", {5})}),
      MakeAdamConfiguration({Uniform("w", {3 * kMaxBlockElements / 256, 256}),
                             Uniform("v", {2}), Uniform("u", {5})})};
  for (const v1::Configuration& configuration : configurations) {
    ReplicationBench bench(configuration);
    const auto push = [&](uint64_t sequence, float by) {
      const std::vector<float> gradient(kMaxBlockElements, by);
      bench.home.Begin(kPusher,
                       bench.PushOf(sequence, {{0, 1}}, kMaxBlockElements),
                       Payload(gradient));
      v1::PushRequest both = bench.PushOf(sequence, {{1, 0}}, 2);
      v1::PushBlock* const other = both.add_blocks();
      other->set_slice(2);
      other->set_elements(5);
      bench.home.Begin(kPusher, both, Payload({by, 2, 3, 4, 5, by, 7}));
    };
    push(1, 0.5f);
    bench.BeginBackup();
    // Each call arrives behind another push.
    for (uint64_t sequence = 2; sequence < 12; ++sequence) {
      push(sequence, static_cast<float>(sequence));
      std::vector<Outbox::SendItem> sends = std::move(bench.home.sends);
      bench.home.sends.clear();
      for (Outbox::SendItem& send : sends) {
        bench.home.Reply(
            PeerId::Ps(kAway), send.call,
            bench.away.Call(PeerId::Ps(kHome), *send.head, send.payload));
      }
    }
    bench.MakeMember();
    EXPECT_EQ(bench.home.shard().Checksum(), bench.away.shard().Checksum());
    const CallId again = bench.home.Begin(
        kPusher, bench.PushOf(11, {{1, 0}}, 2), Payload({1, 1}));
    bench.Carry();
    ASSERT_TRUE(bench.home.answered(again));
    bench.TakeOver();
    const auto reply = bench.away.Push(bench.PushOf(11, {{1, 0}}, 2), {1, 1});
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->blocks(0).result(), v1::PushedBlock::ALREADY_APPLIED);
    const auto open =
        bench.away.Push(bench.PushOf(11, {{0, 0}}, kMaxBlockElements),
                        std::vector<float>(kMaxBlockElements, 1.0f));
    ASSERT_TRUE(open.ok()) << open.status();
    EXPECT_EQ(open->blocks(0).result(), v1::PushedBlock::APPLIED);
  }
}

TEST(ShardLearnerTest, RowsOfSparseVariablesGoToTheSlicesThatAreThere) {
  v1::Variable table = Uniform("table", {8, 4});
  table.set_sparse(true);
  ReplicationBench bench(MakeConfiguration({Uniform("v", {2}), table}));
  const auto push = [&](uint64_t sequence) {
    v1::PushRequest request = bench.PushOf(sequence, {{0, 0}}, 2);
    testing::AddRows({1, 0}, 2, request.mutable_rows());
    const std::vector<uint32_t> rows = {1, 5};
    BufferChain payload = {Buffer::Copy(AsBytes(absl::MakeConstSpan(rows)))};
    for (const Buffer& buffer : Payload({1, 2, 3, 4, 5, 6, 7, 8, 9, 10})) {
      payload.push_back(buffer);
    }
    return bench.home.Begin(kPusher, request, payload);
  };
  push(1);
  bench.BeginBackup();
  for (uint64_t sequence = 2; sequence < 6; ++sequence) {
    push(sequence);
    for (Outbox::SendItem& send :
         std::exchange(bench.home.sends, std::vector<Outbox::SendItem>())) {
      bench.home.Reply(
          PeerId::Ps(kAway), send.call,
          bench.away.Call(PeerId::Ps(kHome), *send.head, send.payload));
    }
  }
  bench.MakeMember();
  bench.TellHome();
  EXPECT_EQ(bench.report.lost(), "");
  EXPECT_EQ(bench.home.shard().Checksum(), bench.away.shard().Checksum());
}

TEST(ShardLearnerTest, AnotherBackupBeginsWithNothing) {
  ReplicationBench bench(Small());
  bench.BeginBackup();
  bench.MakeMember();
  const CallId push = bench.BeginPush(1);
  std::vector<Outbox::SendItem> late = std::move(bench.home.sends);
  bench.home.sends.clear();
  bench.DropBackup();
  EXPECT_TRUE(bench.home.answered(push));
  bench.BeginBackup();
  // What was under way to the last one changes nothing, there and here.
  ASSERT_EQ(late.size(), 1u);
  const auto refused =
      bench.away.Call(PeerId::Ps(kHome), *late[0].head, late[0].payload);
  EXPECT_EQ(ReasonOf(refused.status), v1::Refusal::FENCED);
  bench.home.Reply(PeerId::Ps(kAway), late[0].call,
                   {refused.status, nullptr, {}});
  bench.MakeMember();
  EXPECT_EQ(bench.home.shard().Checksum(), bench.away.shard().Checksum());
  EXPECT_TRUE(bench.home.answered(bench.BeginPush(2)) ||
              !bench.home.sends.empty());
}

}  // namespace
}  // namespace paramd
