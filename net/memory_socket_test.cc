#include "net/memory_socket.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

// Two ends of a connection.
std::pair<OwnedFd, OwnedFd> Connected() {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
  return {OwnedFd(ends[0]), OwnedFd(ends[1])};
}

ino_t InodeOf(int fd) {
  struct stat file = {};
  EXPECT_EQ(fstat(fd, &file), 0);
  return file.st_ino;
}

std::string OwnName(absl::string_view test) {
  return absl::StrCat("paramd-memory_socket_test-", test, "-", getpid());
}

TEST(MemorySocketTest, MemoryGoesOneWayAndItsIdTheOther) {
  const auto [client, server] = Connected();
  const OwnedFd memory(memfd_create("test", MFD_CLOEXEC));
  ASSERT_TRUE(SendMemory(client.get(), memory.get()).ok());
  const auto received = ReceiveMemory(server.get());
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_NE(received->get(), memory.get());
  EXPECT_EQ(InodeOf(received->get()), InodeOf(memory.get()));
  EXPECT_EQ(ReceiveMemoryId(client.get()).status().code(),
            absl::StatusCode::kNotFound);
  ASSERT_TRUE(SendMemoryId(server.get(), 0x123456789abcdef0).ok());
  EXPECT_EQ(*ReceiveMemoryId(client.get()), 0x123456789abcdef0u);
}

TEST(MemorySocketTest, ARefusalAndAnEndAreToldApart) {
  auto [client, server] = Connected();
  ASSERT_TRUE(SendMemoryId(server.get(), 0).ok());
  EXPECT_EQ(ReceiveMemoryId(client.get()).status().code(),
            absl::StatusCode::kPermissionDenied);
  ASSERT_EQ(send(server.get(), "abc", 3, 0), 3);
  EXPECT_EQ(ReceiveMemoryId(client.get()).status().code(),
            absl::StatusCode::kUnavailable);
  server = OwnedFd();
  EXPECT_EQ(ReceiveMemoryId(client.get()).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_FALSE(SendMemory(client.get(), client.get()).ok());
}

TEST(MemorySocketTest, WhatIsNoMemoryIsNotTaken) {
  auto [client, server] = Connected();
  const absl::Status none = absl::UnavailableError("no memory was handed over");
  EXPECT_EQ(ReceiveMemory(server.get()).status(), none);  // Nothing came yet.
  ASSERT_EQ(send(client.get(), "\x01", 1, 0), 1);         // No descriptor.
  EXPECT_EQ(ReceiveMemory(server.get()).status(), none);
  ASSERT_EQ(send(client.get(), "\x02", 1, 0), 1);  // Another format.
  EXPECT_EQ(ReceiveMemory(server.get()).status(), none);
  client = OwnedFd();
  EXPECT_EQ(ReceiveMemory(server.get()).status(), none);
}

// Of files that this process has open under this inode.
int OpenOf(ino_t inode) {
  int count = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    struct stat file = {};
    if (fstat(fd, &file) == 0 && file.st_ino == inode) ++count;
  }
  return count;
}

TEST(MemorySocketTest, MoreDescriptorsThanOneAreRefusedAndClosed) {
  const auto [client, server] = Connected();
  const OwnedFd memory(memfd_create("test", MFD_CLOEXEC));
  const ino_t inode = InodeOf(memory.get());
  for (const size_t count : {size_t{2}, size_t{3}, size_t{200}}) {
    const std::vector<int> fds(count, memory.get());
    std::vector<char> control(CMSG_SPACE(count * sizeof(int)));
    char format = 1;
    iovec content = {&format, 1};
    msghdr message = {};
    message.msg_iov = &content;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(header), fds.data(), count * sizeof(int));
    ASSERT_EQ(sendmsg(client.get(), &message, 0), 1);
    EXPECT_FALSE(ReceiveMemory(server.get()).ok()) << count;
    EXPECT_EQ(OpenOf(inode), 1) << count;
  }
}

TEST(MemorySocketTest, ANameIsListenedAtByOneAndConnectedToByAnybody) {
  const std::string name = OwnName("name");
  EXPECT_EQ(ConnectInMemory(name).status().code(),
            absl::StatusCode::kUnavailable);
  const auto listening = ListenInMemory(name);
  ASSERT_TRUE(listening.ok()) << listening.status();
  EXPECT_FALSE(ListenInMemory(name).ok());
  const auto connected = ConnectInMemory(name);
  ASSERT_TRUE(connected.ok()) << connected.status();
  EXPECT_TRUE(CheckSameUser(connected->get()).ok());
  const OwnedFd accepted(accept(listening->get(), nullptr, nullptr));
  EXPECT_TRUE(CheckSameUser(accepted.get()).ok());
  EXPECT_FALSE(ConnectInMemory("").ok());
  EXPECT_FALSE(ConnectInMemory(std::string(200, 'x')).ok());
}

// No test can become another user everywhere.
TEST(MemorySocketTest, AnotherUserIsRefusedAndRootIsNot) {
  ucred peer = {};
  peer.pid = 12;
  peer.uid = 1001;
  EXPECT_TRUE(CheckSameUser(peer, 1001).ok());
  EXPECT_EQ(CheckSameUser(peer, 1000),
            absl::PermissionDeniedError(
                "process 12 is of user 1001; this one is of user 1000"));
  EXPECT_FALSE(CheckSameUser(peer, 0).ok());
  peer.uid = 0;
  EXPECT_TRUE(CheckSameUser(peer, 1000).ok());
}

TEST(MemorySocketTest, TheMachineHasOneName) {
  EXPECT_FALSE(SharedMachineName().empty());
  EXPECT_EQ(SharedMachineName(), SharedMachineName());
}

}  // namespace
}  // namespace paramd
