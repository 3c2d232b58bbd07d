// Sparse variables: pulls and pushes of rows.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/testing/shard_driver.h"

namespace paramd {
namespace {

using testing::AddRows;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MakeAdamConfiguration;
using testing::MakeConfiguration;
using testing::Numbers;
using testing::Pair;
using testing::Payload;
using testing::ShardDriver;
using testing::Zeros;

v1::Variable Sparse(const std::string& name, uint64_t rows, uint64_t width) {
  v1::Variable variable = Zeros(name, {rows, width});
  variable.set_sparse(true);
  return variable;
}

Buffer RowNumbers(const std::vector<uint32_t>& rows) {
  return Buffer::Copy(AsBytes(absl::MakeConstSpan(rows)));
}

// Slice 0: "table" of 8 rows of 2; slice 1: "b" of 2, dense.
class ShardSparseTest : public ::testing::Test {
 protected:
  ShardSparseTest() {
    Use(MakeConfiguration({Sparse("table", 8, 2), Zeros("b", {2})}));
  }

  void Use(const v1::Configuration& configuration) {
    driver_ = std::make_unique<ShardDriver>();
    driver_->MakeReady(configuration);
  }
  v1::PushRequest RowsPush(uint64_t sequence, uint32_t rows) const {
    v1::PushRequest push = driver_->MakePush(sequence, {}, 0);
    AddRows({0, 0}, rows, push.mutable_rows());
    return push;
  }
  static BufferChain RowsPayload(const std::vector<uint32_t>& rows,
                                 const std::vector<float>& gradient) {
    BufferChain payload = {RowNumbers(rows)};
    for (Buffer& buffer : Payload(gradient)) payload.push_back(buffer);
    return payload;
  }
  absl::Status Push(const v1::PushRequest& push,
                    const std::vector<uint32_t>& rows,
                    const std::vector<float>& gradient) {
    return driver_
        ->Ask<v1::PushReply>(PeerId::Worker(1), push,
                             RowsPayload(rows, gradient))
        .status();
  }
  ShardDriver::Answer PullRows(const std::vector<uint32_t>& rows,
                               uint32_t slice = 0) {
    v1::PullRequest pull;
    pull.set_encoding(v1::FP32);
    AddRows({slice, 0}, static_cast<uint32_t>(rows.size()),
            pull.mutable_rows());
    return driver_->Call(PeerId::Worker(1), pull, {RowNumbers(rows)});
  }

  std::unique_ptr<ShardDriver> driver_;
};

TEST_F(ShardSparseTest, APushChangesTheRowsThatItNamesAndNoOthers) {
  ASSERT_TRUE(Push(RowsPush(1, 2), {1, 6}, {1, 2, 3, 4}).ok());
  EXPECT_EQ(driver_->Pull(0), (std::vector<float>{0, 0, -1, -2, 0, 0, 0, 0, 0,
                                                  0, 0, 0, -3, -4, 0, 0}));
}

TEST_F(ShardSparseTest, APullOfRowsBringsThoseAndTheBlocksVersion) {
  ASSERT_TRUE(Push(RowsPush(1, 2), {1, 6}, {1, 2, 3, 4}).ok());
  const ShardDriver::Answer answer = PullRows({0, 1, 6});
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(Numbers(answer.payload),
            (std::vector<float>{0, 0, -1, -2, -3, -4}));
  const auto& reply = static_cast<const v1::PullReply&>(*answer.head);
  EXPECT_EQ(reply.blocks_size(), 0);
  EXPECT_THAT(reply.row_versions().counters(), ElementsAre(1));
  EXPECT_NE(reply.row_versions().lives(0), 0u);
}

TEST_F(ShardSparseTest, Promise1_RowsPushedAgainAreInOnce) {
  ASSERT_TRUE(Push(RowsPush(1, 1), {3}, {1, 1}).ok());
  const auto again = driver_->Ask<v1::PushReply>(
      PeerId::Worker(1), RowsPush(1, 1), RowsPayload({3}, {1, 1}));
  ASSERT_TRUE(again.ok());
  EXPECT_THAT(again->row_results(),
              ElementsAre(v1::PushedBlock::ALREADY_APPLIED));
  EXPECT_EQ(Numbers(PullRows({3}).payload), (std::vector<float>{-1, -1}));
}

TEST_F(ShardSparseTest, Promise1_OfBlocksOfWhichOneIsInTheOthersAreApplied) {
  Use(MakeConfiguration({Sparse("one", 8, 2), Sparse("two", 8, 2)}));
  ASSERT_TRUE(Push(RowsPush(1, 1), {3}, {1, 2}).ok());
  v1::PushRequest both = RowsPush(1, 1);
  AddRows({1, 0}, 2, both.mutable_rows());
  const auto reply = driver_->Ask<v1::PushReply>(
      PeerId::Worker(1), both, RowsPayload({3, 0, 5}, {1, 2, 3, 4, 5, 6}));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_THAT(
      reply->row_results(),
      ElementsAre(v1::PushedBlock::ALREADY_APPLIED, v1::PushedBlock::APPLIED));
  v1::PullRequest pull;
  pull.set_encoding(v1::FP32);
  AddRows({0, 0}, 1, pull.mutable_rows());
  AddRows({1, 0}, 2, pull.mutable_rows());
  EXPECT_EQ(
      Numbers(driver_->Call(PeerId::Worker(1), pull, {RowNumbers({3, 0, 5})})
                  .payload),
      (std::vector<float>{-1, -2, -3, -4, -5, -6}));
}

TEST_F(ShardSparseTest, APushOfNoRowsIsInAndChangesNothing) {
  ASSERT_TRUE(Push(RowsPush(1, 0), {}, {}).ok());
  const auto again =
      driver_->Ask<v1::PushReply>(PeerId::Worker(1), RowsPush(1, 0));
  EXPECT_THAT(again->row_results(),
              ElementsAre(v1::PushedBlock::ALREADY_APPLIED));
  EXPECT_EQ(driver_->Pull(0), std::vector<float>(16));
}

TEST_F(ShardSparseTest, OneChunkHasRowsAndWholeBlocks) {
  v1::PushRequest push = RowsPush(1, 1);
  v1::PushBlock* const dense = push.add_blocks();
  dense->set_slice(1);
  dense->set_elements(2);
  // Names of rows, whole blocks, rows.
  BufferChain payload = RowsPayload({7}, {5, 6, 1, 2});
  const auto reply =
      driver_->Ask<v1::PushReply>(PeerId::Worker(1), push, payload);
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->blocks_size(), 1);
  EXPECT_EQ(reply->row_results_size(), 1);
  EXPECT_EQ(driver_->Pull(1), (std::vector<float>{-5, -6}));
  EXPECT_EQ(Numbers(PullRows({7}).payload), (std::vector<float>{-1, -2}));
}

TEST_F(ShardSparseTest, AdamMovesTheRowsThatAreNamedAlone) {
  Use(MakeAdamConfiguration({Sparse("table", 4, 2)}));
  ASSERT_TRUE(Push(RowsPush(1, 1), {0}, {1, 1}).ok());
  const std::vector<float> first = driver_->Pull(0);
  EXPECT_NE(first[0], 0);
  // Of dense variables the first row's momentum would go on moving it.
  ASSERT_TRUE(Push(RowsPush(2, 1), {1}, {1, 1}).ok());
  const std::vector<float> second = driver_->Pull(0);
  EXPECT_EQ(second[0], first[0]);
  EXPECT_NE(second[2], 0);
}

TEST_F(ShardSparseTest, Promise9_WrongRowsAreNamedAndChangeNothing) {
  const auto expect =
      [&](const v1::PushRequest& push, const std::vector<uint32_t>& rows,
          const std::vector<float>& gradient, const std::string& sentence) {
        const absl::Status status = Push(push, rows, gradient);
        EXPECT_EQ(RefusalOf(status).reason(), v1::Refusal::INVALID);
        EXPECT_THAT(std::string(status.message()), HasSubstr(sentence));
        EXPECT_EQ(driver_->Pull(0), std::vector<float>(16));
      };
  expect(RowsPush(1, 2), {6, 6}, {1, 2, 3, 4}, "they must ascend");
  expect(RowsPush(1, 2), {6, 1}, {1, 2, 3, 4}, "they must ascend");
  expect(RowsPush(1, 1), {8}, {1, 2}, "one is 8; the block has 8");
  expect(RowsPush(1, 9), {0, 1, 2, 3, 4, 5, 6, 7, 8},
         std::vector<float>(18, 1.0f), "which has 8");
  expect(RowsPush(1, 2), {1}, {1, 2, 3, 4}, "bytes of gradient");
  expect(RowsPush(1, 1), {1}, {1, 2, 3}, "bytes of gradient");
  v1::PushRequest dense = RowsPush(1, 1);
  dense.mutable_rows()->set_slices(0, 1);
  expect(dense, {0}, {1, 2}, "is not sparse");
  expect(driver_->MakePush(1, {{0, 0}}, 16), {}, std::vector<float>(16),
         "the variable is sparse: push rows");
  v1::PushRequest twice = RowsPush(1, 1);
  AddRows({0, 0}, 0, twice.mutable_rows());
  expect(twice, {1}, {1, 2}, "names block 0 of 'table' twice");
}

TEST_F(ShardSparseTest, Promise9_ColumnsOfDifferentLengthsAreRefused) {
  v1::PushRequest push = RowsPush(1, 1);
  push.mutable_rows()->add_blocks(0);
  const absl::Status status = Push(push, {1}, {1, 2});
  EXPECT_EQ(RefusalOf(status).reason(), v1::Refusal::INVALID);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("1 slices, 2 blocks and 1 counts"));
  v1::PushRequest read = RowsPush(1, 1);
  read.mutable_rows_computed_on()->add_lives(1);
  EXPECT_THAT(std::string(Push(read, {1}, {1, 2}).message()),
              HasSubstr("on 1 lives and 0 counters"));
  v1::PullRequest pull;
  pull.set_encoding(v1::FP32);
  pull.mutable_rows()->add_slices(0);
  EXPECT_THAT(
      std::string(driver_->Call(PeerId::Worker(1), pull).status.message()),
      HasSubstr("1 slices, 0 blocks and 0 counts"));
  EXPECT_EQ(driver_->Pull(0), std::vector<float>(16));
}

TEST_F(ShardSparseTest, HowStaleRowsAreFollowsFromTheVersionsTheyWereReadOf) {
  const ShardDriver::Answer answer = PullRows({1});
  const auto& read = static_cast<const v1::PullReply&>(*answer.head);
  ASSERT_TRUE(Push(RowsPush(1, 1), {1}, {1, 2}).ok());
  v1::PushRequest stale = RowsPush(2, 1);
  *stale.mutable_rows_computed_on() = read.row_versions();
  ASSERT_TRUE(Push(stale, {1}, {1, 2}).ok());
  v1::StatusReply status;
  driver_->shard().FillStatus(&status);
  EXPECT_EQ(status.server().staleness().blocks(), 1u) << "the first said none";
  EXPECT_EQ(status.server().staleness().sum(), 1u);
}

TEST_F(ShardSparseTest, ARowThatIsNotFiniteIsQuarantined) {
  const absl::Status status =
      Push(RowsPush(1, 2), {1, 2}, {1, 2, std::nanf(""), 4});
  EXPECT_EQ(RefusalOf(status).reason(), v1::Refusal::QUARANTINED);
  EXPECT_EQ(driver_->Pull(0), std::vector<float>(16));
}

TEST_F(ShardSparseTest, APullOfWrongRowsIsRefused) {
  EXPECT_THAT(std::string(PullRows({8}).status.message()),
              HasSubstr("one is 8"));
  EXPECT_THAT(std::string(PullRows({1, 1}).status.message()),
              HasSubstr("they must ascend"));
  EXPECT_THAT(std::string(PullRows({0}, /*slice=*/1).status.message()),
              HasSubstr("is not sparse"));
  v1::PullRequest pull;
  pull.set_encoding(v1::FP32);
  AddRows({0, 0}, 3, pull.mutable_rows());
  EXPECT_THAT(
      std::string(driver_->Call(PeerId::Worker(1), pull, {RowNumbers({1})})
                      .status.message()),
      HasSubstr("has 4 bytes of names of rows; the rows that it counts have "
                "12"));
  pull.mutable_rows()->set_rows(0, 1);
  EXPECT_THAT(
      std::string(driver_->Call(PeerId::Worker(1), pull, {RowNumbers({1, 2})})
                      .status.message()),
      HasSubstr("has 8 bytes of names of rows; the rows that it counts have "
                "4"));
}

TEST_F(ShardSparseTest, Promise2_WhatWasPulledStaysAsItWas) {
  ShardDriver::Answer whole;
  v1::PullRequest pull;
  pull.set_encoding(v1::FP32);
  pull.add_blocks()->set_slice(0);
  whole = driver_->Call(PeerId::Worker(1), pull);
  ASSERT_TRUE(Push(RowsPush(1, 1), {3}, {1, 1}).ok());
  EXPECT_EQ(Numbers(whole.payload), std::vector<float>(16));
  EXPECT_EQ(Numbers(PullRows({3}).payload), (std::vector<float>{-1, -1}));
}

TEST_F(ShardSparseTest, Promise3_ASnapshotHasTheRowsBeforeItsCut) {
  ASSERT_TRUE(Push(RowsPush(1, 1), {2}, {1, 1}).ok());
  v1::PushRequest behind = RowsPush(2, 1);
  *behind.mutable_header()->mutable_snapshot() = Pair(1, 1);
  ASSERT_TRUE(Push(behind, {2}, {10, 10}).ok());
  ASSERT_TRUE(
      driver_->Ask<v1::SealReply>(PeerId::Coordinator(), testing::MakeSeal(1))
          .ok());
  driver_->Settle();
  const auto write = std::find_if(
      driver_->ios.begin(), driver_->ios.end(), [](const Outbox::IoItem& io) {
        return io.head->GetDescriptor() == v1::WriteShard::descriptor();
      });
  ASSERT_NE(write, driver_->ios.end());
  const std::vector<float> saved = Numbers(write->payload);
  EXPECT_THAT(std::vector<float>(saved.begin() + 4, saved.begin() + 6),
              ElementsAre(-1, -1));
  EXPECT_EQ(Numbers(PullRows({2}).payload), (std::vector<float>{-11, -11}));
}

TEST_F(ShardSparseTest, AVariableThatCannotBeSparseIsRefused) {
  ShardDriver driver;
  const auto configured =
      driver.Configure(MakeConfiguration({Sparse("table", 4, 262145)}));
  EXPECT_THAT(std::string(configured.status().message()),
              HasSubstr("the second is at most 262144"));
  v1::Variable untrained = Sparse("table", 4, 2);
  untrained.set_untrained(true);
  ShardDriver other;
  EXPECT_THAT(
      std::string(
          other.Configure(MakeConfiguration({untrained})).status().message()),
      HasSubstr("is trained"));
}

}  // namespace
}  // namespace paramd
