#include "base/crc32c.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "base/random.h"

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

// Of long runs three parts are taken at once.
TEST(Crc32cTest, FastAndPortableAgreeOnLongRuns) {
  RandomStream random(5);
  std::string text(1 << 20, '\0');
  for (char& c : text) c = static_cast<char>(random.Bits());
  const absl::Span<const std::byte> all = Bytes(text);
  for (const size_t size : {262143, 262144, 262145, 262151, 262168, 1048576}) {
    const auto run = all.first(size);
    EXPECT_EQ(Crc32c(run), Crc32cPortable(run, 0)) << size;
    EXPECT_EQ(Crc32c(run, 77), Crc32cPortable(run, 77)) << size;
  }
}

TEST(Crc32cTest, TheSumOfTwoPartsIsThatOfTheWhole) {
  std::vector<std::byte> bytes(100000);
  uint32_t state = 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::byte>(state >> 24);
  }
  const absl::Span<const std::byte> all(bytes);
  for (const size_t cut : {0, 1, 7, 8, 4096, 65537, 99999, 100000}) {
    EXPECT_EQ(Crc32cOfBoth(Crc32c(all.first(cut)), Crc32c(all.subspan(cut)),
                           all.size() - cut),
              Crc32c(all))
        << cut;
  }
}

}  // namespace
}  // namespace paramd
