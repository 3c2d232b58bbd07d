#include "net/unreached.h"

#include <string>

#include "gtest/gtest.h"

namespace paramd {
namespace {

std::string Connecting(const std::string& error) {
  return WhyUnreached(
      "failed to connect to all addresses; last error: UNKNOWN: "
      "ipv4:10.0.0.7:7077: " +
      error);
}

std::string Resolving(const std::string& error) {
  return WhyUnreached(
      "DNS resolution failed for ps-0.train:7077: C-ares status is not "
      "ARES_SUCCESS qtype=A name=ps-0.train is_balancer=0: " +
      error);
}

TEST(UnreachedTest, ANameWithoutAnAddressIsNoSuchHost) {
  EXPECT_EQ(Resolving("Domain name not found"), "no such host");
  EXPECT_EQ(Resolving("DNS server returned answer with no data"),
            "no such host");
  EXPECT_EQ(Resolving("Misformatted domain name"), "no such host");
}

TEST(UnreachedTest, AResolverThatDoesNotAnswerIsNotTheHostsFault) {
  EXPECT_EQ(Resolving("Could not contact DNS servers"), "no answer from DNS");
  EXPECT_EQ(Resolving("Timeout while contacting DNS servers"),
            "no answer from DNS");
}

TEST(UnreachedTest, WhatTheKernelSaysIsShortened) {
  EXPECT_EQ(Connecting("Failed to connect to remote host: Connection refused"),
            "refused");
  EXPECT_EQ(Connecting("Failed to connect to remote host: No route to host"),
            "no route");
  EXPECT_EQ(Connecting("Network is unreachable"), "no route");
  EXPECT_EQ(
      Connecting("Failed to connect to remote host: Connection timed out"),
      "timed out");
  EXPECT_EQ(Connecting("Failed to connect to remote host: Timeout occurred"),
            "timed out");
  // An attempt that was given up when its time was over.
  EXPECT_EQ(Connecting("tcp handshaker shutdown"), "timed out");
}

TEST(UnreachedTest, AConnectionThatEndsIsLost) {
  EXPECT_EQ(WhyUnreached("Socket closed"), "connection lost");
  EXPECT_EQ(WhyUnreached("recvmsg:Connection reset by peer"),
            "connection lost");
  EXPECT_EQ(WhyUnreached("sendmsg: Broken pipe"), "connection lost");
  EXPECT_EQ(WhyUnreached("keepalive watchdog timeout"), "timed out");
}

TEST(UnreachedTest, OfWordsThatNobodyKnowsTheLastErrorIsLeft) {
  EXPECT_EQ(Connecting("it rains"), "UNKNOWN: ipv4:10.0.0.7:7077: it rains");
}

TEST(UnreachedTest, WordsThatNobodyKnowsAreCut) {
  EXPECT_EQ(WhyUnreached("the dog ate it"), "the dog ate it");
  EXPECT_EQ(WhyUnreached(std::string(4096, 'x')), std::string(80, 'x'));
}

}  // namespace
}  // namespace paramd
