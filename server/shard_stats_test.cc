#include "server/shard_stats.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(ShardStatsTest, NumbersAreAddedAndTheSlowestSaysTheStep) {
  google::protobuf::RepeatedPtrField<v1::ServerStats> shards;
  v1::ServerStats* const one = shards.Add();
  one->set_bytes(100);
  one->set_pull_wait_seconds(0.5);
  one->set_step(7);
  one->set_restored(true);
  one->mutable_staleness()->set_sum(3);
  one->mutable_staleness()->add_histogram(1);
  v1::ServerStats* const other = shards.Add();
  other->set_bytes(20);
  other->set_pull_wait_seconds(0.25);
  other->set_step(6);
  other->set_restored(true);
  other->mutable_staleness()->set_sum(4);
  other->mutable_staleness()->add_histogram(10);
  other->mutable_staleness()->add_histogram(2);

  const v1::ServerStats together = TogetherOf(shards);
  EXPECT_EQ(together.bytes(), 120u);
  EXPECT_EQ(together.pull_wait_seconds(), 0.75);
  EXPECT_EQ(together.step(), 6u);
  EXPECT_TRUE(together.restored());
  EXPECT_EQ(together.staleness().sum(), 7u);
  ASSERT_EQ(together.staleness().histogram_size(), 2);
  EXPECT_EQ(together.staleness().histogram(0), 11u);
  EXPECT_EQ(together.staleness().histogram(1), 2u);
}

TEST(ShardStatsTest, AServerIsRestoredWhenAllItsShardsAre) {
  google::protobuf::RepeatedPtrField<v1::ServerStats> shards;
  EXPECT_FALSE(TogetherOf(shards).restored());
  shards.Add()->set_restored(true);
  shards.Add();
  EXPECT_FALSE(TogetherOf(shards).restored());
  shards[1].set_restored(true);
  EXPECT_TRUE(TogetherOf(shards).restored());
}

TEST(ShardStatsTest, RowsThatABackupHasTooCountOnce) {
  google::protobuf::RepeatedPtrField<v1::ServerStats> shards;
  for (const v1::ReplicaRole role :
       {v1::REPLICA_PRIMARY, v1::REPLICA_BACKUP, v1::REPLICA_ALONE}) {
    v1::ServerStats* const shard = shards.Add();
    shard->set_replica(role);
    shard->add_tables()->set_variable("table");
    shard->mutable_tables(0)->set_rows(5);
    shard->mutable_tables(0)->set_capacity(8);
  }
  const v1::ServerStats together = TogetherOf(shards);
  ASSERT_EQ(together.tables_size(), 1);
  EXPECT_EQ(together.tables(0).rows(), 10u);
  EXPECT_EQ(together.tables(0).capacity(), 16u);
}

TEST(ShardStatsTest, TheHottestSlicesAreThoseOfAllShards) {
  google::protobuf::RepeatedPtrField<v1::ServerStats> shards;
  for (const v1::ReplicaRole role :
       {v1::REPLICA_PRIMARY, v1::REPLICA_BACKUP, v1::REPLICA_ALONE}) {
    v1::ServerStats* const shard = shards.Add();
    shard->set_replica(role);
    for (int i = 0; i < 8; ++i) {
      v1::SliceStats* const slice = shard->add_hottest_slices();
      slice->set_name(absl::StrCat(role, "/", i));
      slice->set_named_blocks(100 * (8 - i) + role);
    }
  }
  const v1::ServerStats together = TogetherOf(shards);
  ASSERT_EQ(together.hottest_slices_size(), 10);
  for (int i = 0; i < 10; ++i) {
    const v1::ReplicaRole role =
        i % 2 == 0 ? v1::REPLICA_PRIMARY : v1::REPLICA_ALONE;
    EXPECT_EQ(together.hottest_slices(i).name(),
              absl::StrCat(role, "/", i / 2));
  }
}

}  // namespace
}  // namespace paramd
