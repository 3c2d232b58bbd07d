// Keyed variables of a server with a backup: keys get rows, lose them and are
// counted in both places alike, and a place that takes over goes on with them.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "config/initial_values.h"
#include "proto/refusal.h"
#include "server/core/shard.h"
#include "server/core/testing/replication_bench.h"
#include "server/core/testing/shard_driver.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

using testing::AddRows;
using ::testing::HasSubstr;
using testing::kAway;
using testing::kChief;
using testing::kHome;
using testing::MakeAdamConfiguration;
using testing::MakeConfiguration;
using testing::MakeSeal;
using testing::Numbers;
using testing::Pair;
using testing::Payload;
using testing::PlaceOptions;
using testing::ReasonOf;
using testing::ReplicationBench;
using testing::ShardDriver;
using testing::Uniform;

v1::Variable KeyedTable(uint64_t rows, uint64_t width) {
  v1::Variable variable = Uniform("table", {rows, width});
  variable.set_sparse(true);
  variable.set_keyed(true);
  variable.set_when_full(v1::Variable::EVICT);
  return variable;
}

struct KeyedPush {
  v1::PushRequest request;
  BufferChain payload;
};

// Of a job whose first variable is keyed.
class KeyedBench : public ReplicationBench {
 public:
  explicit KeyedBench(const v1::Configuration& configuration)
      : ReplicationBench(configuration),
        table_(configuration.layout().variables(0)),
        seed_(configuration.seed()) {}

  // Names each block, and of it those of the keys that are there.
  KeyedPush PushOfKeys(uint64_t sequence, const std::set<uint64_t>& keys,
                       float by) {
    const std::vector<uint64_t> mixed = Mixed(keys);
    KeyedPush push;
    push.request = PushOf(sequence, {}, 0);
    NameRows(mixed, push.request.mutable_rows());
    push.payload = Named(mixed);
    const std::vector<float> gradient(mixed.size() * width(), by);
    for (const Buffer& buffer : Payload(gradient)) {
      push.payload.push_back(buffer);
    }
    return push;
  }
  CallId BeginPush(const KeyedPush& push) {
    return home.Begin(PeerId::Worker(1), push.request, push.payload);
  }
  v1::PushedBlock::Result ResultAway(uint64_t sequence,
                                     const std::set<uint64_t>& keys) {
    const KeyedPush push = PushOfKeys(sequence, keys, 1);
    const auto reply =
        away.Ask<v1::PushReply>(PeerId::Worker(1), push.request, push.payload);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok()
               ? static_cast<v1::PushedBlock::Result>(reply->row_results(0))
               : v1::PushedBlock::RESULT_UNSPECIFIED;
  }

  ShardDriver::Answer PullOf(const std::set<uint64_t>& keys,
                             ShardDriver* place) const {
    const std::vector<uint64_t> mixed = Mixed(keys);
    v1::PullRequest pull;
    pull.set_encoding(v1::FP32);
    NameRows(mixed, pull.mutable_rows());
    return place->Call(PeerId::Worker(1), pull, Named(mixed));
  }
  // How far the row of a key is from the key's initial values.
  float Moved(uint64_t key, ShardDriver* place) const {
    const std::vector<float> row = Numbers(PullOf({key}, place).payload);
    std::vector<float> first(width());
    InitialValues(table_, seed_).FillRow(key, absl::MakeSpan(first));
    EXPECT_EQ(row.size(), first.size());
    return row.empty() ? 0 : row[0] - first[0];
  }
  static v1::TableStats Stats(ShardDriver* place) {
    v1::StatusReply status;
    place->shard().FillStatus(&status);
    EXPECT_EQ(status.server().tables_size(), 1);
    return status.server().tables(0);
  }
  void ExpectSameBits() {
    EXPECT_EQ(home.shard().Checksum(), away.shard().Checksum());
  }

  // So many of the calls that home has sent arrive and are answered.
  void ArriveSome(size_t most) {
    for (size_t i = 0; i < most; ++i) {
      for (Outbox::SendItem& send :
           std::exchange(home.sends, std::vector<Outbox::SendItem>())) {
        under_way_.push_back(std::move(send));
      }
      if (under_way_.empty()) return;
      const Outbox::SendItem send = std::move(under_way_.front());
      under_way_.pop_front();
      home.Reply(PeerId::Ps(kAway), send.call,
                 away.Call(PeerId::Ps(kHome), *send.head, send.payload));
    }
  }

 private:
  size_t width() const { return table_.shape(1); }
  static std::vector<uint64_t> Mixed(const std::set<uint64_t>& keys) {
    std::vector<uint64_t> mixed;
    for (const uint64_t key : keys) mixed.push_back(MixKey(key));
    std::sort(mixed.begin(), mixed.end());
    return mixed;
  }
  static BufferChain Named(const std::vector<uint64_t>& mixed) {
    return {Buffer::Copy(AsBytes(absl::MakeConstSpan(mixed)))};
  }
  void NameRows(const std::vector<uint64_t>& mixed, v1::RowBlocks* rows) const {
    const auto buckets =
        static_cast<uint32_t>(BucketCount(table_.shape(0), table_.shape(1)));
    const auto in_slice =
        static_cast<uint32_t>(kSliceBytes / sizeof(float) / kMaxBlockElements);
    for (uint32_t bucket = 0; bucket < buckets; ++bucket) {
      const auto keys = std::count_if(
          mixed.begin(), mixed.end(),
          [&](uint64_t key) { return BucketOf(key, buckets) == bucket; });
      AddRows({bucket / in_slice, bucket % in_slice},
              static_cast<uint32_t>(keys), rows);
    }
  }

  const v1::Variable table_;
  const uint64_t seed_;
  std::deque<Outbox::SendItem> under_way_;
};

// ---- a killed server --------------------------------------------------------

// A table of two rows. Keys 1 and 2 have them with push 1; push 2 is of key 3,
// which takes that of key 1.
class ShardKeyedReplicationTest : public ::testing::Test {
 protected:
  ShardKeyedReplicationTest() : bench_(MakeConfiguration({KeyedTable(2, 2)})) {
    bench_.BeginBackup();
    bench_.MakeMember();
    bench_.BeginPush(bench_.PushOfKeys(1, {1, 2}, 1));
    bench_.Carry();
  }
  CallId BeginSecond() {
    return bench_.BeginPush(bench_.PushOfKeys(2, {3}, 1));
  }
  // Push 2 is in the new place, once, and what comes then goes by it.
  void ExpectSecondAway() {
    EXPECT_EQ(bench_.ResultAway(2, {3}), v1::PushedBlock::ALREADY_APPLIED);
    EXPECT_FLOAT_EQ(bench_.Moved(1, &bench_.away), 0);
    EXPECT_FLOAT_EQ(bench_.Moved(2, &bench_.away), -1);
    EXPECT_FLOAT_EQ(bench_.Moved(3, &bench_.away), -1);
    EXPECT_EQ(bench_.ResultAway(3, {4}), v1::PushedBlock::APPLIED);
    EXPECT_FLOAT_EQ(bench_.Moved(2, &bench_.away), 0);
    EXPECT_FLOAT_EQ(bench_.Moved(3, &bench_.away), -1);
    EXPECT_FLOAT_EQ(bench_.Moved(4, &bench_.away), -1);
  }

  KeyedBench bench_;
};

TEST_F(ShardKeyedReplicationTest, Promise1_KilledBeforeItApplies) {
  bench_.TakeOver();
  EXPECT_EQ(bench_.ResultAway(2, {3}), v1::PushedBlock::APPLIED);
  ExpectSecondAway();
}

TEST_F(ShardKeyedReplicationTest, Promise1_KilledBetweenApplyingAndSending) {
  const CallId push = BeginSecond();
  bench_.home.sends.clear();
  EXPECT_FALSE(bench_.home.answered(push));
  bench_.TakeOver();
  EXPECT_EQ(bench_.ResultAway(2, {3}), v1::PushedBlock::APPLIED);
  ExpectSecondAway();
}

TEST_F(ShardKeyedReplicationTest, Promise1_KilledBetweenSendingAndTheAnswer) {
  const CallId push = BeginSecond();
  bench_.Arrive();
  EXPECT_FALSE(bench_.home.answered(push));
  bench_.TakeOver();
  ExpectSecondAway();
}

TEST_F(ShardKeyedReplicationTest, Promise1_KilledBetweenTheAnswerAndTheReply) {
  const CallId push = BeginSecond();
  bench_.Carry();
  EXPECT_TRUE(bench_.home.answered(push));  // And lost on its way.
  bench_.TakeOver();
  ExpectSecondAway();
}

// A key that was evicted is another one's to both; who was named before the
// server died needs as few gradients more as there.
TEST(ShardKeyedTakeOverTest, WhoIsNotAdmittedYetHasBeenNamedInBothPlaces) {
  v1::Variable table = KeyedTable(4, 2);
  table.set_admit_after(3);
  KeyedBench bench(MakeConfiguration({table}));
  bench.BeginPush(bench.PushOfKeys(1, {9}, 1));
  bench.BeginBackup();
  bench.MakeMember();
  bench.BeginPush(bench.PushOfKeys(2, {9}, 1));
  bench.Carry();
  bench.TakeOver();
  EXPECT_FLOAT_EQ(bench.Moved(9, &bench.away), 0);
  EXPECT_EQ(bench.ResultAway(3, {9}), v1::PushedBlock::APPLIED);
  EXPECT_FLOAT_EQ(bench.Moved(9, &bench.away), -1);
}

// ---- who answers lookups ----------------------------------------------------

TEST_F(ShardKeyedReplicationTest, Promise2_ADeposedServerAnswersNoLookup) {
  const KeyedPush push = bench_.PushOfKeys(2, {3}, 1);
  bench_.TakeOver();
  bench_.BeginPush(push);
  bench_.Carry();
  EXPECT_EQ(ReasonOf(bench_.PullOf({1}, &bench_.home).status),
            v1::Refusal::NOT_READY);
  EXPECT_FLOAT_EQ(bench_.Moved(1, &bench_.away), -1);
}

TEST_F(ShardKeyedReplicationTest, Promise2_AServerThatStoodStillAnswersNone) {
  EXPECT_EQ(ReasonOf(bench_.PullOf({1}, &bench_.away).status),
            v1::Refusal::NOT_READY);
  bench_.TakeOver(/*has_ended=*/false);
  bench_.home.StandStill(BackupStream::kLease + absl::Milliseconds(1));
  EXPECT_EQ(ReasonOf(bench_.PullOf({1}, &bench_.home).status),
            v1::Refusal::NOT_READY);
}

// ---- what is compared -------------------------------------------------------

TEST_F(ShardKeyedReplicationTest, OtherKeysAreFound) {
  const CallId push = BeginSecond();
  ASSERT_EQ(bench_.home.sends.size(), 1u);
  bench_.home.sends[0].payload = bench_.PushOfKeys(2, {4}, 1).payload;
  bench_.Carry();
  EXPECT_TRUE(bench_.home.answered(push));
  bench_.home.Advance(absl::Seconds(1));
  bench_.Carry();
  bench_.TellHome();
  EXPECT_THAT(bench_.report.lost(),
              HasSubstr("block 0 of 'table' has other bits"));
}

TEST_F(ShardKeyedReplicationTest, ALookupChangesNothingThatIsCompared) {
  for (const uint64_t key : {1, 7, 2, 8}) {
    EXPECT_TRUE(bench_.PullOf({key}, &bench_.home).status.ok());
  }
  BeginSecond();
  bench_.Carry();
  bench_.ExpectSameBits();
  bench_.home.Advance(absl::Seconds(1));
  bench_.Carry();
  bench_.TellHome();
  EXPECT_EQ(bench_.report.lost(), "");
}

// ---- a long story -----------------------------------------------------------

// A table of six blocks in two slices, whose backup is filled while pushes
// come, and which is taken over in the end; beside it a server without a backup
// that nothing happens to.
class ShardKeyedStoryTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kRows = 1536;
  static constexpr uint64_t kWidth = 1024;

  static v1::Variable Table() { return KeyedTable(kRows, kWidth); }

  // Every push names 40 of `keys`, most of them the first of them.
  void Tell(const v1::Configuration& configuration, uint64_t keys) {
    keys_ = keys;
    bench_ = std::make_unique<KeyedBench>(configuration);
    Shard::Options options = PlaceOptions(kHome, testing::kHomeProcess);
    options.peer.reset();
    alone_ = std::make_unique<ShardDriver>(options);
    alone_->MakeReady(configuration);
    life_ = configuration.servers(0).generation();
    FillWhilePushesCome();
    GoOnWithABackup();
    bench_->TakeOver();
    for (int i = 0; i < 20; ++i) {
      const KeyedPush push = NextPush();
      const auto reply = bench_->away.Ask<v1::PushReply>(
          PeerId::Worker(1), push.request, push.payload);
      ASSERT_TRUE(reply.ok()) << reply.status();
    }
    EXPECT_EQ(bench_->away.shard().Checksum(), alone_->shard().Checksum());
    const std::set<uint64_t> some = Draw();
    EXPECT_EQ(Numbers(bench_->PullOf(some, &bench_->away).payload),
              Numbers(bench_->PullOf(some, alone_.get()).payload));
    EXPECT_EQ(KeyedBench::Stats(&bench_->away).rows(),
              KeyedBench::Stats(alone_.get()).rows());
  }
  v1::TableStats Alone() const { return KeyedBench::Stats(alone_.get()); }

 private:
  std::set<uint64_t> Draw() {
    std::set<uint64_t> keys;
    while (keys.size() < 40) {
      keys.insert(random_.Below(random_.Chance(0.5) ? keys_ / 8 : keys_));
    }
    return keys;
  }
  // The same goes to the server without a backup.
  KeyedPush NextPush() {
    KeyedPush push = bench_->PushOfKeys(
        ++sequence_, Draw(), static_cast<float>(random_.Uniform()) - 0.5f);
    v1::PushRequest request = push.request;
    *request.mutable_header()->mutable_server_generation() = life_;
    EXPECT_TRUE(
        alone_->Ask<v1::PushReply>(PeerId::Worker(1), request, push.payload)
            .ok());
    if (sequence_ >= 25 && sequence_ <= 75) {  // Behind the cut of a snapshot.
      *push.request.mutable_header()->mutable_snapshot() = Pair(1, 1);
    }
    return push;
  }
  void FillWhilePushesCome() {
    for (int i = 0; i < 15; ++i) bench_->BeginPush(NextPush());
    bench_->BeginBackup();
    // A call arrives behind each push.
    for (int i = 0; i < 30; ++i) {
      bench_->BeginPush(NextPush());
      bench_->ArriveSome(1);
      if (i != 15) continue;
      // What the snapshot holds is held by what is being sent, too.
      ASSERT_TRUE(bench_->home.Ask<v1::SealReply>(kChief, MakeSeal(1)).ok());
    }
    bench_->ArriveSome(1000);
    bench_->MakeMember();
    bench_->ExpectSameBits();
  }
  void GoOnWithABackup() {
    for (int i = 0; i < 30; ++i) {
      const CallId push = bench_->BeginPush(NextPush());
      EXPECT_TRUE(bench_->PullOf(Draw(), &bench_->home).status.ok());
      bench_->Carry();
      EXPECT_TRUE(bench_->home.answered(push));
      bench_->home.Advance(absl::Seconds(1));  // A block is compared.
      bench_->Carry();
    }
    bench_->ExpectSameBits();
    EXPECT_EQ(bench_->home.shard().Checksum(), alone_->shard().Checksum());
    bench_->TellHome();
    EXPECT_EQ(bench_->report.lost(), "");
  }

  RandomStream random_{7};
  uint64_t keys_ = 0;
  uint64_t sequence_ = 0;
  v1::ServerLife life_;
  std::unique_ptr<KeyedBench> bench_;
  std::unique_ptr<ShardDriver> alone_;
};

TEST_F(ShardKeyedStoryTest, TheSameKeysAreEvicted) {
  Tell(MakeConfiguration({Table(), Uniform("v", {5})}), 4000);
  EXPECT_GT(Alone().evicted(), 100u);
}

TEST_F(ShardKeyedStoryTest, TheSameKeysAreEvictedWithTheirSlots) {
  Tell(MakeAdamConfiguration({Table()}), 4000);
  EXPECT_GT(Alone().evicted(), 100u);
}

TEST_F(ShardKeyedStoryTest, TheSameKeysAreIgnored) {
  v1::Variable table = Table();
  table.set_when_full(v1::Variable::IGNORE);
  Tell(MakeConfiguration({table}), 6000);
  EXPECT_GT(Alone().ignored(), 100u);
}

TEST_F(ShardKeyedStoryTest, TheSameKeysAreAdmitted) {
  v1::Variable table = Table();
  table.set_admit_after(3);
  Tell(MakeConfiguration({table}), 2000);
  EXPECT_GT(Alone().not_admitted(), 100u);
  EXPECT_GT(Alone().created(), 100u);
}

TEST_F(ShardKeyedStoryTest, TheSameKeysExpire) {
  v1::Variable table = Table();
  table.set_expire_after(10);
  table.set_admit_after(2);
  Tell(MakeConfiguration({table}), 1000u);
  EXPECT_GT(Alone().expired(), 100u);
}

TEST_F(ShardKeyedStoryTest, TheSameRowsLieOnTheDisk) {
  v1::Variable table = Table();
  table.set_memory_rows(384);
  Tell(MakeConfiguration({table}), 2000);
  EXPECT_EQ(Alone().memory_rows(), 384u);
  EXPECT_GT(Alone().rows(), 1000u);
}

TEST_F(ShardKeyedStoryTest, TheSameRowsLieOnTheDiskWithTheirSlots) {
  v1::Variable table = Table();
  table.set_memory_rows(384);
  table.set_expire_after(40);
  Tell(MakeAdamConfiguration({table}), 4000);
  EXPECT_GT(Alone().evicted() + Alone().expired(), 100u);
}

}  // namespace
}  // namespace paramd
