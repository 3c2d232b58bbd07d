#include "tensor/buffer.h"

#include <string>

#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(BufferTest, ACopySharesTheBytesAndIsNotUnique) {
  Buffer a = Buffer::Copy(std::string("abcdef"));
  EXPECT_TRUE(a.unique());
  {
    Buffer b = a;
    EXPECT_FALSE(a.unique());
    EXPECT_EQ(b.bytes().data(), a.bytes().data());
  }
  EXPECT_TRUE(a.unique());
}

TEST(BufferTest, APartKeepsTheWholeAlive) {
  Buffer part;
  {
    const Buffer whole = Buffer::Copy(std::string("abcdef"));
    part = whole.Part(2, 3);
  }
  EXPECT_EQ(FlattenForTest({part}), "cde");
}

TEST(BufferTest, ForeignBytesAreReleasedOnceByTheLastHolder) {
  int released = 0;
  const std::string bytes = "xyz";
  {
    const Buffer a = Buffer::Foreign(
        {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()},
        [](void* count) { ++*static_cast<int*>(count); }, &released);
    const Buffer b = a.Part(1, 1);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
}

TEST(BufferTest, AllocatedBytesAreAligned) {
  const Buffer a = Buffer::Allocate(100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.bytes().data()) % 64, 0u);
  EXPECT_EQ(a.size(), 100u);
}

TEST(BufferTest, MuchMemoryIsOfHugePages) {
  constexpr size_t kSize = (size_t{4} << 20) + 3;
  Buffer big = Buffer::Allocate(kSize);
  EXPECT_EQ(big.size(), kSize);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(big.bytes().data()) % (2 << 20), 0u);
  big.mutable_bytes()[kSize - 1] = std::byte{9};
  Buffer end = big.Part(kSize - 1, 1);
  EXPECT_FALSE(big.unique());
  big = Buffer();
  EXPECT_EQ(end.bytes()[0], std::byte{9});
}

TEST(ChainReaderTest, ReadsAcrossPiecesAndStopsAtTheEnd) {
  const BufferChain chain = {Buffer::Copy(std::string("ab")), Buffer(),
                             Buffer::Copy(std::string("cdefg"))};
  ChainReader reader(chain);
  EXPECT_EQ(reader.remaining(), 7u);
  std::string three(3, '?');
  EXPECT_TRUE(
      reader.Read({reinterpret_cast<std::byte*>(three.data()), three.size()}));
  EXPECT_EQ(three, "abc");
  EXPECT_EQ(FlattenForTest(reader.Take(2)), "de");
  EXPECT_EQ(reader.Next(100).size(), 2u);
  EXPECT_TRUE(reader.Next(100).empty());
  EXPECT_FALSE(
      reader.Read({reinterpret_cast<std::byte*>(three.data()), three.size()}));
}

}  // namespace
}  // namespace paramd
