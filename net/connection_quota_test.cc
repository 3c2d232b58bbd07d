#include "net/connection_quota.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace paramd {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(UnfinishedBytesTest, WhatBecomesMessagesCountsForNothing) {
  UnfinishedBytes bytes;
  uint64_t received = 0;
  for (int i = 0; i < 100'000; ++i) {
    // A megabyte as it travels, and its call.
    received += kMiB + 64 * 31 + 300;
    bytes.Finished(kMiB, 100);
    if (i % 3 != 0) continue;
    EXPECT_EQ(bytes.Update({received, 0}), 0u) << i;
  }
}

TEST(UnfinishedBytesTest, AMessageThatIsNoneYetCounts) {
  UnfinishedBytes bytes;
  EXPECT_EQ(bytes.Update({10 * kMiB, 0}), 10 * kMiB);
  EXPECT_EQ(bytes.Update({30 * kMiB, 0}), 30 * kMiB);
  bytes.Finished(28 * kMiB, 100);
  EXPECT_LT(bytes.Update({30 * kMiB, 0}), 2 * kMiB);
}

TEST(UnfinishedBytesTest, WhoReadsALotAcknowledgesIt) {
  UnfinishedBytes bytes;
  uint64_t sent = 0, received = 0;
  for (int i = 0; i < 100'000; ++i) {
    sent += 4 * kMiB;
    received += 4 * kMiB / 16384 * 2 * 13;
    bytes.Finished(20, 100);
    EXPECT_LT(bytes.Update({received, sent}), kMiB);
  }
}

TEST(UnfinishedBytesTest, SmallMessagesBesideALargeOneHideLittleOfIt) {
  UnfinishedBytes bytes;
  uint64_t received = 0, unfinished = 0;
  for (int i = 0; i < 1000; ++i) {
    received += kMiB;
    bytes.Finished(100, 100);
    unfinished = bytes.Update({received, 0});
  }
  EXPECT_GT(unfinished, 990 * kMiB);
}

// A MiB of it for each 300 of them, which travel in 200 bytes.
TEST(UnfinishedBytesTest, ManySmallMessagesHideLittleOfALargeOne) {
  UnfinishedBytes bytes;
  uint64_t received = 0, unfinished = 0;
  for (int i = 0; i < 1000; ++i) {
    received += kMiB + 300 * 200;
    for (int j = 0; j < 300; ++j) bytes.Finished(0, 100);
    unfinished = bytes.Update({received, 0});
  }
  EXPECT_GT(unfinished, 800 * kMiB);
}

TEST(UnfinishedBytesTest, MetadataIsNoMessage) {
  UnfinishedBytes bytes;
  uint64_t received = 0;
  for (int i = 0; i < 100'000; ++i) {
    received += 3000 + 300;
    bytes.Finished(20, 3000);
    EXPECT_EQ(bytes.Update({received, 0}), 0u) << i;
  }
}

// Said in one byte, once a connection had it.
TEST(UnfinishedBytesTest, OfRepeatedMetadataThreeAndAHalfKibibytesAreBelieved) {
  UnfinishedBytes bytes;
  bytes.Finished(0, kMiB);
  EXPECT_EQ(bytes.Update({2 * kMiB, 0}), 2 * kMiB - 4096);
}

TEST(PeerKeyTest, IsTheSameForGrpcsNameAndTheSocket) {
  EXPECT_EQ(PeerKey("ipv4:10.0.0.7:40112"), "10.0.0.7:40112");
  EXPECT_EQ(PeerKey("ipv6:%5Bfd00::1%5D:40112"), "fd00::1:40112");
  EXPECT_EQ(PeerKey("ipv6:[fd00::1]:40112"), "fd00::1:40112");
}

// What gRPC 1.51 says of the peer: "[fe80::1%2]:40112", quoted as in a URI.
TEST(PeerKeyTest, OfAnAddressOnALinkHasTheLink) {
  sockaddr_storage peer = {};
  auto& v6 = reinterpret_cast<sockaddr_in6&>(peer);
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(40112);
  ASSERT_EQ(inet_pton(AF_INET6, "fe80::1", &v6.sin6_addr), 1);
  v6.sin6_scope_id = 25;
  EXPECT_EQ(PeerKeyOf(peer), "fe80::1%25:40112");
  EXPECT_EQ(PeerKey("ipv6:%5Bfe80::1%2525%5D:40112"), "fe80::1%25:40112");
  v6.sin6_scope_id = 0;
  EXPECT_EQ(PeerKeyOf(peer), "fe80::1:40112");
}

// A connection over loopback; the quota sees the end that was accepted.
class LoopbackPair {
 public:
  // The client has a port of its own, or `port`; it connects to
  // 127.0.0.`host`.
  explicit LoopbackPair(uint16_t port = 0, uint32_t host = 1) {
    const int reuse = 1;
    EXPECT_EQ(
        setsockopt(client_, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse)),
        0);
    const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in name = {};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    name.sin_port = htons(port);
    socklen_t size = sizeof(name);
    auto* const address = reinterpret_cast<sockaddr*>(&name);
    if (port != 0) {
      EXPECT_EQ(bind(client_, address, size), 0);
    }
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host);
    name.sin_port = 0;
    EXPECT_EQ(bind(listening, address, size), 0);
    EXPECT_EQ(listen(listening, 1), 0);
    EXPECT_EQ(getsockname(listening, address, &size), 0);
    EXPECT_EQ(connect(client_, address, size), 0);
    EXPECT_EQ(getsockname(client_, address, &size), 0);
    port_ = ntohs(name.sin_port);
    peer_ = "ipv4:127.0.0.1:" + std::to_string(port_);
    accepted_ = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
    close(listening);
  }
  ~LoopbackPair() {
    if (client_ >= 0) close(client_);
    CloseAccepted();
  }
  LoopbackPair(const LoopbackPair&) = delete;
  LoopbackPair& operator=(const LoopbackPair&) = delete;

  int accepted() const { return accepted_; }
  uint16_t port() const { return port_; }
  // The client, as gRPC names it.
  const std::string& peer() const { return peer_; }

  // Sends so many bytes, which are read at the other end.
  void Send(size_t bytes) {
    std::string part(bytes, 'x');
    ASSERT_EQ(send(client_, part.data(), part.size(), 0),
              static_cast<ssize_t>(bytes));
    ASSERT_EQ(recv(accepted_, part.data(), part.size(), MSG_WAITALL),
              static_cast<ssize_t>(bytes));
  }
  void CloseAccepted() {
    if (accepted_ >= 0) close(accepted_);
    accepted_ = -1;
  }
  // By the client.
  void Reset() {
    const linger none = {1, 0};
    EXPECT_EQ(setsockopt(client_, SOL_SOCKET, SO_LINGER, &none, sizeof(none)),
              0);
    close(client_);
    client_ = -1;
  }
  bool IsOpenForTheClient() const {
    char byte;
    return recv(client_, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0;
  }

 private:
  int client_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int accepted_ = -1;
  uint16_t port_ = 0;
  std::string peer_;
};

TEST(ConnectionQuotaTest, WhoSendsMoreThanMessagesMayHaveIsClosed) {
  ConnectionQuota quota(100'000);
  LoopbackPair pair;
  quota.Opened(pair.accepted());
  EXPECT_EQ(*PeerKeyOf(pair.accepted()), PeerKey(pair.peer()));
  for (int i = 0; i < 10; ++i) {
    pair.Send(60'000);
    quota.Finished(pair.peer(), 60'000, 0);
    EXPECT_TRUE(quota.Look());
  }
  EXPECT_TRUE(pair.IsOpenForTheClient());
  pair.Send(60'000);
  EXPECT_TRUE(quota.Look());
  EXPECT_TRUE(pair.IsOpenForTheClient());
  pair.Send(60'000);
  EXPECT_FALSE(quota.Look());
  EXPECT_EQ(quota.closed(), 1u);
  EXPECT_FALSE(pair.IsOpenForTheClient());
}

TEST(ConnectionQuotaTest, WhatIsClosedIsForgotten) {
  ConnectionQuota quota(100'000);
  LoopbackPair pair;
  quota.Opened(pair.accepted());
  EXPECT_TRUE(quota.Look());
  pair.CloseAccepted();
  EXPECT_FALSE(quota.Look());
  EXPECT_EQ(quota.closed(), 0u);
}

// Else what the first one sends would be counted no more.
TEST(ConnectionQuotaTest, OfTwoWithOneNameTheFirstStaysAndIsCounted) {
  ConnectionQuota quota(100'000);
  LoopbackPair first;
  LoopbackPair second(first.port(), /*host=*/2);
  ASSERT_EQ(first.peer(), second.peer());
  quota.Opened(first.accepted());
  quota.Opened(second.accepted());
  EXPECT_TRUE(first.IsOpenForTheClient());
  EXPECT_FALSE(second.IsOpenForTheClient());
  EXPECT_EQ(quota.closed(), 1u);
  first.Send(60'000);
  EXPECT_TRUE(quota.Look());
  first.Send(60'000);
  EXPECT_FALSE(quota.Look());
  EXPECT_FALSE(first.IsOpenForTheClient());
}

TEST(ConnectionQuotaTest, ANameWhoseConnectionIsOverMayBeHadAgain) {
  for (const bool is_reset : {false, true}) {
    ConnectionQuota quota(100'000);
    LoopbackPair first;
    LoopbackPair second(first.port(), /*host=*/2);
    quota.Opened(first.accepted());
    is_reset ? first.Reset() : first.CloseAccepted();
    quota.Opened(second.accepted());
    EXPECT_TRUE(second.IsOpenForTheClient()) << is_reset;
    EXPECT_EQ(quota.closed(), 0u);
    second.Send(60'000);
    EXPECT_TRUE(quota.Look());
    second.Send(60'000);
    EXPECT_FALSE(quota.Look());
  }
}

// Three connections, none of which sends too much by itself.
class QuotaTogetherTest : public ::testing::Test {
 protected:
  QuotaTogetherTest() {
    for (const LoopbackPair& pair : pairs_) quota_.Opened(pair.accepted());
    quota_.LimitTogether(/*bytes=*/100'000, /*spared=*/20'000);
  }
  std::vector<bool> Open() const {
    std::vector<bool> open;
    for (const LoopbackPair& pair : pairs_) {
      open.push_back(pair.IsOpenForTheClient());
    }
    return open;
  }

  LoopbackPair pairs_[3];
  ConnectionQuota quota_{1'000'000};
};

TEST_F(QuotaTogetherTest, Promise8_WhoHasMostOfTooMuchIsClosed) {
  pairs_[0].Send(30'000);
  pairs_[1].Send(60'000);
  EXPECT_TRUE(quota_.Look());
  EXPECT_EQ(Open(), (std::vector<bool>{true, true, true}));
  pairs_[2].Send(40'000);
  EXPECT_TRUE(quota_.Look());
  EXPECT_EQ(Open(), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(quota_.closed(), 1u);
  EXPECT_TRUE(quota_.Look());
  EXPECT_EQ(quota_.closed(), 1u) << "what is left is not too much";
}

TEST_F(QuotaTogetherTest, AsManyAreClosedAsItTakes) {
  pairs_[0].Send(60'000);
  pairs_[0].Send(60'000);
  pairs_[1].Send(60'000);
  pairs_[1].Send(50'000);
  pairs_[2].Send(10'000);
  EXPECT_TRUE(quota_.Look());
  EXPECT_EQ(Open(), (std::vector<bool>{false, false, true}));
}

TEST_F(QuotaTogetherTest, WhatASessionMayHaveUnderWayIsSpared) {
  quota_.LimitTogether(/*bytes=*/50'000, /*spared=*/20'000);
  for (LoopbackPair& pair : pairs_) pair.Send(19'000);
  EXPECT_TRUE(quota_.Look());
  EXPECT_EQ(Open(), (std::vector<bool>{true, true, true}));
  pairs_[1].Send(2'000);
  EXPECT_TRUE(quota_.Look());
  EXPECT_EQ(Open(), (std::vector<bool>{true, false, true}));
}

TEST_F(QuotaTogetherTest, MessagesThatAreThereCountForNothing) {
  for (int i = 0; i < 10; ++i) {
    for (LoopbackPair& pair : pairs_) {
      pair.Send(60'000);
      quota_.Finished(pair.peer(), 60'000, 0);
    }
    EXPECT_TRUE(quota_.Look());
  }
  EXPECT_EQ(quota_.closed(), 0u);
}

}  // namespace
}  // namespace paramd
