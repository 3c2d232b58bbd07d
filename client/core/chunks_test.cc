#include "client/core/chunks.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "client/core/testing/configurations.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;

const uint64_t kBlockBytes = kMaxBlockElements * sizeof(float);

// Variables of one server each.
Placement Of(const std::vector<std::pair<uint64_t, uint32_t>>& variables) {
  std::vector<testing::OwnedVariable> owned;
  for (const auto& [elements, server] : variables) {
    owned.push_back({"v" + std::to_string(owned.size()), {elements}, server});
  }
  return *Placement::Create(testing::MakeConfiguration(owned, 2).layout(), 2);
}

// How many blocks each chunk has.
std::vector<size_t> Blocks(const std::vector<BlockChunk>& chunks) {
  std::vector<size_t> blocks;
  for (const BlockChunk& chunk : chunks) blocks.push_back(chunk.blocks.size());
  return blocks;
}

ChunkLimits Limits(uint64_t most) {
  ChunkLimits limits;
  limits.chunk_bytes = kBlockBytes;
  limits.most_bytes = {most, most};
  return limits;
}

TEST(ChunksTest, EachServersBlocksAreKeptInOrder) {
  const auto chunks =
      CutIntoChunks(Of({{3, 0}, {2, 1}, {kMaxBlockElements + 1, 0}, {5, 1}}),
                    Limits(kBlockBytes));
  ASSERT_THAT(Blocks(chunks), ElementsAre(1, 2, 1, 1));
  EXPECT_EQ(chunks[0].server, 0u);
  EXPECT_EQ(chunks[1].server, 1u);
  EXPECT_EQ(chunks[1].bytes, 7 * sizeof(float));
  EXPECT_EQ(chunks[1].blocks[1].slice, 3u);
  EXPECT_EQ(chunks[3].blocks[0].slice, 2u);
  EXPECT_EQ(chunks[3].blocks[0].block, 1u);
}

TEST(ChunksTest, ShorterNumbersAreMoreInAChunk) {
  const Placement placement = Of({{8 * kMaxBlockElements, 0}});
  ChunkLimits limits = Limits(kBlockBytes);
  EXPECT_EQ(CutIntoChunks(placement, limits).size(), 8u);
  limits.number_bytes = 2;
  const auto chunks = CutIntoChunks(placement, limits);
  EXPECT_THAT(Blocks(chunks), ElementsAre(2, 2, 2, 2));
  EXPECT_EQ(chunks[0].bytes, kBlockBytes);
}

TEST(ChunksTest, ALongChunkWaitsForNoOtherVariable) {
  const Placement placement =
      Of({{10, 0}, {20, 0}, {3 * kMaxBlockElements, 0}, {10, 0}});
  ChunkLimits limits = Limits(4 * kBlockBytes);
  EXPECT_THAT(Blocks(CutIntoChunks(placement, limits)), ElementsAre(6));
  limits.one_by_one = true;
  EXPECT_THAT(Blocks(CutIntoChunks(placement, limits)), ElementsAre(2, 3, 1))
      << "small ones still travel together";
}

TEST(ChunksTest, AHeadNamesAtMost16384Blocks) {
  EXPECT_THAT(Blocks(CutIntoChunks(
                  Of(std::vector<std::pair<uint64_t, uint32_t>>(16400, {2, 0})),
                  Limits(4 * kBlockBytes))),
              ElementsAre(16384, 16));
}

}  // namespace
}  // namespace paramd
