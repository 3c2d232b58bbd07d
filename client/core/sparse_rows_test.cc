#include "client/core/sparse_rows.h"

#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "client/core/chunks.h"
#include "client/core/testing/configurations.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using testing::Floats;
using ::testing::HasSubstr;

// A block has so many rows of 1,024.
constexpr uint32_t kRows = 256;

Buffer RowNumbers(const std::vector<uint64_t>& rows) {
  return Buffer::Copy(AsBytes(absl::MakeConstSpan(rows)));
}

std::vector<uint32_t> AsVector(const Buffer& buffer) {
  const auto* numbers =
      reinterpret_cast<const uint32_t*>(buffer.bytes().data());
  return {numbers, numbers + buffer.size() / sizeof(uint32_t)};
}

// "a" is dense, "t" has three blocks and a half, in two slices on two servers.
Placement TwoSlices() {
  v1::Layout layout = testing::MakeConfiguration(
                          {{"a", {2}, 0}, {"t", {4 * kRows, 1024}, 0}}, 2)
                          .layout();
  layout.mutable_variables(1)->set_sparse(true);
  layout.mutable_variables(1)->set_shape(0, 3 * kRows + kRows / 2);
  layout.mutable_slices(1)->set_row_end(2 * kRows);
  *layout.add_slices() = layout.slices(1);
  layout.mutable_slices(2)->set_row_begin(2 * kRows);
  layout.mutable_slices(2)->set_row_end(3 * kRows + kRows / 2);
  layout.mutable_slices(2)->set_server(1);
  return *Placement::Create(layout, 2);
}

SparseRows Make(const std::vector<uint64_t>& rows) {
  return *SparseRows::Create(TwoSlices(), {RowNumbers(rows)});
}

std::vector<std::vector<size_t>> RunsOf(const SparseRows& rows) {
  std::vector<std::vector<size_t>> runs;
  for (const SparseRows::Run& run : rows.runs()) {
    runs.push_back({run.id.slice, run.id.block, run.rows.begin, run.rows.end});
  }
  return runs;
}

struct NamedBlocks {
  std::vector<BlockId> blocks;
  std::vector<RowSpan> rows;
};
NamedBlocks Named(const SparseRows& rows, const std::vector<size_t>& runs) {
  NamedBlocks named;
  for (const size_t run : runs) {
    named.blocks.push_back(rows.runs()[run].id);
    named.rows.push_back(rows.runs()[run].rows);
  }
  return named;
}

BufferChain NamesOf(const Placement& placement, const SparseRows& rows,
                    const std::vector<size_t>& runs) {
  const NamedBlocks named = Named(rows, runs);
  return rows.NamesOf(placement, GroupRows(placement, named.blocks, named.rows),
                      named.blocks, named.rows);
}

ChunkLimits Limits() {
  ChunkLimits limits;
  limits.chunk_bytes = 3 * (4 + 1024 * 4);
  limits.most_bytes = {limits.chunk_bytes, limits.chunk_bytes};
  return limits;
}

TEST(SparseRowsTest, RowsLieInTheBlocksOfTheirSlices) {
  const SparseRows rows = Make({0, 255, 256, 511, 512, 513, 895});
  EXPECT_THAT(RunsOf(rows),
              ElementsAre(ElementsAre(1, 0, 0, 2), ElementsAre(1, 1, 2, 4),
                          ElementsAre(2, 0, 4, 6), ElementsAre(2, 1, 6, 7)));
  EXPECT_EQ(rows.values(0).size(), 7u * 1024 * sizeof(float));
}

// Rows of 1,000, of which 262 are a block, in two slices on two servers.
Placement WideRows(bool keyed) {
  v1::Layout layout =
      testing::MakeConfiguration({{"t", {1048, 1000}, 0}}, 2).layout();
  layout.mutable_variables(0)->set_sparse(true);
  layout.mutable_variables(0)->set_keyed(keyed);
  layout.mutable_slices(0)->set_row_end(524);
  *layout.add_slices() = layout.slices(0);
  layout.mutable_slices(1)->set_row_begin(524);
  layout.mutable_slices(1)->set_row_end(1048);
  layout.mutable_slices(1)->set_server(1);
  return *Placement::Create(layout, 2);
}

TEST(SparseRowsTest, RowsOfAnyWidthLieInOneBlockEach) {
  const Placement placement = WideRows(/*keyed=*/false);
  const SparseRows rows = *SparseRows::Create(
      placement, {RowNumbers({0, 261, 262, 523, 524, 785, 786, 1047})});
  EXPECT_THAT(RunsOf(rows),
              ElementsAre(ElementsAre(0, 0, 0, 2), ElementsAre(0, 1, 2, 4),
                          ElementsAre(1, 0, 4, 6), ElementsAre(1, 1, 6, 8)));
  const BufferChain names = NamesOf(placement, rows, {0, 1, 2, 3});
  ASSERT_EQ(names.size(), 1u);
  EXPECT_THAT(AsVector(names[0]), ElementsAre(0, 261, 0, 261, 0, 261, 0, 261));
}

TEST(SparseRowsTest, KeysOfRowsOfAnyWidthLieInTheirBuckets) {
  const Placement placement = WideRows(/*keyed=*/true);
  const uint64_t quarter = uint64_t{1} << 62;
  const SparseRows rows = *SparseRows::Create(
      placement, {RowNumbers({0, quarter - 1, quarter, 2 * quarter,
                              3 * quarter - 1, ~uint64_t{0}})});
  EXPECT_THAT(RunsOf(rows),
              ElementsAre(ElementsAre(0, 0, 0, 2), ElementsAre(0, 1, 2, 3),
                          ElementsAre(1, 0, 3, 5), ElementsAre(1, 1, 5, 6)));
}

TEST(SparseRowsTest, OnTheWireARowIsCountedFromItsBlock) {
  const Placement placement = TwoSlices();
  const SparseRows rows = Make({255, 256, 513, 895});
  const BufferChain names = NamesOf(placement, rows, {0, 1, 2, 3});
  ASSERT_EQ(names.size(), 1u) << "they follow one another";
  EXPECT_THAT(AsVector(names[0]), ElementsAre(255, 0, 1, 127));
}

TEST(SparseRowsTest, RowsOfBlocksThatFollowOneAnotherAreOneGroup) {
  const Placement placement = TwoSlices();
  const SparseRows rows = Make({255, 256, 513, 895});
  const auto groups = [&](const std::vector<size_t>& runs) {
    const NamedBlocks named = Named(rows, runs);
    std::vector<std::vector<size_t>> found;
    for (const RowGroup& group :
         GroupRows(placement, named.blocks, named.rows)) {
      EXPECT_EQ(group.variable, 1u);
      found.push_back({group.rows.begin, group.rows.end, group.first_block,
                       group.end_block});
    }
    return found;
  };
  EXPECT_THAT(groups({0, 1, 2, 3}), ElementsAre(ElementsAre(0, 4, 0, 4)));
  EXPECT_THAT(groups({0, 2, 3}),
              ElementsAre(ElementsAre(0, 1, 0, 1), ElementsAre(2, 4, 1, 3)));
  EXPECT_TRUE(GroupRows(placement, {{1, 0}}, {RowSpan()}).empty());
}

TEST(SparseRowsTest, WhatIsSetLiesInTheOrderOfTheRows) {
  const Placement placement = TwoSlices();
  SparseRows rows = Make({1, 600});
  const NamedBlocks named = Named(rows, {1});
  const BufferChain values = {Floats(std::vector<float>(1024, 7))};
  ChainReader reader(values);
  rows.Set(placement, GroupRows(placement, named.blocks, named.rows),
           NumberReader(&reader));
  const auto* floats =
      reinterpret_cast<const float*>(rows.values(0).bytes().data());
  EXPECT_EQ(floats[0], 0);
  EXPECT_EQ(floats[1024], 7);
}

TEST(SparseRowsTest, ABlocksVersionIsThatOfItsLookup) {
  SparseRows rows = Make({1, 300, 600});
  v1::BlockVersions versions;
  for (const uint64_t life : {5, 6}) {
    versions.add_lives(life);
    versions.add_counters(life + 10);
  }
  // Of the first one and the last, as two servers may have them.
  rows.SetVersions({rows.runs()[0].id, rows.runs()[2].id}, versions);
  EXPECT_EQ(rows.version(rows.runs()[0].id).life(), 5u);
  EXPECT_EQ(rows.version(rows.runs()[1].id).life(), 0u) << "not looked up";
  EXPECT_EQ(rows.version(rows.runs()[2].id).counter(), 16u);
  EXPECT_EQ(rows.version({2, 1}).life(), 0u) << "no row of it";
  v1::BlockVersions added;
  rows.AddVersions({{1, 0}, {1, 1}, {2, 0}, {2, 1}}, &added);
  EXPECT_THAT(added.lives(), ElementsAre(5, 0, 6, 0));
  EXPECT_THAT(added.counters(), ElementsAre(15, 0, 16, 0));
}

TEST(SparseRowsTest, RowsThatAreNotThereAreNamed) {
  EXPECT_THAT(std::string(SparseRows::Create(TwoSlices(), {RowNumbers({896})})
                              .status()
                              .message()),
              HasSubstr("there is no row 896 of 't', which has 896"));
  EXPECT_THAT(std::string(SparseRows::Create(TwoSlices(), {RowNumbers({4, 4})})
                              .status()
                              .message()),
              HasSubstr("row 4 of 't' comes after row 4"));
}

// "t" has four buckets of 256 rows for keys, two on each server.
Placement Keyed() {
  v1::Layout layout =
      testing::MakeConfiguration({{"t", {4 * kRows, 1024}, 0}}, 2).layout();
  layout.mutable_variables(0)->set_sparse(true);
  layout.mutable_variables(0)->set_keyed(true);
  layout.mutable_slices(0)->set_row_end(2 * kRows);
  *layout.add_slices() = layout.slices(0);
  layout.mutable_slices(1)->set_row_begin(2 * kRows);
  layout.mutable_slices(1)->set_row_end(4 * kRows);
  layout.mutable_slices(1)->set_server(1);
  return *Placement::Create(layout, 2);
}

constexpr uint64_t kQuarter = uint64_t{1} << 62;

TEST(SparseRowsTest, KeysLieInTheirBucketsAndTravelAsTheyAre) {
  const Placement placement = Keyed();
  const std::vector<uint64_t> keys = {0, kQuarter - 1, kQuarter, 3 * kQuarter,
                                      ~uint64_t{0}};
  const SparseRows rows = *SparseRows::Create(placement, {RowNumbers(keys)});
  EXPECT_THAT(RunsOf(rows),
              ElementsAre(ElementsAre(0, 0, 0, 2), ElementsAre(0, 1, 2, 3),
                          ElementsAre(1, 1, 3, 5)));
  EXPECT_EQ(rows.values(0).size(), 5u * 1024 * sizeof(float));
  const BufferChain wire = NamesOf(placement, rows, {2});
  ASSERT_EQ(wire.size(), 1u);
  ASSERT_EQ(wire[0].size(), 2 * sizeof(uint64_t));
  EXPECT_EQ(std::memcmp(wire[0].bytes().data(), &keys[3], wire[0].size()), 0);
  EXPECT_EQ(wire[0].bytes().data(), rows.numbers(0).bytes().data() + 24)
      << "by reference";
}

TEST(SparseRowsTest, KeysMustAscendAndMayBeAnyNumber) {
  EXPECT_TRUE(SparseRows::Create(Keyed(), {RowNumbers({1, 9999})}).ok());
  EXPECT_THAT(
      std::string(
          SparseRows::Create(Keyed(), {RowNumbers({4, 4})}).status().message()),
      HasSubstr("row 4 of 't' comes after row 4"));
}

TEST(SparseRowsTest, AChunkOfKeysHasEightBytesForEach) {
  const SparseRows rows = *SparseRows::Create(Keyed(), {RowNumbers({0, 1, 2})});
  const auto lookup =
      CutRowsIntoChunks(Keyed(), &rows, /*all_blocks=*/false, Limits());
  ASSERT_EQ(lookup.size(), 1u);
  EXPECT_EQ(lookup[0].bytes, 3u * (8 + 1024 * 4));
}

TEST(SparseRowsTest, ALookupOfMoreKeysThanABucketHasRowsIsCut) {
  std::vector<uint64_t> keys(2 * kRows + 3);
  std::iota(keys.begin(), keys.end(), uint64_t{0});
  const SparseRows rows = *SparseRows::Create(Keyed(), {RowNumbers(keys)});
  ASSERT_EQ(rows.runs().size(), 1u);
  const auto lookup =
      CutRowsIntoChunks(Keyed(), &rows, /*all_blocks=*/false, Limits());
  ASSERT_EQ(lookup.size(), 3u);
  EXPECT_EQ(lookup[1].rows[0].begin, kRows);
  EXPECT_EQ(lookup[2].rows[0].size(), 3u);
  size_t pushed = 0;
  for (const BlockChunk& chunk :
       CutRowsIntoChunks(Keyed(), &rows, /*all_blocks=*/true, Limits())) {
    for (const RowSpan& span : chunk.rows) pushed += span.size();
  }
  EXPECT_EQ(pushed, keys.size()) << "which a push never does";
}

TEST(SparseRowsTest, ALookupHasBlocksWithRowsAndAPushHasAll) {
  const Placement placement = TwoSlices();
  const SparseRows rows = Make({1, 2, 600});
  const auto lookup =
      CutRowsIntoChunks(placement, &rows, /*all_blocks=*/false, Limits());
  ASSERT_EQ(lookup.size(), 2u) << "one a server";
  EXPECT_EQ(lookup[0].blocks.size(), 1u);
  EXPECT_EQ(lookup[0].rows[0].size(), 2u);
  const auto push =
      CutRowsIntoChunks(placement, &rows, /*all_blocks=*/true, Limits());
  size_t blocks = 0;
  for (const BlockChunk& chunk : push) {
    EXPECT_EQ(chunk.rows.size(), chunk.blocks.size());
    blocks += chunk.blocks.size();
  }
  EXPECT_EQ(blocks, 4u);
  EXPECT_EQ(CutRowsIntoChunks(placement, nullptr, true, Limits()).size(), 2u);
}

TEST(SparseRowsTest, AChunkNamesItsBlocksInColumns) {
  const SparseRows rows = Make({0, 1, 256});
  v1::RowBlocks named;
  const auto chunks = CutRowsIntoChunks(TwoSlices(), &rows, false, Limits());
  ASSERT_EQ(chunks.size(), 1u);
  AddRowBlocks(chunks[0], &named);
  EXPECT_THAT(named.slices(), ElementsAre(1, 1));
  EXPECT_THAT(named.blocks(), ElementsAre(0, 1));
  EXPECT_THAT(named.rows(), ElementsAre(2, 1));
}

TEST(SparseRowsTest, ManyRowsTravelInSeveralChunks) {
  const SparseRows rows = Make({0, 1, 256, 257, 258, 600});
  EXPECT_EQ(CutRowsIntoChunks(TwoSlices(), &rows, false, Limits()).size(), 3u)
      << "a block's rows are never divided";
}

}  // namespace
}  // namespace paramd
