#include "net/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

TEST(OverlapAddressesTest, OnePortOfOneHostOrOfAllIsOne) {
  EXPECT_TRUE(OverlapAddresses("127.0.0.1:9090", "127.0.0.1:9090"));
  EXPECT_TRUE(OverlapAddresses("Host:9090", "host:9090"));
  EXPECT_TRUE(OverlapAddresses("0.0.0.0:9090", "127.0.0.1:9090"));
  EXPECT_TRUE(OverlapAddresses("127.0.0.1:9090", "[::]:9090"));
  EXPECT_FALSE(OverlapAddresses("127.0.0.1:9090", "127.0.0.1:9091"));
  EXPECT_FALSE(OverlapAddresses("127.0.0.1:9090", "127.0.0.2:9090"));
  EXPECT_FALSE(OverlapAddresses("127.0.0.1:0", "127.0.0.1:0"))
      << "each gets its own";
  EXPECT_FALSE(OverlapAddresses("", "127.0.0.1:9090"));
}

// Closes what it shows.
class ListenAtTest : public ::testing::Test {
 protected:
  ~ListenAtTest() override {
    for (const int fd : sockets_) close(fd);
  }

  const std::vector<int>& Listen(const std::string& address,
                                 bool or_everywhere) {
    auto sockets = ListenAt(address, or_everywhere);
    EXPECT_TRUE(sockets.ok()) << sockets.status();
    sockets_ = *std::move(sockets);
    return sockets_;
  }

  static sockaddr_in6 NameOf(int fd) {
    sockaddr_in6 name = {};
    socklen_t size = sizeof(name);
    getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size);
    return name;
  }
  static bool IsEverywhere(int fd) {
    const sockaddr_in6 name = NameOf(fd);
    if (name.sin6_family == AF_INET6) {
      return IN6_IS_ADDR_UNSPECIFIED(&name.sin6_addr);
    }
    return reinterpret_cast<const sockaddr_in&>(name).sin_addr.s_addr ==
           htonl(INADDR_ANY);
  }

  std::vector<int> sockets_;
};

TEST(ListenAddressTest, LoopbackNeedsNothing) {
  EXPECT_TRUE(CheckListenAddress("127.3.4.5:2222").ok());
  EXPECT_TRUE(CheckListenAddress("[::1]:2222").ok());
  EXPECT_TRUE(CheckListenAddress("localhost:2222").ok());
}

TEST(ListenAddressTest, OtherAddressesNeedInsecure) {
  EXPECT_EQ(CheckListenAddress("10.1.2.3:2222").message(),
            "listening on 10.1.2.3:2222 without TLS would let in anybody who "
            "reaches it: give it certificates with --tls_dir (paramd tls init "
            "makes them), or pass --insecure if the network is trusted; "
            "loopback addresses need neither");
}

TEST(ListenAddressTest, ANameWithoutAnAddressSaysWhatToDo) {
  const absl::Status status = CheckListenAddress("ps-0.invalid:2222");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              HasSubstr("; correct the name, or pass --insecure if others know "
                        "this machine by it: then it listens on all "
                        "addresses"));
}

TEST(ListenAddressTest, WhatIsNoAddressIsNamed) {
  for (const char* address : {"", "host", ":1", "host:", "host:99999"}) {
    const std::string sentence =
        absl::StrCat("'", address, "' is not host:port");
    EXPECT_EQ(CheckListenAddress(address).message(), sentence);
    EXPECT_EQ(ListenAt(address, /*or_everywhere=*/true).status(),
              absl::InvalidArgumentError(sentence));
  }
}

TEST_F(ListenAtTest, AnAddressOfThisMachineIsTheOnlyOneBound) {
  for (const bool or_everywhere : {false, true}) {
    const auto& sockets = Listen("127.0.0.1:0", or_everywhere);
    ASSERT_EQ(sockets.size(), 1u);
    EXPECT_FALSE(IsEverywhere(sockets[0]));
    close(sockets[0]);
    sockets_.clear();
  }
}

TEST_F(ListenAtTest, APortInUseIsOneSentence) {
  const int fd = Listen("127.0.0.1:0", false)[0];
  const auto name = NameOf(fd);
  const std::string address = absl::StrCat(
      "127.0.0.1:", ntohs(reinterpret_cast<const sockaddr_in&>(name).sin_port));
  EXPECT_EQ(ListenAt(address, /*or_everywhere=*/true).status(),
            absl::AlreadyExistsError(absl::StrCat(
                "cannot listen on ", address,
                ": Address already in use; stop the process that has it, or "
                "give this one another address")));
}

// 192.0.2.0/24 is for documentation.
TEST_F(ListenAtTest, AnAddressOfAnotherMachineCannotBeBound) {
  EXPECT_EQ(ListenAt("192.0.2.1:2222", /*or_everywhere=*/false).status(),
            absl::InvalidArgumentError(
                "cannot listen on 192.0.2.1:2222: Cannot assign requested "
                "address; correct the name, or pass --insecure if others know "
                "this machine by it: then it listens on all addresses"));
}

TEST_F(ListenAtTest, AnAddressOfAnotherMachineMayMeanEverywhere) {
  const auto& sockets = Listen("192.0.2.1:0", /*or_everywhere=*/true);
  ASSERT_EQ(sockets.size(), 1u);
  EXPECT_TRUE(IsEverywhere(sockets[0]));
}

TEST_F(ListenAtTest, ANameWithoutAnAddressMayMeanEverywhere) {
  ::testing::internal::CaptureStderr();
  const auto& sockets = Listen("ps-0.invalid:0", /*or_everywhere=*/true);
  ASSERT_EQ(sockets.size(), 1u);
  EXPECT_TRUE(IsEverywhere(sockets[0]));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("listening on all addresses of this machine port=0 "
                        "instead_of=ps-0.invalid:0 why="));
}

// As Debian's installer has it in /etc/hosts.
TEST_F(ListenAtTest, TheOwnNameThatIsALoopbackAddressIsForTheOthersToo) {
  char name[256] = {};
  ASSERT_EQ(gethostname(name, sizeof(name) - 1), 0);
  const std::string address = absl::StrCat(name, ":0");
  if (absl::EqualsIgnoreCase(name, "localhost") ||
      !CheckListenAddress(address).ok()) {
    GTEST_SKIP() << name << " is no loopback address here";
  }
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(IsEverywhere(Listen(address, /*or_everywhere=*/true)[0]));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("listening on all addresses of this machine"));
  close(sockets_[0]);
  sockets_.clear();
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(IsEverywhere(Listen(address, /*or_everywhere=*/false)[0]));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("only this machine can reach it"));
}

TEST_F(ListenAtTest, LocalhostIsThisMachineAlone) {
  EXPECT_FALSE(IsEverywhere(Listen("localhost:0", /*or_everywhere=*/true)[0]));
}

TEST_F(ListenAtTest, ANameWithoutAnAddressIsRefusedOtherwise) {
  EXPECT_THAT(ListenAt("ps-0.invalid:0", false).status().message(),
              HasSubstr("cannot listen on ps-0.invalid:0: "));
}

}  // namespace
}  // namespace paramd
