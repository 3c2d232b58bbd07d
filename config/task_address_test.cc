#include "config/task_address.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TaskAddressTest, NamesAndNumbersWithPortsAreRight) {
  for (const char* address : {"a:1", "a.b-c_d:65535", "10.0.0.1:2222",
                              "[::1]:80", "[fe80::1%eth0]:80", ":::80"}) {
    EXPECT_EQ(WrongAddress(address, "TF_CONFIG"), absl::nullopt) << address;
  }
}

TEST(TaskAddressTest, WhatIsWrongIsNamed) {
  const auto wrong = [](absl::string_view address) {
    return WrongAddress(address, "--cluster").value_or("");
  };
  EXPECT_THAT(wrong(""), HasSubstr("is empty; wants host:port"));
  EXPECT_THAT(wrong("a"), HasSubstr("\"a\" has no port"));
  EXPECT_THAT(wrong("[::1]"), HasSubstr("has no port"));
  EXPECT_THAT(wrong("a:"), HasSubstr("has \"\" for a port"));
  EXPECT_THAT(wrong("host:port"), HasSubstr("has \"port\" for a port"));
  EXPECT_THAT(wrong("a:0"), HasSubstr("has port 0; ports are from 1 to 65535"));
  EXPECT_THAT(wrong("a:65536"), HasSubstr("from 1 to 65535"));
  EXPECT_THAT(wrong("a:99999999999999"), HasSubstr("from 1 to 65535"));
  EXPECT_THAT(wrong("a:-1"), HasSubstr("wants a number"));
  EXPECT_THAT(wrong(":1"), HasSubstr("for a host"));
  EXPECT_THAT(wrong("fe80::1:7077"),
              HasSubstr("has \"fe80::1\" for a host; an IPv6 address stands in "
                        "brackets, as in [::1]:7077"));
  EXPECT_THAT(wrong("a/b:1"), HasSubstr("has \"a/b\" for a host"));
  EXPECT_THAT(wrong("a b:1"), HasSubstr("for a host"));
  EXPECT_THAT(wrong("[a]:1"), HasSubstr("for a host"));
  EXPECT_THAT(wrong("grpc://a:1"), HasSubstr("has a scheme"));
  EXPECT_THAT(wrong("$(HOST):1"), HasSubstr("`$(HOST)` was not expanded; "
                                            "define that variable before "
                                            "--cluster"));
}

TEST(TaskAddressTest, WhereThisProcessListensPortZeroMayBeAny) {
  EXPECT_EQ(WrongAddress("a:0", "--flag", /*least_port=*/0), absl::nullopt);
  EXPECT_THAT(WrongAddress("a:65536", "--flag", 0).value_or(""),
              HasSubstr("ports are from 0 to 65535"));
}

TEST(TaskAddressTest, PlaceholdersAreToldFromAddresses) {
  EXPECT_TRUE(IsPlaceholder("0.0.0.0:1"));
  EXPECT_TRUE(IsPlaceholder("[::]:2222"));
  EXPECT_FALSE(IsPlaceholder("10.0.0.0:1"));
  EXPECT_FALSE(IsPlaceholder("localhost:1"));
}

TEST(TaskAddressTest, AnOrdinalEndsTheFirstLabel) {
  EXPECT_EQ(OrdinalOf("train-ps-3"), 3);
  EXPECT_EQ(OrdinalOf("train-ps-12.train.svc.cluster-9"), 12);
  EXPECT_EQ(OrdinalOf("algo-1"), 1);
  for (const char* name : {"", "ps", "ps3", "3", "ps-x1", "ps-3-", "-",
                           "ps-99999999999", "ps-65536", "10.0.0.1"}) {
    EXPECT_EQ(OrdinalOf(name), absl::nullopt) << name;
  }
}

TEST(TaskAddressTest, AnOrdinalIsReplacedIfItIsTheExpectedOne) {
  EXPECT_EQ(WithOrdinal("job-worker-3.ns.svc:2222", 3, 0),
            "job-worker-0.ns.svc:2222");
  EXPECT_EQ(WithOrdinal("job-worker-10:2222", 10, 0), "job-worker-0:2222");
  EXPECT_EQ(WithOrdinal("job-worker-4.ns:2222", 3, 0), absl::nullopt);
  EXPECT_EQ(WithOrdinal("10.0.0.3:2222", 3, 0), absl::nullopt);
}

TEST(TaskAddressTest, RangesAreWrittenOut) {
  EXPECT_THAT(
      *ExpandRanges("ps-{0..2}.train:7077"),
      ElementsAre("ps-0.train:7077", "ps-1.train:7077", "ps-2.train:7077"));
  EXPECT_THAT(*ExpandRanges("a{08..10}"), ElementsAre("a08", "a09", "a10"));
  EXPECT_THAT(*ExpandRanges("r{0..1}h{0..1}"),
              ElementsAre("r0h0", "r0h1", "r1h0", "r1h1"));
  EXPECT_THAT(*ExpandRanges("a:1"), ElementsAre("a:1"));
  EXPECT_THAT(*ExpandRanges("a{5..5}"), ElementsAre("a5"));
}

TEST(TaskAddressTest, ARangeThatIsNoneIsRefused) {
  const auto message = [](absl::string_view text) {
    return std::string(ExpandRanges(text).status().message());
  };
  for (const char* text :
       {"a{", "a{}", "a{..}", "a{1..}", "a{..2}", "a{2..1}", "a{-1..2}",
        "a{0..99999999999}", "a{0,1}", "a{0..b}"}) {
    EXPECT_THAT(message(text), HasSubstr("is not a range; write {first..last}"))
        << text;
  }
  EXPECT_THAT(message("a{0..65536}"), HasSubstr("more than 65536 addresses"));
  EXPECT_THAT(message("{0..9999}{0..9999}"), HasSubstr("more than 65536"));
}

}  // namespace
}  // namespace paramd
