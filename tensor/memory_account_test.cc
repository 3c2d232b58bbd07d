#include "tensor/memory_account.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace paramd {
namespace {

constexpr size_t kMib = size_t{1} << 20;

// Of this process, in memory now.
uint64_t ResidentBytes() {
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  unsigned long total = 0;
  unsigned long resident = 0;
  EXPECT_EQ(std::fscanf(file, "%lu %lu", &total, &resident), 2);
  std::fclose(file);
  return uint64_t{resident} * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

void Touch(Buffer* buffer) {
  std::memset(buffer->mutable_bytes().data(), 1, buffer->size());
}

TEST(MemoryAccountTest, ABufferCountsAsLongAsSomebodyHoldsIt) {
  MemoryAccount account;
  EXPECT_EQ(account.bytes(), 0u);
  Buffer buffer = account.Allocate(1000);
  EXPECT_EQ(account.bytes(), 1000u);
  Buffer part = buffer.Part(10, 20);
  buffer = Buffer();
  EXPECT_EQ(account.bytes(), 1000u) << "a part holds the whole";
  part = Buffer();
  EXPECT_EQ(account.bytes(), 0u);
}

TEST(MemoryAccountTest, ABufferMayOutliveTheAccount) {
  auto account = std::make_unique<MemoryAccount>();
  Buffer buffer = account->Allocate(100);
  auto [first, second] = account->AllocateHalves(kMib);
  account.reset();
  Touch(&buffer);
  Touch(&first);
}

TEST(MemoryAccountTest, EachKindIsAlignedAndMayBeWritten) {
  MemoryAccount account;
  std::vector<Buffer> buffers;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100}, 3 * kMib}) {
    buffers.push_back(account.Allocate(size));
    EXPECT_EQ(buffers.back().size(), size);
  }
  auto [first, second] = account.AllocateHalves(kMib);
  EXPECT_EQ(first.size(), kMib);
  EXPECT_EQ(second.size(), kMib);
  buffers.push_back(std::move(first));
  buffers.push_back(std::move(second));
  buffers.push_back(account.AllocateHuge(4 * kMib));
  // Of rows of which no whole number fills a page.
  auto [third, fourth] = account.AllocateHalves(kMib - 16);
  EXPECT_EQ(fourth.size(), kMib - 16);
  buffers.push_back(std::move(third));
  buffers.push_back(std::move(fourth));
  buffers.push_back(account.AllocateHuge(2 * kMib - 8));
  for (Buffer& buffer : buffers) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.bytes().data()) % 64, 0u);
    Touch(&buffer);
  }
  EXPECT_EQ(account.bytes(), 101 + 13 * kMib);
}

TEST(MemoryAccountTest, APartOfAPageCountsAsTheWholeThatIsMapped) {
  constexpr size_t kShort = kMib / 8 * 7 + 4;
  MemoryAccount account;
  {
    auto [first, second] = account.AllocateHalves(kShort);
    EXPECT_EQ(first.size(), kShort);
    EXPECT_EQ(second.size(), kShort);
    EXPECT_EQ(account.bytes(), 2 * kMib);
    first = Buffer();
    EXPECT_EQ(account.bytes(), kMib);
  }
  EXPECT_EQ(account.bytes(), 0u);
  Buffer huge = account.AllocateHuge(2 * kMib + 4);
  EXPECT_EQ(huge.size(), 2 * kMib + 4);
  EXPECT_EQ(account.bytes(), 4 * kMib);
  huge = Buffer();
  EXPECT_EQ(account.bytes(), 0u);
}

TEST(MemoryAccountTest, WhatIsDroppedGoesBackToTheSystemAtOnce) {
  constexpr int kPairs = 32;
  MemoryAccount account;
  std::vector<Buffer> first, second;
  const uint64_t before = ResidentBytes();
  for (int i = 0; i < kPairs; ++i) {
    auto [a, b] = account.AllocateHalves(kMib);
    Touch(&a);
    Touch(&b);
    first.push_back(std::move(a));
    second.push_back(std::move(b));
  }
  const uint64_t full = ResidentBytes();
  EXPECT_GE(full, before + 2 * kPairs * kMib - 4 * kMib);
  first.clear();
  EXPECT_EQ(account.bytes(), kPairs * kMib);
  EXPECT_LE(ResidentBytes(), full - kPairs * kMib + 4 * kMib)
      << "though the other halves stay";
  for (const Buffer& half : second) {
    EXPECT_EQ(half.bytes()[kMib / 2], std::byte{1});
  }
  second.clear();
  EXPECT_EQ(account.bytes(), 0u);
  EXPECT_LE(ResidentBytes(), full - 2 * kPairs * kMib + 4 * kMib);
}

}  // namespace
}  // namespace paramd
