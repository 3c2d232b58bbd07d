#include "net/shared_memory.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "base/random.h"

namespace paramd {
namespace {

using End = SharedMemory::End;

constexpr size_t kKib = 1024;
constexpr size_t kUnit = SharedMapping::kUnitBytes;
constexpr size_t kArena = SharedMapping::kArenaBytes;
constexpr uint64_t kId = 0xfeed;

// Bytes that tell `seed` and, every kilobyte, their places.
std::string ChunkPattern(size_t size, uint64_t seed) {
  const uint64_t mixed = (seed * 2654435761u) >> 13;
  std::string bytes(size, static_cast<char>(mixed));
  for (size_t i = 0; i < size; i += kKib) {
    bytes[i] = static_cast<char>(i / kKib + i / kUnit + mixed);
  }
  return bytes;
}

// Two ends of one memory, each with a mapping of its own.
class SharedMemoryTest : public ::testing::Test {
 protected:
  SharedMemoryTest() {
    auto made = SharedMapping::Make();
    EXPECT_TRUE(made.ok()) << made.status();
    auto opened = SharedMapping::Open(made->fd);
    EXPECT_TRUE(opened.ok()) << opened.status();
    close(made->fd);
    words_ = made->mapping;
    client_.emplace(End::kClient, kId, std::move(made->mapping));
    server_.emplace(End::kServer, kId, *std::move(opened));
  }

  // What the client has put; it must have room.
  v1::SharedPayload Put(const std::string& bytes) {
    v1::SharedPayload shared;
    EXPECT_TRUE(client_->Put({Buffer::Copy(bytes)}, &shared));
    return shared;
  }
  // Puts payloads that are dropped at once, three times around; whether one lay
  // where `sought` says.
  bool PutsWhere(size_t size,
                 const std::function<bool(const v1::SharedPayload&)>& sought) {
    bool found = false;
    for (size_t put = 0; put < 3 * kArena; put += size) {
      const v1::SharedPayload shared = Put(ChunkPattern(size, put));
      found = found || sought(shared);
      (void)Take(shared);
    }
    return found;
  }
  BufferChain Take(const v1::SharedPayload& shared) {
    auto taken = server_->Take(shared);
    EXPECT_TRUE(taken.ok()) << taken.status();
    return taken.value_or(BufferChain());
  }
  // What the server says of one piece.
  std::string Refused(uint64_t offset, uint64_t length) {
    v1::SharedPayload shared;
    shared.set_memory(kId);
    auto* const piece = shared.add_pieces();
    piece->set_offset(offset);
    piece->set_length(length);
    const auto taken = server_->Take(shared);
    EXPECT_EQ(taken.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(taken.status().message());
  }

  std::shared_ptr<SharedMapping> words_;
  absl::optional<SharedMemory> client_, server_;
};

TEST_F(SharedMemoryTest, APayloadArrivesFromEitherEnd) {
  const std::string bytes = ChunkPattern(100 * kKib + 1, 1);
  const BufferChain cut = {
      Buffer::Copy(bytes.substr(0, 7)), Buffer::Copy(std::string()),
      Buffer::Copy(bytes.substr(7, 60000)), Buffer::Copy(bytes.substr(60007))};
  v1::SharedPayload shared;
  ASSERT_TRUE(client_->Put(cut, &shared));
  EXPECT_EQ(shared.memory(), kId);
  const BufferChain taken = Take(shared);
  EXPECT_EQ(FlattenForTest(taken), bytes);
  v1::SharedPayload back;
  ASSERT_TRUE(server_->Put(taken, &back));
  auto returned = client_->Take(back);
  ASSERT_TRUE(returned.ok()) << returned.status();
  EXPECT_EQ(FlattenForTest(*returned), bytes);
  EXPECT_EQ(client_->put_bytes(), bytes.size());
  EXPECT_EQ(client_->taken_bytes(), bytes.size());
  EXPECT_EQ(server_->put_bytes(), bytes.size());
  EXPECT_EQ(server_->taken_bytes(), bytes.size());
}

TEST_F(SharedMemoryTest, ASmallPayloadIsLeftToItsMessage) {
  v1::SharedPayload shared;
  const std::string small(SharedMemory::kLeastBytes - 1, 's');
  EXPECT_FALSE(client_->Put({Buffer::Copy(small)}, &shared));
  EXPECT_FALSE(client_->Put({}, &shared));
  EXPECT_EQ(shared.ByteSizeLong(), 0u);
  EXPECT_EQ(client_->without_room(), 0u);
  EXPECT_TRUE(client_->Put({Buffer::Copy(small + "s")}, &shared));
}

TEST_F(SharedMemoryTest, APieceIsReusedWhenItsReceiverHasDroppedItNotBefore) {
  const v1::SharedPayload first = Put(ChunkPattern(40 * kKib, 1));
  BufferChain held = Take(first);
  Buffer part = held[0].Part(5, 10);
  const auto is_first = [&](const v1::SharedPayload& shared) {
    return shared.pieces(0).offset() == first.pieces(0).offset();
  };
  EXPECT_FALSE(PutsWhere(40 * kKib, is_first));
  EXPECT_EQ(FlattenForTest(held), ChunkPattern(40 * kKib, 1));
  held.clear();
  // A part is enough to keep it.
  EXPECT_FALSE(PutsWhere(40 * kKib, is_first));
  EXPECT_EQ(
      std::memcmp(part.bytes().data(), &ChunkPattern(40 * kKib, 1)[5], 10), 0);
  part = Buffer();
  EXPECT_TRUE(PutsWhere(40 * kKib, is_first));
}

TEST_F(SharedMemoryTest, APieceThatNobodyTookIsNotReused) {
  const v1::SharedPayload lost = Put(ChunkPattern(kUnit, 1));
  EXPECT_FALSE(PutsWhere(kUnit, [&](const v1::SharedPayload& shared) {
    return shared.pieces(0).offset() == lost.pieces(0).offset();
  }));
  EXPECT_EQ(FlattenForTest(Take(lost)), ChunkPattern(kUnit, 1));
}

TEST_F(SharedMemoryTest, PiecesWalkOverAsMuchAsTheCachesOfOneCpu) {
  const size_t piece = 24 * kUnit;
  std::vector<uint64_t> offsets;
  for (int i = 0; i < 12; ++i) {
    const v1::SharedPayload shared = Put(ChunkPattern(piece, i));
    offsets.push_back(shared.pieces(0).offset() / piece);
    (void)Take(shared);
  }
  EXPECT_EQ(offsets,
            (std::vector<uint64_t>{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}));
}

TEST_F(SharedMemoryTest, ThePieceThatIsLargeEnoughAndNextIsUsed) {
  std::vector<BufferChain> held;
  std::vector<uint64_t> offsets;
  const auto put = [&](size_t units) {
    const v1::SharedPayload shared = Put(ChunkPattern(units * kUnit, units));
    offsets.push_back(shared.pieces(0).offset() / kUnit);
    held.push_back(Take(shared));
  };
  for (const size_t units : {2, 1, 3, 130}) put(units);
  EXPECT_EQ(offsets, (std::vector<uint64_t>{0, 2, 3, 6}));
  held[0].clear();
  held[2].clear();
  offsets.clear();
  // From the beginning, past what is held, around it, and on from there.
  for (const size_t units : {3, 2, 4}) put(units);
  EXPECT_EQ(offsets, (std::vector<uint64_t>{3, 136, 138}));
  offsets.clear();
  held[4].clear();
  for (const size_t units : {2, 2, 880}) put(units);
  EXPECT_EQ(offsets, (std::vector<uint64_t>{0, 3, 142}));
  offsets.clear();
  put(1);
  EXPECT_EQ(offsets, (std::vector<uint64_t>{5})) << "the end has no room";
}

TEST_F(SharedMemoryTest, AFullArenaHasNoRoom) {
  v1::SharedPayload shared;
  EXPECT_FALSE(
      client_->Put({Buffer::Copy(std::string(kArena + 1, 'x'))}, &shared));
  std::vector<BufferChain> held;
  for (size_t i = 0; i < SharedMapping::kUnits; ++i) {
    held.push_back(Take(Put(ChunkPattern(kUnit, i))));
  }
  const BufferChain more = {Buffer::Copy(ChunkPattern(kUnit, 1))};
  EXPECT_FALSE(client_->Put(more, &shared));
  EXPECT_EQ(client_->without_room(), 2u);
  EXPECT_TRUE(server_->Put(more, &shared));  // The other arena is empty.
  for (size_t i = 0; i < held.size(); ++i) {
    ASSERT_EQ(FlattenForTest(held[i]), ChunkPattern(kUnit, i)) << i;
  }
  held.back().clear();
  EXPECT_TRUE(client_->Put(more, &shared));
  held.clear();
  EXPECT_TRUE(
      client_->Put({Buffer::Copy(std::string(kArena - kUnit, 'x'))}, &shared));
}

TEST_F(SharedMemoryTest, PayloadsOfAllSizesDroppedInAnyOrderStayWhole) {
  RandomStream random(1);
  struct Held {
    BufferChain payload;
    std::string bytes;
  };
  std::vector<Held> held;
  int full = 0;
  for (uint64_t i = 0; i < 800; ++i) {
    const std::string bytes =
        ChunkPattern(SharedMemory::kLeastBytes + random.Below(600 * kKib), i);
    v1::SharedPayload shared;
    if (client_->Put({Buffer::Copy(bytes)}, &shared)) {
      held.push_back({Take(shared), bytes});
    } else {
      ++full;
    }
    while (!held.empty() && random.Chance(held.size() / 90.0)) {
      const size_t drop = random.Below(held.size());
      ASSERT_EQ(FlattenForTest(held[drop].payload), held[drop].bytes) << i;
      std::swap(held[drop], held.back());
      held.pop_back();
    }
  }
  EXPECT_GT(full, 10);
  EXPECT_LT(full, 600);
}

TEST_F(SharedMemoryTest, BadPiecesAreRefusedByName) {
  EXPECT_EQ(Refused(0, kUnit), "shared payload: 16384 bytes at 0 hold nothing");
  (void)Put(ChunkPattern(2 * kUnit, 1));
  const std::string outside =
      absl::StrCat(" do not lie in an arena of ", kArena);
  EXPECT_EQ(Refused(0, 0), "shared payload: 0 bytes at 0" + outside);
  EXPECT_EQ(Refused(0, kArena + 1), absl::StrCat("shared payload: ", kArena + 1,
                                                 " bytes at 0", outside));
  EXPECT_EQ(Refused(kArena, 1),
            absl::StrCat("shared payload: 1 bytes at ", kArena, outside));
  EXPECT_EQ(Refused(kArena - kUnit, kUnit + 1),
            absl::StrCat("shared payload: ", kUnit + 1, " bytes at ",
                         kArena - kUnit, outside));
  EXPECT_EQ(Refused(~uint64_t{0}, 2),
            "shared payload: 2 bytes at 18446744073709551615" + outside);
  EXPECT_EQ(Refused(kUnit, ~uint64_t{0} - kUnit + 1),
            "shared payload: 18446744073709535232 bytes at 16384" + outside);
  EXPECT_EQ(Refused(64, 64),
            "shared payload: 64 bytes at 64 do not begin at a multiple of "
            "16384");
}

TEST_F(SharedMemoryTest, APieceIsNotThereForASecondMessage) {
  const v1::SharedPayload shared = Put(ChunkPattern(kUnit, 1));
  (void)Take(shared);
  EXPECT_EQ(Refused(0, kUnit), "shared payload: 16384 bytes at 0 hold nothing");
}

TEST_F(SharedMemoryTest, APayloadOfOtherMemoryIsRefused) {
  v1::SharedPayload shared = Put(ChunkPattern(kUnit, 1));
  shared.set_memory(kId + 1);
  EXPECT_EQ(server_->Take(shared).status(),
            absl::InvalidArgumentError(
                "shared payload: it lies in memory 000000000000feee; expected "
                "000000000000feed"));
}

TEST_F(SharedMemoryTest, MorePiecesThanAnArenaAreRefused) {
  v1::SharedPayload shared = Put(ChunkPattern(kUnit, 1));
  shared.mutable_pieces(0)->set_length(kArena);
  *shared.add_pieces() = shared.pieces(0);
  const auto taken = server_->Take(shared);
  EXPECT_EQ(taken.status().message(),
            absl::StrCat("shared payload: ", kArena,
                         " bytes at 0 are more than fits beside the pieces "
                         "before them"));
}

TEST_F(SharedMemoryTest, WhatThePeerWritesBesideItsPiecesChangesNothing) {
  std::vector<BufferChain> held;
  for (uint64_t i = 0; i < 4; ++i)
    held.push_back(Take(Put(ChunkPattern(kUnit, i))));
  for (size_t unit = 0; unit < SharedMapping::kUnits; ++unit) {
    words_->word(SharedMapping::Arena::kClient, unit) = ~uint32_t{0};
  }
  EXPECT_EQ(Put(ChunkPattern(kUnit, 5)).pieces(0).offset(), 4 * kUnit);
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(FlattenForTest(held[i]), ChunkPattern(kUnit, i));
  }
}

TEST_F(SharedMemoryTest, WhatWasTakenOutlivesBothEnds) {
  BufferChain held = Take(Put(ChunkPattern(100 * kKib, 1)));
  const std::weak_ptr<const SharedMapping> mapping = server_->mapping();
  client_.reset();
  server_.reset();
  words_.reset();
  EXPECT_FALSE(mapping.expired());
  EXPECT_EQ(FlattenForTest(held), ChunkPattern(100 * kKib, 1));
  held.clear();
  EXPECT_TRUE(mapping.expired());
}

TEST_F(SharedMemoryTest, CallsWithoutAnAnswerWearItOut) {
  for (int i = 0; i < 15; ++i) client_->CountLoss();
  EXPECT_FALSE(client_->worn());
  client_->CountLoss();
  EXPECT_TRUE(client_->worn());
}

// Messages on their way from one thread to others.
class Channel {
 public:
  void Send(v1::SharedPayload shared, uint64_t seed) {
    const std::lock_guard<std::mutex> lock(mutex_);
    messages_.emplace_back(std::move(shared), seed);
    sent_.notify_one();
  }
  // False: there is none any more.
  bool Receive(std::pair<v1::SharedPayload, uint64_t>* message) {
    std::unique_lock<std::mutex> lock(mutex_);
    sent_.wait(lock, [this] { return !messages_.empty() || closed_; });
    if (messages_.empty()) return false;
    *message = std::move(messages_.front());
    messages_.pop_front();
    return true;
  }
  void Close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    sent_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable sent_;
  std::deque<std::pair<v1::SharedPayload, uint64_t>> messages_;
  bool closed_ = false;
};

// The receiving end is one thread's; its Buffers are read and dropped on
// others.
TEST_F(SharedMemoryTest, NothingIsOverwrittenWhileOthersReadAndDrop) {
  constexpr uint64_t kMessages = 2000;
  constexpr size_t kSize = 48 * kKib + 5;
  Channel channel;
  std::mutex taking;
  std::vector<std::thread> readers;
  std::vector<int> wrong(3, 0);
  for (int& count : wrong) {
    readers.emplace_back([&] {
      std::pair<v1::SharedPayload, uint64_t> message;
      while (channel.Receive(&message)) {
        BufferChain taken;
        {
          const std::lock_guard<std::mutex> lock(taking);
          taken = Take(message.first);
        }
        count += FlattenForTest(taken) != ChunkPattern(kSize, message.second);
      }
    });
  }
  uint64_t full = 0;
  for (uint64_t i = 0; i < kMessages;) {
    v1::SharedPayload shared;
    if (!client_->Put({Buffer::Copy(ChunkPattern(kSize, i))}, &shared)) {
      ++full;
      std::this_thread::yield();
      continue;
    }
    channel.Send(std::move(shared), i++);
  }
  channel.Close();
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, std::vector<int>(3, 0));
  EXPECT_EQ(client_->without_room(), full);
}

}  // namespace
}  // namespace paramd
