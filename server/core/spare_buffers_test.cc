#include "server/core/spare_buffers.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(SpareBuffersTest, ABufferIsTakenAgainOnlyWhenNobodyElseReadsIt) {
  SpareBuffers spare;
  const Buffer read = Buffer::Allocate(64);
  spare.Give(read);
  const Buffer other = spare.Take(64);
  EXPECT_NE(other.bytes().data(), read.bytes().data());
  EXPECT_EQ(spare.count(), 1u);

  const std::byte* const place = other.bytes().data();
  spare.Give(Buffer(other).Part(0, 64));
  EXPECT_EQ(spare.count(), 2u);
  EXPECT_NE(spare.Take(64).bytes().data(), place) << "still held here";
}

TEST(SpareBuffersTest, OnlyTheWantedSizeIsTaken) {
  SpareBuffers spare;
  Buffer small = Buffer::Allocate(8);
  const std::byte* const place = small.bytes().data();
  spare.Give(std::move(small));
  EXPECT_EQ(spare.Take(16).size(), 16u);
  EXPECT_EQ(spare.Take(8).bytes().data(), place);
  EXPECT_EQ(spare.count(), 0u);
}

TEST(SpareBuffersTest, Promise8_TheListIsBounded) {
  SpareBuffers spare(2);
  for (int i = 0; i < 10; ++i) spare.Give(Buffer::Allocate(8));
  EXPECT_EQ(spare.count(), 2u);
}

}  // namespace
}  // namespace paramd
