#include "checkpoint/sorted_table.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/crc32c.h"
#include "tensor/buffer.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Entries = std::vector<std::pair<std::string, std::string>>;

// Reads what leveldb/doc/table_format.md describes, strictly.
class Reader {
 public:
  explicit Reader(std::string file) : file_(std::move(file)) {}

  Entries All() {
    EXPECT_GE(file_.size(), 48u);
    size_t at = file_.size() - 48;
    EXPECT_EQ(Fixed(file_.size() - 8, 8), 0xdb4775248b80fb57u);
    const auto meta = Handle(file_, &at);
    EXPECT_THAT(Block(meta), IsEmpty());
    Entries all;
    for (const auto& [last, handle] : Block(Handle(file_, &at))) {
      size_t begin = 0;
      ++blocks;
      for (auto& entry : Block(Handle(handle, &begin))) all.push_back(entry);
      EXPECT_EQ(all.back().first, last);
    }
    return all;
  }

  int blocks = 0;

 private:
  uint64_t Fixed(size_t at, int bytes) const {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; --i) {
      value = value << 8 | static_cast<unsigned char>(file_.at(at + i));
    }
    return value;
  }
  static uint64_t Varint(const std::string& bytes, size_t* at) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at((*at)++));
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
  }
  static std::pair<uint64_t, uint64_t> Handle(const std::string& bytes,
                                              size_t* at) {
    const uint64_t offset = Varint(bytes, at);
    return {offset, Varint(bytes, at)};
  }

  Entries Block(const std::pair<uint64_t, uint64_t>& handle) {
    const auto [offset, size] = handle;
    const std::string bytes = file_.substr(offset, size);
    EXPECT_EQ(file_.at(offset + size), 0);  // Not compressed.
    EXPECT_EQ(
        Fixed(offset + size + 1, 4),
        MaskedCrc32c(Crc32c(AsBytes<char>({file_.data() + offset, size + 1}))));
    const uint64_t restarts = Fixed(offset + size - 4, 4);
    const size_t end = size - 4 - 4 * restarts;
    Entries entries;
    size_t entry = 0, next_restart = 0;
    for (size_t at = 0; at < end;) {
      const size_t begin = at;
      const uint64_t shared = Varint(bytes, &at);
      const uint64_t rest = Varint(bytes, &at);
      const uint64_t value = Varint(bytes, &at);
      if (next_restart < restarts &&
          Fixed(offset + end + 4 * next_restart, 4) == begin) {
        EXPECT_EQ(shared, 0u);
        ++next_restart;
      }
      std::string key =
          entry == 0 ? "" : entries.back().first.substr(0, shared);
      key += bytes.substr(at, rest);
      entries.emplace_back(key, bytes.substr(at + rest, value));
      at += rest + value;
      ++entry;
    }
    EXPECT_EQ(next_restart, entries.empty() ? 0 : restarts);
    return entries;
  }

  const std::string file_;
};

std::string Written(const Entries& entries) {
  const std::string path = ::testing::TempDir() + "/table";
  std::filesystem::remove(path);
  auto file = NewFile::Create(path);
  EXPECT_TRUE(file.ok()) << file.status();
  SortedTableWriter table(file->get());
  for (const auto& [key, value] : entries) {
    EXPECT_TRUE(table.Add(key, value).ok());
  }
  EXPECT_TRUE(table.Finish().ok());
  EXPECT_TRUE((*file)->Finish().ok());
  return *ReadWholeFile(path, uint64_t{1} << 30);
}

TEST(SortedTableTest, WithoutEntriesItHasNone) {
  Reader reader(Written({}));
  EXPECT_THAT(reader.All(), IsEmpty());
}

TEST(SortedTableTest, ItHasWhatWasAddedInBlocksOfAFewKilobytes) {
  Entries entries = {{"", "the empty key"}};
  for (int i = 0; i < 1000; ++i) {
    entries.emplace_back(absl::StrFormat("layer/%04d/kernel", i),
                         std::string(i % 90, static_cast<char>(i)));
  }
  const std::string file = Written(entries);
  Reader reader(file);
  EXPECT_EQ(reader.All(), entries);
  EXPECT_GT(reader.blocks, 10);
  // What keys have in common is not written again and again.
  EXPECT_LT(file.size(), 1000u * (45 + 15));
}

TEST(SortedTableTest, AValueMayBeLargerThanABlock) {
  const Entries entries = {{"a", std::string(10000, 'x')}, {"b", "y"}};
  Reader reader(Written(entries));
  EXPECT_EQ(reader.All(), entries);
  EXPECT_EQ(reader.blocks, 2);
}

TEST(SortedTableTest, TheMaskIsThatOfTheFormat) {
  // From the crc32c of "foo"; masking once more gives another number.
  const std::string foo = "foo";
  const uint32_t crc = Crc32c(AsBytes<char>({foo.data(), foo.size()}));
  EXPECT_EQ(crc, 0xcfc4ae1du);
  EXPECT_EQ(MaskedCrc32c(crc), 0xfebe8a61u);
  EXPECT_NE(MaskedCrc32c(MaskedCrc32c(crc)), crc);
}

TEST(SortedTableTest, VarintsHaveSevenBitsAByte) {
  std::string bytes;
  AppendVarint(300, &bytes);
  EXPECT_THAT(bytes, ElementsAre('\xac', '\x02'));
  bytes.clear();
  AppendVarint(~uint64_t{0}, &bytes);
  EXPECT_EQ(bytes, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
}

TEST(SortedTableDeathTest, KeysOutOfOrderEndTheProcess) {
  const auto out_of_order = [] { Written({{"b", ""}, {"a", ""}}); };
  EXPECT_DEATH(out_of_order(), "keys of a table come in order");
}

}  // namespace
}  // namespace paramd
