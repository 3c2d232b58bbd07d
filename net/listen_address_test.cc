#include "net/listen_address.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(ListenAddressTest, LoopbackNeedsNothing) {
  EXPECT_TRUE(CheckListenAddress("127.3.4.5:2222", false).ok());
  EXPECT_TRUE(CheckListenAddress("[::1]:2222", false).ok());
  EXPECT_TRUE(CheckListenAddress("localhost:2222", false).ok());
}

TEST(ListenAddressTest, OtherAddressesNeedInsecure) {
  EXPECT_EQ(CheckListenAddress("10.1.2.3:2222", false).message(),
            "listening on 10.1.2.3:2222 without TLS would let in anybody who "
            "reaches it: pass --insecure if the network is trusted, or set up "
            "TLS once this build has it; loopback addresses need neither");
  EXPECT_TRUE(CheckListenAddress("10.1.2.3:2222", true).ok());
}

TEST(ListenAddressTest, WhatIsNoAddressIsNamed) {
  for (const char* address : {"", "host", ":1", "host:", "host:99999"}) {
    EXPECT_EQ(CheckListenAddress(address, true).code(),
              absl::StatusCode::kInvalidArgument)
        << address;
  }
}

TEST(ListenAddressTest, AnAddressOfAnotherMachineCannotBeBound) {
  // 192.0.2.0/24 is for documentation.
  const absl::Status why = WhyBindFails("192.0.2.1:2222");
  EXPECT_EQ(why.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(why.message(),
            "cannot listen on 192.0.2.1:2222: Cannot assign requested address");
}

}  // namespace
}  // namespace paramd
