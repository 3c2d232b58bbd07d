#include "config/election_place.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ElectionPlaceTest, OneAddressOrSeveralAndAPrefix) {
  const auto place = ParseElectionPlace("etcd://a:2379,[::1]:2380/jobs/mnist/");
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_THAT(place->endpoints, ElementsAre("a:2379", "[::1]:2380"));
  EXPECT_EQ(place->prefix, "/jobs/mnist");
  EXPECT_EQ(place->key(), "/jobs/mnist/chief");
  EXPECT_EQ(place->ToString(), "etcd://a:2379,[::1]:2380/jobs/mnist");
}

TEST(ElectionPlaceTest, WhatIsWrongIsSaidWithWhatToGive) {
  const std::pair<const char*, const char*> mistakes[] = {
      {"http://a:2379/x", "does not begin with etcd://"},
      {"etcd://a:2379", "has no prefix"},
      {"etcd://a:2379/", "has no prefix"},
      {"etcd:///x", "'' is not HOST:PORT"},
      {"etcd://a/x", "'a' is not HOST:PORT"},
      {"etcd://a:0/x", "'a:0' is not HOST:PORT"},
      {"etcd://a:65536/x", "'a:65536' is not HOST:PORT"},
      {"etcd://a:1,/x", "'' is not HOST:PORT"},
      {"etcd://a:1,a:1/x", "'a:1' is there twice"},
      {"etcd://user@a:1/x", "has blanks or one of the characters"},
      {"etcd://a:1/x y", "has blanks or one of the characters"}};
  for (const auto& [text, why] : mistakes) {
    const auto place = ParseElectionPlace(text);
    EXPECT_TRUE(absl::IsInvalidArgument(place.status())) << text;
    EXPECT_THAT(std::string(place.status().message()), HasSubstr(why));
    EXPECT_THAT(std::string(place.status().message()),
                HasSubstr("give etcd://HOST:PORT"));
  }
}

}  // namespace
}  // namespace paramd
