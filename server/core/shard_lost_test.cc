#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/shard.h"
#include "server/core/testing/shard_driver.h"

namespace paramd {
namespace {

using testing::MakeConfiguration;
using testing::MakeSeal;
using testing::Pair;
using testing::Payload;
using testing::ShardDriver;
using testing::Zeros;

constexpr char kLost[] =
    "lost: pushes 7 to 9 of worker-1 generation 1.11, which an earlier life of "
    "ps-0 had acknowledged";

// Life 1.20 of server 0, filled from a checkpoint that has push 6 of worker 1.
class ShardLostTest : public ::testing::Test {
 protected:
  ShardLostTest() : configuration_(MakeConfiguration({Zeros("w", {2})})) {
    v1::ServerMember* const self = configuration_.mutable_servers(0);
    *self->mutable_generation() = Pair(1, 20);
    self->set_restore_directory("/from");
    (void)driver_.Configure(configuration_);
    driver_.Settle();
    auto read = std::make_unique<v1::ReadSlicesResult>();
    read->mutable_manifest()->set_run_id("run");
    auto* const piece = read->add_slices()->add_pieces();
    piece->set_row_end(2);
    piece->mutable_saved()->set_row_end(2);
    v1::PushRecord* const record = piece->mutable_saved()->add_records();
    record->set_worker(1);
    *record->mutable_generation() = Pair(1, 11);
    record->set_sequence(6);
    IoResult result;
    result.io = driver_.ios.at(0).io;
    result.head = std::move(read);
    result.payload = Payload({3, 4});
    driver_.Complete(std::move(result));
    driver_.MakeReady(configuration_);
  }

  // Push `sequence` of worker 1, for this life of the server.
  absl::StatusOr<v1::PushReply> Push(uint64_t sequence, uint64_t life = 20) {
    v1::PushRequest request = driver_.MakePush(sequence, {{0, 0}}, 2);
    request.set_acknowledged(sequence - 1);
    *request.mutable_header()->mutable_server_generation() = Pair(1, life);
    return driver_.Push(request, {1, 1});
  }
  uint64_t CountLost() {
    v1::StatusReply status;
    driver_.shard().FillStatus(&status);
    return status.server().pushes_lost();
  }
  int Notes() {
    return static_cast<int>(
        std::count(driver_.notes.begin(), driver_.notes.end(), kLost));
  }

  ShardDriver driver_;
  v1::Configuration configuration_;
};

TEST_F(ShardLostTest, Promise1_WhatWasLostIsSaidOnceByNameAndCounted) {
  EXPECT_EQ(CountLost(), 0u);
  ASSERT_TRUE(Push(10).ok());
  EXPECT_EQ(CountLost(), 3u);
  EXPECT_EQ(Notes(), 1);
  ASSERT_TRUE(Push(11).ok());
  EXPECT_EQ(CountLost(), 3u);
  EXPECT_EQ(Notes(), 1);
  const auto told = driver_.Configure(configuration_);
  ASSERT_EQ(told->lost_size(), 1);
  EXPECT_EQ(told->lost(0).from(), 7u);
  EXPECT_EQ(told->lost(0).to(), 9u);
}

TEST_F(ShardLostTest, ASealedFileListsWhatIsLost) {
  ASSERT_TRUE(Push(10).ok());
  v1::SealRequest seal = MakeSeal(1);
  *seal.mutable_server_generations(0) = Pair(1, 20);
  ASSERT_TRUE(driver_.Ask<v1::SealReply>(PeerId::Coordinator(), seal).ok());
  const auto& work =
      static_cast<const v1::WriteShard&>(*driver_.ios.back().head);
  ASSERT_EQ(work.file().lost_size(), 1);
  EXPECT_EQ(work.file().lost(0).to(), 9u);
  EXPECT_EQ(work.file().lost(0).server_generation(), Pair(1, 20));
}

TEST_F(ShardLostTest, Promise1_AChunkForAnEarlierLifeIsNotApplied) {
  const absl::Status refused = Push(8, /*life=*/5).status();
  EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::NOT_READY);
  EXPECT_EQ(refused.message(),
            "a push is meant for generation 1.5 of ps-0, which is generation "
            "1.20 now");
  EXPECT_EQ(driver_.Pull(0), (std::vector<float>{3, 4}));
  EXPECT_EQ(CountLost(), 0u);
}

TEST_F(ShardLostTest, ARefusedChunkSaysNothingOfWhatIsLost) {
  v1::PushRequest request = driver_.MakePush(10, {{0, 0}}, 3);
  request.set_acknowledged(9);
  EXPECT_FALSE(driver_.Push(request, {1, 1, 1}).ok());
  EXPECT_EQ(CountLost(), 0u);
}

TEST_F(ShardLostTest, ANewLifeOfTheContentForgetsWhatItHeard) {
  ASSERT_TRUE(Push(10).ok());
  *configuration_.mutable_version() = Pair(1, 2);
  *configuration_.mutable_servers(0)->mutable_generation() = Pair(1, 30);
  configuration_.mutable_servers(0)->clear_restore_directory();
  driver_.MakeReady(configuration_);
  EXPECT_EQ(CountLost(), 0u);
  // Initial values have none of them.
  ASSERT_TRUE(Push(12, /*life=*/30).ok());
  EXPECT_EQ(CountLost(), 11u);
}

}  // namespace
}  // namespace paramd
