#include "server/core/relayed_restore.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/testing/configurations.h"

namespace paramd {
namespace {

using testing::MakeConfiguration;
using testing::Numbers;
using testing::Payload;
using testing::Zeros;

std::unique_ptr<ShardContent> Content(uint32_t server) {
  return *ShardContent::Create(
      MakeConfiguration({Zeros("w", {3}), Zeros("b", {1})}, 3),
      {.server = server, .max_reply_bytes = 1 << 22});
}

v1::FillRequest Piece(uint32_t slice, uint64_t offset, uint64_t total) {
  v1::FillRequest request;
  request.set_slice(slice);
  request.set_offset(offset);
  request.set_total(total);
  return request;
}

TEST(RelayedRestoreTest, PiecesMakeASliceAsIfItHadBeenRead) {
  const auto content = Content(0);
  RelayedRestore handed(content.get());
  v1::FillRequest first = Piece(0, 0, 12);
  first.set_run_id("run");
  first.add_pieces()->set_row_end(3);
  first.mutable_pieces(0)->mutable_saved()->set_variable("w");
  first.add_lost()->set_to(9);
  EXPECT_FALSE(*handed.Add(first, Payload({1})));
  EXPECT_EQ(handed.next().offset(), 4u);
  EXPECT_TRUE(*handed.Add(Piece(0, 4, 12), Payload({2, 3})));
  const IoResult taken = handed.Take();
  EXPECT_EQ(Numbers(taken.payload), (std::vector<float>{1, 2, 3}));
  const auto& read = static_cast<const v1::ReadSlicesResult&>(*taken.head);
  ASSERT_EQ(read.slices_size(), 1);
  EXPECT_EQ(read.slices(0).pieces(0).row_end(), 3u);
  EXPECT_EQ(read.manifest().run_id(), "run");
  EXPECT_EQ(read.manifest().files(0).lost(0).to(), 9u);
  EXPECT_EQ(read.manifest().files(0).slices(0).variable(), "w");
  EXPECT_EQ(handed.next().slice(), 1u);
  EXPECT_FALSE(*handed.Add(Piece(1, 0, 0), {})) << "there is no such slice";
}

TEST(RelayedRestoreTest, InitialValuesComeAsOutOfAWarmStart) {
  const auto content = Content(0);
  RelayedRestore handed(content.get(), RelayedRestore::Content::kInitialValues);
  EXPECT_TRUE(*handed.Add(Piece(0, 0, 12), Payload({1, 2, 3})));
  const IoResult taken = handed.Take();
  EXPECT_EQ(Numbers(taken.payload), (std::vector<float>{1, 2, 3}));
  const auto& read = static_cast<const v1::ReadWarmStartResult&>(*taken.head);
  ASSERT_EQ(read.found_size(), 1);
  EXPECT_TRUE(read.found(0));
  EXPECT_EQ(handed.next().slice(), 1u);
}

TEST(RelayedRestoreTest, WithInitialValuesOfRowsByKeyComeTheirKeys) {
  v1::Variable table = Zeros("table", {3, 2});
  table.set_sparse(true);
  table.set_keyed(true);
  table.set_when_full(v1::Variable::EVICT);
  const auto content = *ShardContent::Create(
      MakeConfiguration({table}, 1), {.server = 0, .max_reply_bytes = 1 << 22});
  RelayedRestore handed(content.get(), RelayedRestore::Content::kInitialValues);
  EXPECT_FALSE(handed.Add(Piece(0, 0, 24), Payload({1})).ok());
  // Values, then a key and a use of each row.
  EXPECT_FALSE(*handed.Add(Piece(0, 0, 72), Payload({1, 2, 3, 4, 5, 6})));
  EXPECT_TRUE(
      *handed.Add(Piece(0, 24, 72), Payload(std::vector<float>(12, 0))));
  EXPECT_EQ(ChainSize(handed.Take().payload), 72u);
}

TEST(RelayedRestoreTest, WhatIsNotNextIsNoMistakeAndChangesNothing) {
  const auto content = Content(0);
  RelayedRestore handed(content.get());
  EXPECT_FALSE(*handed.Add(Piece(0, 4, 12), Payload({2, 3})));
  EXPECT_FALSE(*handed.Add(Piece(1, 0, 12), Payload({2, 3})));
  EXPECT_EQ(handed.next().slice(), 0u);
  EXPECT_EQ(handed.next().offset(), 0u);
}

TEST(RelayedRestoreTest, AServerWithoutSlicesGetsOneEmptyAnswer) {
  const auto content = Content(2);
  ASSERT_TRUE(content->owned().empty());
  RelayedRestore handed(content.get());
  EXPECT_TRUE(*handed.Add(Piece(0, 0, 0), {}));
  const IoResult taken = handed.Take();
  EXPECT_EQ(static_cast<const v1::ReadSlicesResult&>(*taken.head).slices_size(),
            0);
  EXPECT_FALSE(*handed.Add(Piece(0, 0, 0), {}));
}

TEST(RelayedRestoreTest, BytesThatDoNotFitAreRefused) {
  const auto content = Content(0);
  RelayedRestore handed(content.get());
  EXPECT_EQ(
      RefusalOf(handed.Add(Piece(0, 0, 16), Payload({1})).status()).reason(),
      v1::Refusal::INVALID);
  EXPECT_FALSE(handed.Add(Piece(0, 0, 12), Payload({1, 2, 3, 4})).ok());
  EXPECT_FALSE(handed.Add(Piece(0, 0, 12), {}).ok());
  EXPECT_TRUE(*handed.Add(Piece(0, 0, 12), Payload({1, 2, 3})));
}

}  // namespace
}  // namespace paramd
