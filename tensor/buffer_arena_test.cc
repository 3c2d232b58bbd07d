#include "tensor/buffer_arena.h"

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace paramd {
namespace {

constexpr size_t kAlignment = 64;

// Memory, and whether it is still there.
struct Owned {
  explicit Owned(size_t bytes)
      : memory(std::make_shared<std::vector<std::byte>>(bytes)), gone(memory) {}

  std::shared_ptr<BufferArena> Arena() {
    const absl::Span<std::byte> bytes = absl::MakeSpan(*memory);
    return BufferArena::Create(bytes, kAlignment, std::move(memory));
  }

  std::shared_ptr<std::vector<std::byte>> memory;
  std::weak_ptr<std::vector<std::byte>> gone;
};

TEST(BufferArenaTest, BuffersAreApartBeginWithAPageAndLieThere) {
  Owned owned(10 * kAlignment);
  const std::byte* const first = owned.memory->data();
  const auto arena = owned.Arena();
  std::vector<Buffer> buffers;
  for (const size_t size : {1, 64, 65}) {
    buffers.push_back(arena->Allocate(size));
    EXPECT_EQ(buffers.back().size(), size);
    EXPECT_TRUE(buffers.back().unique());
    EXPECT_TRUE(arena->Has(buffers.back().bytes()));
  }
  EXPECT_EQ(buffers[0].bytes().data(), first);
  EXPECT_EQ(buffers[1].bytes().data(), first + kAlignment);
  EXPECT_EQ(buffers[2].bytes().data(), first + 2 * kAlignment);
  const Buffer other = Buffer::Allocate(8);
  EXPECT_FALSE(arena->Has(other.bytes()));
  EXPECT_FALSE(arena->Has({first + 9 * kAlignment, kAlignment + 1}));
  EXPECT_TRUE(arena->Has({first + 9 * kAlignment, kAlignment}));
}

TEST(BufferArenaTest, WhatIsFullGivesNothing) {
  const auto arena = Owned(4 * kAlignment).Arena();
  EXPECT_TRUE(arena->Allocate(0).empty());
  const Buffer most = arena->Allocate(3 * kAlignment);
  EXPECT_FALSE(most.empty());
  EXPECT_TRUE(arena->Allocate(kAlignment + 1).empty());
  EXPECT_FALSE(arena->Allocate(kAlignment).empty());
}

TEST(BufferArenaTest, WhatComesBackIsGivenAgain) {
  const auto arena = Owned(2 * kAlignment).Arena();
  Buffer one = arena->Allocate(kAlignment);
  const Buffer two = arena->Allocate(kAlignment - 1);
  const std::byte* const place = one.bytes().data();
  EXPECT_TRUE(arena->Allocate(kAlignment).empty());
  one = Buffer();
  EXPECT_EQ(arena->Allocate(kAlignment - 3).bytes().data(), place);
}

TEST(BufferArenaTest, MemoryIsThereUntilTheLastBufferIsDropped) {
  Owned owned(2 * kAlignment);
  const auto gone = owned.gone;
  auto arena = owned.Arena();
  Buffer last = arena->Allocate(kAlignment);
  Buffer before = arena->Allocate(kAlignment);
  arena.reset();
  before = Buffer();
  EXPECT_FALSE(gone.expired());
  last.mutable_bytes()[0] = std::byte{1};
  last = Buffer();
  EXPECT_TRUE(gone.expired());
}

TEST(BufferArenaTest, BuffersAreMadeAndDroppedOnAnyThreads) {
  const auto arena = Owned(64 * kAlignment).Arena();
  std::vector<std::thread> threads;
  std::atomic<int> made{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<Buffer> held;
      for (int i = 0; i < 300; ++i) {
        Buffer buffer = arena->Allocate(kAlignment * (1 + i % 3));
        if (buffer.empty()) {
          held.clear();
          continue;
        }
        buffer.mutable_bytes()[0] = static_cast<std::byte>(t);
        held.push_back(std::move(buffer));
        ++made;
        EXPECT_EQ(held.front().bytes()[0], static_cast<std::byte>(t));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(made, 0);
}

}  // namespace
}  // namespace paramd
