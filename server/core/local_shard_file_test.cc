#include "server/core/local_shard_file.h"

#include <algorithm>
#include <string>

#include "gtest/gtest.h"

namespace paramd {
namespace {

BufferChain Pieces() {
  return {Buffer::Copy("header "), Buffer::Copy("values "),
          Buffer::Copy("slots")};
}

TEST(LocalShardFileTest, WindowsOfAnyLengthTogetherAreTheFile) {
  const LocalShardFile file(Pieces());
  ASSERT_EQ(file.total(), 19u);
  for (uint64_t limit = 1; limit <= 20; ++limit) {
    std::string read;
    while (read.size() < file.total()) {
      const std::string window =
          FlattenForTest(file.Window(read.size(), limit));
      EXPECT_EQ(window.size(), std::min(limit, file.total() - read.size()));
      read += window;
    }
    EXPECT_EQ(read, "header values slots");
  }
  EXPECT_TRUE(file.Window(19, 4).empty());
}

TEST(LocalShardFileTest, AWindowRefersToTheBytesThatAreThere) {
  const BufferChain pieces = Pieces();
  const LocalShardFile file(pieces);
  const BufferChain window = file.Window(7, 7);
  ASSERT_EQ(window.size(), 1u);
  EXPECT_EQ(window[0].bytes().data(), pieces[1].bytes().data());
}

}  // namespace
}  // namespace paramd
