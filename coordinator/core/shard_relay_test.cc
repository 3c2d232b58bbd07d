#include "coordinator/core/shard_relay.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "config/shard_description.h"
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

// Of ps-0, in windows; its file is seen or not.
class LongDescriptionTest : public ShardRelayTest {
 protected:
  LongDescriptionTest() {
    v1::ShardFile file;
    file.set_name("long");
    for (int i = 0; i < 500; ++i) file.add_slices()->set_row_begin(i);
    encoded_ = file.SerializeAsString();
  }

  v1::FetchShardReply DescriptionAt(uint64_t offset) const {
    return Reply(kDescriptionOffset + offset,
                 kDescriptionOffset + encoded_.size());
  }
  BufferChain Part(uint64_t offset) const {
    return {Buffer::Copy(encoded_.substr(offset, kWindow / 2)),
            Buffer::Copy(encoded_.substr(
                std::min<uint64_t>(offset + kWindow / 2, encoded_.size()),
                kWindow / 2))};
  }

  std::string encoded_;
};

TEST_F(LongDescriptionTest, ItIsFetchedInWindowsBeforeTheFile) {
  ASSERT_GT(encoded_.size(), 2 * kWindow);
  for (const bool unseen : {false, true}) {
    relay_.Undescribed(0, unseen);
    for (uint64_t offset = 0; offset < encoded_.size(); offset += kWindow) {
      ASSERT_TRUE(relay_.NeedsFetch(0) && relay_.IsDescribing(0));
      EXPECT_EQ(relay_.FetchFor(0).offset(), kDescriptionOffset + offset);
      const auto described =
          relay_.Described(0, DescriptionAt(offset), Part(offset));
      ASSERT_TRUE(described.ok()) << described.status();
      ASSERT_EQ(described->has_value(), offset + kWindow >= encoded_.size());
      if (!described->has_value()) continue;
      EXPECT_EQ((*described)->snapshot(), Pair(1, 2));
      EXPECT_EQ((*described)->file().slices_size(), 500);
      EXPECT_EQ((*described)->unseen(), unseen);
    }
    EXPECT_FALSE(relay_.NeedsFetch(0) || relay_.IsDescribing(0));
  }
  EXPECT_FALSE(relay_.IsDescribing(1));
}

TEST_F(LongDescriptionTest, WhatWasNotAskedForIsRefused) {
  relay_.Undescribed(0, /*unseen=*/false);
  EXPECT_EQ(relay_.Described(0, DescriptionAt(1), Part(0)).status().message(),
            absl::StrCat("ps-0 was asked for the description of its file from "
                         "0 and gave 1000 bytes from 1 of ",
                         encoded_.size(), " of snapshot 1.2"));
  EXPECT_FALSE(relay_.Described(0, Reply(0, 9), Part(0)).ok()) << "the file";
  EXPECT_FALSE(relay_.Described(0, DescriptionAt(0), {}).ok()) << "nothing";
  const auto spoiled =
      relay_.Described(0, Reply(kDescriptionOffset, kDescriptionOffset + 3),
                       {Buffer::Copy(std::string("\xff\xff\xff"))});
  EXPECT_EQ(spoiled.status().message(),
            "ps-0 describes its file by what is no description");
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
