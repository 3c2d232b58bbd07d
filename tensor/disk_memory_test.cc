#include "tensor/disk_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::Each;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

const size_t kPage = static_cast<size_t>(getpagesize());

DiskRanges Ranges(size_t begin, size_t end) {
  DiskRanges ranges;
  AddPages(begin, end, &ranges);
  return ranges;
}

TEST(DiskRangesTest, AreWholePagesWithin) {
  DiskRanges ranges = Ranges(1, 3 * kPage + 1);
  ASSERT_EQ(ranges.size(), 1);
  EXPECT_EQ(ranges[0].begin, kPage);
  EXPECT_EQ(ranges[0].end, 3 * kPage);
  AddPages(3 * kPage + 1, 5 * kPage - 1, &ranges);
  EXPECT_EQ(ranges.size(), 1) << "there is no whole page in it";
  EXPECT_EQ(BytesOf(ranges), 2 * kPage);
}

TEST(DiskMemoryTest, BothPartsAreWrittenAndReadAlike) {
  const auto disk = *DiskMemory::Create(::testing::TempDir());
  const auto mapping = disk->Map(4 * kPage, Ranges(kPage, 3 * kPage));
  ASSERT_NE(mapping, nullptr);
  EXPECT_EQ(mapping->memory_bytes(), 2 * kPage);
  const absl::Span<std::byte> bytes = mapping->bytes();
  ASSERT_EQ(bytes.size(), 4 * kPage);
  EXPECT_THAT(bytes, Each(std::byte{0}));
  std::vector<std::byte> written(bytes.size());
  for (size_t i = 0; i < written.size(); ++i) written[i] = std::byte(i % 251);
  std::copy(written.begin(), written.end(), bytes.begin());
  // What lies on the disk need not lie in memory.
  ASSERT_EQ(msync(bytes.data() + kPage, 2 * kPage, MS_SYNC), 0);
  ASSERT_EQ(madvise(bytes.data() + kPage, 2 * kPage, MADV_PAGEOUT), 0);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), written.begin()));
}

// Takes its pages from each file without a name in the directory.
void Truncate(const std::string& directory) {
  for (int file = 3; file < 256; ++file) {
    char name[4096];
    const ssize_t length = readlink(
        absl::StrCat("/proc/self/fd/", file).c_str(), name, sizeof(name));
    if (length > 0 &&
        absl::StartsWith(absl::string_view(name, length), directory)) {
      ASSERT_EQ(ftruncate(file, 0), 0);
    }
  }
}

TEST(DiskMemoryTest, ADiskThatFailsEndsTheProcessWithASentence) {
  EXPECT_EXIT(
      {
        const std::string directory = ::testing::TempDir();
        const auto disk = *DiskMemory::Create(directory);
        const auto mapping = disk->Map(kPage, Ranges(0, kPage));
        Truncate(directory);
        mapping->bytes()[0] = std::byte{1};
      },
      ::testing::ExitedWithCode(138), "disk_directory .*the disk failed");
}

TEST(DiskMemoryTest, WhatWasDroppedIsMappedAgainAndZero) {
  const auto disk = DiskMemory::CreateInMemory();
  const DiskRanges ranges = Ranges(0, 2 * kPage);
  ASSERT_TRUE(disk->Reserve(2 * BytesOf(ranges), 2).ok());
  auto one = disk->Map(2 * kPage, ranges);
  auto other = disk->Map(2 * kPage, ranges);
  ASSERT_NE(one, nullptr);
  ASSERT_NE(other, nullptr);
  std::fill(other->bytes().begin(), other->bytes().end(), std::byte{2});
  for (int i = 0; i < 3; ++i) {
    std::fill(one->bytes().begin(), one->bytes().end(), std::byte{1});
    // Whoever reads it last may be another thread.
    std::thread([&] { one.reset(); }).join();
    one = disk->Map(2 * kPage, ranges);
    ASSERT_NE(one, nullptr);
    EXPECT_THAT(one->bytes(), Each(std::byte{0}));
  }
  EXPECT_THAT(other->bytes(), Each(std::byte{2}));
}

TEST(DiskMemoryTest, WhatIsSharedIsCopiedBeforeItIsWritten) {
  const auto disk = DiskMemory::CreateInMemory();
  const DiskRanges ranges = Ranges(kPage, 3 * kPage);
  auto one = disk->Map(4 * kPage, ranges);
  ASSERT_NE(one, nullptr);
  std::fill(one->bytes().begin(), one->bytes().end(), std::byte{1});
  auto other = disk->MapShared(one->bytes().data(), 4 * kPage, ranges);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->memory_bytes(), 2 * kPage);
  std::vector<std::byte> expected(4 * kPage);
  std::fill_n(expected.begin() + kPage, 2 * kPage, std::byte{1});
  EXPECT_THAT(other->bytes(), ElementsAreArray(expected));

  ASSERT_TRUE(disk->Separate(other->bytes().data(), ranges));
  EXPECT_THAT(other->bytes(), ElementsAreArray(expected));
  other->bytes()[kPage] = std::byte{2};
  EXPECT_EQ(one->bytes()[kPage], std::byte{1});
  one->bytes()[2 * kPage] = std::byte{3};
  EXPECT_EQ(other->bytes()[2 * kPage], std::byte{1});
}

TEST(DiskMemoryTest, WhoIsAloneCopiesNothing) {
  const auto disk = DiskMemory::CreateInMemory();
  const DiskRanges ranges = Ranges(0, kPage);
  auto one = disk->Map(kPage, ranges);
  auto other = disk->MapShared(one->bytes().data(), kPage, ranges);
  ASSERT_NE(other, nullptr);
  const std::byte* const place = one->bytes().data();
  std::thread([&] { one.reset(); }).join();
  const auto third = disk->MapShared(other->bytes().data(), kPage, ranges);
  ASSERT_NE(third, nullptr);
  ASSERT_TRUE(disk->Separate(third->bytes().data(), ranges));
  // Both are alone.
  ASSERT_TRUE(disk->Separate(other->bytes().data(), ranges));
  third->bytes()[0] = std::byte{3};
  EXPECT_EQ(other->bytes()[0], std::byte{0});
  if (place != third->bytes().data()) {
    EXPECT_EQ(disk->MapShared(place, kPage, ranges), nullptr);
  }
}

TEST(DiskMemoryTest, OnlyWhatWasMappedSoIsShared) {
  const auto disk = DiskMemory::CreateInMemory();
  const auto one = disk->Map(2 * kPage, Ranges(0, kPage));
  EXPECT_EQ(
      disk->MapShared(one->bytes().data() + kPage, kPage, Ranges(0, kPage)),
      nullptr);
  EXPECT_EQ(
      disk->MapShared(one->bytes().data(), 2 * kPage, Ranges(0, 2 * kPage)),
      nullptr);
}

TEST(DiskMemoryTest, AMappingOutlivesTheDisk) {
  auto disk = DiskMemory::CreateInMemory();
  const auto mapping = disk->Map(kPage, Ranges(0, kPage));
  disk.reset();
  ASSERT_NE(mapping, nullptr);
  mapping->bytes()[0] = std::byte{7};
  EXPECT_EQ(mapping->bytes()[0], std::byte{7});
}

TEST(DiskMemoryTest, WithoutADirectoryThereIsNone) {
  const auto disk = DiskMemory::Create("/does/not/exist");
  EXPECT_EQ(disk.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(disk.status().message()),
              HasSubstr("no file can be made in disk_directory "
                        "'/does/not/exist': No such file"));
}

TEST(DiskMemoryTest, ADiskWithoutRoomIsSaidBeforeItIsUsed) {
  const auto disk = *DiskMemory::Create(::testing::TempDir());
  const absl::Status status = disk->Reserve(uint64_t{1} << 60, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("has no room for the"));
}

TEST(DiskMemoryTest, MoreMappingsThanTheKernelAllowsAreRefused) {
  const auto disk = DiskMemory::CreateInMemory();
  const absl::Status status = disk->Reserve(kPage, uint64_t{1} << 40);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("vm.max_map_count"));
}

}  // namespace
}  // namespace paramd
