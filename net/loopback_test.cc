#include "net/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

#include "net/testing/loopback_address.h"

namespace paramd {
namespace {

// A TCP connection inside of this machine.
class LoopbackConnectionTest : public ::testing::Test {
 protected:
  LoopbackConnectionTest() {
    sockaddr_in name = {};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = inet_addr(DrawLoopbackHost().c_str());
    socklen_t size = sizeof(name);
    auto* const generic = reinterpret_cast<sockaddr*>(&name);
    EXPECT_EQ(bind(listening_, generic, size), 0);
    EXPECT_EQ(listen(listening_, 1), 0);
    EXPECT_EQ(getsockname(listening_, generic, &size), 0);
    EXPECT_EQ(connect(client_, generic, size), 0);
    server_ = accept(listening_, nullptr, nullptr);
  }
  ~LoopbackConnectionTest() override {
    close(server_);
    close(client_);
    close(listening_);
  }

  static std::string CongestionControl(int fd) {
    char name[16] = {};
    socklen_t size = sizeof(name) - 1;
    EXPECT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size), 0);
    return name;
  }

  const int listening_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int client_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int server_ = -1;
};

TEST_F(LoopbackConnectionTest, BothEndsStayOnTheMachine) {
  EXPECT_TRUE(StaysOnMachine(client_));
  EXPECT_TRUE(StaysOnMachine(server_));
}

TEST_F(LoopbackConnectionTest, WhatIsNoConnectionOfTcpDoesNotStay) {
  EXPECT_FALSE(StaysOnMachine(listening_));
  EXPECT_FALSE(StaysOnMachine(-1));
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  EXPECT_FALSE(StaysOnMachine(pair[0]));
  SendUnpaced(pair[0]);  // Changes nothing.
  close(pair[0]);
  close(pair[1]);
}

TEST_F(LoopbackConnectionTest, AChoiceThatPacesIsReplacedAndNoOther) {
  const std::string choice = CongestionControl(client_);
  SendUnpaced(client_);
  EXPECT_EQ(CongestionControl(client_),
            absl::StartsWith(choice, "bbr") ? "reno" : choice);
  SendUnpaced(client_);
  EXPECT_FALSE(absl::StartsWith(CongestionControl(client_), "bbr"));
  // Where it may be chosen at all.
  if (setsockopt(server_, IPPROTO_TCP, TCP_CONGESTION, "bbr", 3) != 0) return;
  SendUnpaced(server_);
  EXPECT_EQ(CongestionControl(server_), "reno");
}

}  // namespace
}  // namespace paramd
