#include "coordinator/core/shard_relay.h"

#include <string>

#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "proto/testing/pair.h"

namespace paramd {
namespace {

using testing::Pair;

constexpr uint64_t kWindow = 1000;

// Snapshot 1.2, whose file "part" of ps-1 comes through here.
class ShardRelayTest : public ::testing::Test {
 protected:
  ShardRelayTest() {
    relay_.Begin(Pair(1, 2), "/dir");
    file_.set_name("part");
    file_.set_server(1);
    note_ = relay_.Unseen(1, file_);
  }

  static v1::FetchShardReply Reply(uint64_t offset, uint64_t total) {
    v1::FetchShardReply reply;
    *reply.mutable_snapshot() = Pair(1, 2);
    reply.set_offset(offset);
    reply.set_total(total);
    return reply;
  }
  static v1::WriteFetchedResult Written(uint64_t bytes) {
    v1::WriteFetchedResult result;
    result.set_bytes(bytes);
    result.set_crc32c(77);
    return result;
  }

  ShardRelay relay_{kWindow};
  v1::ShardFile file_;
  std::string note_;
};

TEST_F(ShardRelayTest, OneWindowAfterTheOtherIsFetchedAndWritten) {
  EXPECT_FALSE(relay_.NeedsFetch(0));
  const uint64_t total = kWindow + 5;
  ASSERT_TRUE(relay_.NeedsFetch(1));
  v1::FetchShardRequest fetch = relay_.FetchFor(1);
  EXPECT_EQ(fetch.header().snapshot(), Pair(1, 2));
  EXPECT_EQ(fetch.offset(), 0u);
  EXPECT_EQ(fetch.limit(), kWindow);
  const auto first = relay_.Fetched(1, Reply(0, total), kWindow);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->directory(), "/dir");
  EXPECT_EQ(first->name(), "part");
  EXPECT_EQ(first->offset(), 0u);
  EXPECT_EQ(first->total(), total);
  EXPECT_FALSE(relay_.NeedsFetch(1)) << "a window at a time";
  EXPECT_TRUE(relay_.IsWriting(1));
  auto done = relay_.Written(1, Written(kWindow));
  ASSERT_TRUE(done.ok());
  EXPECT_FALSE(done->has_value());
  EXPECT_EQ(relay_.FetchFor(1).offset(), kWindow);
  ASSERT_TRUE(relay_.Fetched(1, Reply(kWindow, total), 5).ok());
  done = relay_.Written(1, Written(total));
  ASSERT_TRUE(done.ok() && done->has_value());
  EXPECT_EQ((*done)->name(), "part");
  EXPECT_EQ((*done)->bytes(), total);
  EXPECT_EQ((*done)->crc32c(), 77u);
  EXPECT_FALSE(relay_.NeedsFetch(1));
}

TEST_F(ShardRelayTest, ItIsToldOncePerServer) {
  EXPECT_EQ(note_, "ps-1 does not see '/dir'; its part goes through the chief");
  relay_.Begin(Pair(1, 3), "/next");
  EXPECT_EQ(relay_.Unseen(1, file_), "");
  EXPECT_NE(relay_.Unseen(0, file_), "");
}

TEST_F(ShardRelayTest, AWindowThatWasNotAskedForIsRefused) {
  EXPECT_FALSE(relay_.Fetched(1, Reply(1, 9), 4).ok()) << "another offset";
  EXPECT_FALSE(relay_.Fetched(1, Reply(0, 9), 0).ok()) << "nothing";
  EXPECT_FALSE(relay_.Fetched(1, Reply(0, 9), 10).ok()) << "beyond the end";
  EXPECT_FALSE(relay_.Fetched(1, Reply(0, 2 * kWindow), kWindow + 1).ok());
  v1::FetchShardReply other = Reply(0, 9);
  *other.mutable_snapshot() = Pair(1, 1);
  EXPECT_EQ(relay_.Fetched(1, other, 9).status().message(),
            "ps-1 was asked for 'part' from 0 and gave 9 bytes from 0 of 9 of "
            "snapshot 1.1");
  ASSERT_TRUE(relay_.Fetched(1, Reply(0, 9), 4).ok());
  ASSERT_TRUE(relay_.Written(1, Written(4)).ok());
  EXPECT_FALSE(relay_.Fetched(1, Reply(4, 8), 4).ok()) << "another file";
}

TEST_F(ShardRelayTest, LessWrittenThanFetchedIsDataLoss) {
  ASSERT_TRUE(relay_.Fetched(1, Reply(0, 9), 9).ok());
  const auto done = relay_.Written(1, Written(8));
  EXPECT_EQ(done.status().message(),
            "'/dir/part' has 8 bytes where 9 were written");
}

TEST_F(ShardRelayTest, AnotherSnapshotForgetsWhatWasUnderWay) {
  relay_.Begin(Pair(1, 3), "/next");
  EXPECT_FALSE(relay_.NeedsFetch(1));
}

}  // namespace
}  // namespace paramd
