// Both sides of handing memory over: the listener and those who dial it.
#include "net/memory_listener.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "net/memory_dial.h"

namespace paramd {
namespace {

// Until `done`: the listener does its part on its own thread.
void WaitUntil(const std::function<bool()>& done) {
  while (!done()) std::this_thread::yield();
}

class MemoryListenerTest : public ::testing::Test {
 protected:
  MemoryListenerTest() {
    auto listener = MemoryListener::Start();
    EXPECT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }

  // Hands memory over; an error however it is refused.
  absl::StatusOr<std::shared_ptr<MemoryDial>> Dial() {
    auto dial = MemoryDial::Begin(listener_->offer());
    if (!dial.ok()) return dial;
    absl::Status status;
    WaitUntil([&] {
      status = (*dial)->Look();
      return !absl::IsNotFound(status);
    });
    if (!status.ok()) return status;
    return dial;
  }
  // What a process is told that hands over `fd`.
  absl::Status AnswerTo(int fd) {
    const auto connection = ConnectInMemory(listener_->offer().socket());
    EXPECT_TRUE(SendMemory(connection->get(), fd).ok());
    absl::Status status;
    WaitUntil([&] {
      status = ReceiveMemoryId(connection->get()).status();
      return !absl::IsNotFound(status);
    });
    return status;
  }

  std::unique_ptr<MemoryListener> listener_;
};

TEST_F(MemoryListenerTest, WhatIsHandedOverIsFoundByItsId) {
  const auto dial = Dial();
  ASSERT_TRUE(dial.ok()) << dial.status();
  SharedMemory* const ours = (*dial)->memory();
  const auto theirs = listener_->Find(ours->id());
  ASSERT_NE(theirs, nullptr);
  EXPECT_EQ(listener_->Find(ours->id() + 1), nullptr);
  EXPECT_EQ(listener_->Find(0), nullptr);
  const std::string bytes(100000, 'p');
  v1::SharedPayload shared;
  ASSERT_TRUE(ours->Put({Buffer::Copy(bytes)}, &shared));
  EXPECT_EQ(FlattenForTest(*theirs->Take(shared)), bytes);
}

TEST_F(MemoryListenerTest, EachHasItsOwn) {
  const auto one = Dial();
  const auto two = Dial();
  ASSERT_TRUE(one.ok() && two.ok());
  const uint64_t first = (*one)->memory()->id();
  const uint64_t second = (*two)->memory()->id();
  EXPECT_NE(first, second);
  EXPECT_NE(listener_->Find(first), listener_->Find(second));
}

TEST_F(MemoryListenerTest, WhoGoesIsForgottenAndWhatItSentIsNot) {
  auto dial = Dial();
  ASSERT_TRUE(dial.ok()) << dial.status();
  const uint64_t id = (*dial)->memory()->id();
  const std::string bytes(100000, 'p');
  v1::SharedPayload shared;
  ASSERT_TRUE((*dial)->memory()->Put({Buffer::Copy(bytes)}, &shared));
  const BufferChain held = *listener_->Find(id)->Take(shared);
  dial->reset();
  WaitUntil([&] { return listener_->Find(id) == nullptr; });
  EXPECT_EQ(FlattenForTest(held), bytes);
}

TEST_F(MemoryListenerTest, OtherMemoryIsRefused) {
  const OwnedFd unsealed(memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(AnswerTo(unsealed.get()).code(),
            absl::StatusCode::kPermissionDenied);
  const OwnedFd small(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(fcntl(small.get(), F_ADD_SEALS,
                  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
            0);
  EXPECT_EQ(AnswerTo(small.get()).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(AnswerTo(small.get()).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(Dial().ok());
}

TEST_F(MemoryListenerTest, WhoSaysMoreIsForgotten) {
  const auto connection = ConnectInMemory(listener_->offer().socket());
  const auto made = SharedMapping::Make();
  ASSERT_TRUE(SendMemory(connection->get(), made->fd).ok());
  absl::StatusOr<uint64_t> id;
  WaitUntil([&] {
    id = ReceiveMemoryId(connection->get());
    return !absl::IsNotFound(id.status());
  });
  ASSERT_TRUE(id.ok()) << id.status();
  ASSERT_TRUE(SendMemory(connection->get(), made->fd).ok());
  close(made->fd);
  WaitUntil([&] { return listener_->Find(*id) == nullptr; });
}

TEST_F(MemoryListenerTest, ProcessesBeyondTheBoundAreRefused) {
  std::vector<std::shared_ptr<MemoryDial>> dials;
  for (size_t i = 0; i < MemoryListener::kMostMemories; ++i) {
    auto dial = Dial();
    ASSERT_TRUE(dial.ok()) << i << " " << dial.status();
    dials.push_back(*std::move(dial));
  }
  EXPECT_FALSE(Dial().ok());
  dials.pop_back();
  // One has gone, as the listener will see.
  WaitUntil([this] { return Dial().ok(); });
}

TEST_F(MemoryListenerTest, MemoryThatIsStillReadCounts) {
  std::vector<std::shared_ptr<SharedMemory>> read;
  for (size_t i = 0; i < MemoryListener::kMostMemories; ++i) {
    const auto dial = Dial();
    ASSERT_TRUE(dial.ok()) << i << " " << dial.status();
    read.push_back(listener_->Find((*dial)->memory()->id()));
  }
  for (const auto& memory : read) {
    WaitUntil([&] { return listener_->Find(memory->id()) == nullptr; });
  }
  EXPECT_EQ(Dial().status().code(), absl::StatusCode::kPermissionDenied);
  read.pop_back();
  EXPECT_TRUE(Dial().ok());
}

TEST_F(MemoryListenerTest, ADialIsToldWhenTheListenerGoes) {
  const OwnedFd connection = *ConnectInMemory(listener_->offer().socket());
  const v1::SharedMemoryOffer offer = listener_->offer();
  listener_.reset();
  EXPECT_EQ(ReceiveMemoryId(connection.get()).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(MemoryDial::Begin(offer).status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace paramd
