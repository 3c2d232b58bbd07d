#include "base/crc32c.h"

#include <string>
#include <vector>

#include "base/random.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

absl::Span<const std::byte> Bytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

TEST(Crc32cTest, MatchesRfc3720) {
  EXPECT_EQ(Crc32c(Bytes("123456789")), 0xE3069283u);
  EXPECT_EQ(Crc32c(Bytes(std::string(32, '\0'))), 0x8A9136AAu);
}

TEST(Crc32cTest, FastAndPortableAgreeOnEveryLengthAndContinue) {
  RandomStream random(3);
  std::string text;
  for (int length = 0; length < 100; ++length) {
    EXPECT_EQ(Crc32c(Bytes(text), 77), Crc32cPortable(Bytes(text), 77));
    const std::string head = text.substr(0, length / 3);
    const std::string tail = text.substr(length / 3);
    EXPECT_EQ(Crc32c(Bytes(tail), Crc32c(Bytes(head))), Crc32c(Bytes(text)));
    text.push_back(static_cast<char>(random.Bits()));
  }
}

}  // namespace
}  // namespace paramd
