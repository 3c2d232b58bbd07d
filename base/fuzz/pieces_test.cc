#include "base/fuzz/pieces.h"

#include "gtest/gtest.h"

namespace paramd::fuzz {
namespace {

TEST(PiecesTest, WhatIsAddedIsTaken) {
  std::string bytes;
  AddNumber(0x010203, 3, &bytes);
  AddSized("piece", &bytes);
  bytes += "rest";
  Pieces pieces(bytes);
  EXPECT_EQ(pieces.Number(3), 0x010203u);
  EXPECT_EQ(pieces.TakeSized(), "piece");
  EXPECT_FALSE(pieces.done());
  EXPECT_EQ(pieces.Rest(), "rest");
  EXPECT_TRUE(pieces.done());
}

TEST(PiecesTest, BehindTheEndThereAreZerosAndEmptyPieces) {
  Pieces pieces("\x01");
  EXPECT_EQ(pieces.Number(4), 1u);
  EXPECT_EQ(pieces.Number(8), 0u);
  EXPECT_EQ(pieces.TakeSized(), "");
  EXPECT_EQ(pieces.Take(9), "");
}

TEST(PiecesTest, APieceThatSaysMoreThanThereIsHasWhatThereIs) {
  EXPECT_EQ(Pieces(absl::string_view("\xff\x00\x61", 3)).TakeSized(), "a");
}

}  // namespace
}  // namespace paramd::fuzz
