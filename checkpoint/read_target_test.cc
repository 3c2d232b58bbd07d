#include "checkpoint/read_target.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

namespace paramd {
namespace {

constexpr uint64_t kTargetPiece = uint64_t{4} << 20;

TEST(ChainTargetTest, WhatIsReadIsAppendedInPiecesOfAtMostFourMebibytes) {
  ReadBuffers buffers;
  BufferChain chain = {Buffer::Copy("before")};
  ChainTarget target(&buffers, &chain);
  EXPECT_EQ(target.Next(kTargetPiece + 3).size(), kTargetPiece);
  const absl::Span<std::byte> rest = target.Next(3);
  ASSERT_EQ(rest.size(), 3u);
  std::fill(rest.begin(), rest.end(), std::byte{'x'});
  ASSERT_EQ(chain.size(), 3u);
  EXPECT_EQ(FlattenForTest({chain[0], chain[2]}), "beforexxx");
}

TEST(ChainTargetTest, MemoryIsUsedAgainWhenTheChainIsGone) {
  ReadBuffers buffers;
  BufferChain chain;
  ChainTarget target(&buffers, &chain);
  const std::byte* const first = target.Next(kTargetPiece).data();
  EXPECT_NE(target.Next(kTargetPiece).data(), first);
  chain.clear();
  EXPECT_EQ(target.Next(kTargetPiece).data(), first);
}

TEST(SpanTargetTest, ItsMemoryIsHandedOutInOrderAndOnce) {
  std::vector<std::byte> memory(5);
  SpanTarget target(absl::MakeSpan(memory));
  EXPECT_EQ(target.Next(3).data(), memory.data());
  const absl::Span<std::byte> rest = target.Next(8);
  EXPECT_EQ(rest.data(), memory.data() + 3);
  EXPECT_EQ(rest.size(), 2u);
  EXPECT_TRUE(target.Next(1).empty());
}

}  // namespace
}  // namespace paramd
