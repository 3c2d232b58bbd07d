#include "checkpoint/read_buffers.h"

#include <cstddef>

#include "gtest/gtest.h"

namespace paramd {
namespace {

constexpr size_t kPiece = size_t{4} << 20;

TEST(ReadBuffersTest, APieceIsUsedAgainWhenNobodyHoldsIt) {
  ReadBuffers buffers;
  Buffer first = buffers.Take(kPiece);
  ASSERT_EQ(first.size(), kPiece);
  const std::byte* const memory = first.bytes().data();
  buffers.Keep(first);
  const Buffer second = buffers.Take(kPiece);
  EXPECT_NE(second.bytes().data(), memory);
  first = Buffer();
  Buffer third = buffers.Take(kPiece);
  EXPECT_EQ(third.bytes().data(), memory);
  third.mutable_bytes()[0] = std::byte{1};  // It has one holder.
}

TEST(ReadBuffersTest, AnotherSizeIsAnotherPiece) {
  ReadBuffers buffers;
  buffers.Keep(buffers.Take(kPiece));
  EXPECT_EQ(buffers.Take(kPiece / 2).size(), kPiece / 2);
  EXPECT_EQ(buffers.bytes(), kPiece);
}

TEST(ReadBuffersTest, WhatIsKeptHasABound) {
  ReadBuffers buffers;
  for (int i = 0; i < 20; ++i) buffers.Keep(Buffer::Allocate(kPiece));
  EXPECT_EQ(buffers.bytes(), 16 * kPiece);
  buffers.Keep(Buffer::Allocate(100));
  EXPECT_EQ(buffers.bytes(), 16 * kPiece);
}

TEST(ReadBuffersTest, WhoReadsOnePieceAtATimeKeepsLess) {
  ReadBuffers buffers(2 * kPiece);
  // No two of a size, so none is used again.
  for (size_t i = 0; i < 20; ++i) buffers.Keep(buffers.Take(kPiece - i));
  EXPECT_LE(buffers.bytes(), 2 * kPiece);
  EXPECT_GT(buffers.bytes(), kPiece);
}

TEST(ReadBuffersTest, APieceOutlivesIt) {
  Buffer piece;
  {
    ReadBuffers buffers;
    piece = buffers.Take(kPiece);
    buffers.Keep(piece);
  }
  piece.mutable_bytes()[kPiece - 1] = std::byte{1};
}

}  // namespace
}  // namespace paramd
