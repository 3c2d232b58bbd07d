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
  const EtcdPlace* const etcd = absl::get_if<EtcdPlace>(&*place);
  ASSERT_NE(etcd, nullptr);
  EXPECT_THAT(etcd->endpoints, ElementsAre("a:2379", "[::1]:2380"));
  EXPECT_EQ(etcd->prefix, "/jobs/mnist");
  EXPECT_EQ(etcd->key(), "/jobs/mnist/chief");
  EXPECT_EQ(etcd->ToString(), "etcd://a:2379,[::1]:2380/jobs/mnist");
}

TEST(ElectionPlaceTest, ALeaseWithOrWithoutItsNamespace) {
  const auto place = ParseElectionPlace("kubernetes://research/mnist.v2");
  ASSERT_TRUE(place.ok()) << place.status();
  const LeasePlace* const lease = absl::get_if<LeasePlace>(&*place);
  ASSERT_NE(lease, nullptr);
  EXPECT_EQ(lease->name_space, "research");
  EXPECT_EQ(lease->name, "mnist.v2");
  EXPECT_EQ(lease->ToString(), "kubernetes://research/mnist.v2");
  const auto own = ParseElectionPlace("kubernetes://mnist");
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(absl::get<LeasePlace>(*own).name_space, "");
  EXPECT_EQ(absl::get<LeasePlace>(*own).ToString(), "kubernetes://mnist");
}

TEST(ElectionPlaceTest, WhatIsWrongWithALeaseIsSaid) {
  const std::pair<const char*, const char*> mistakes[] = {
      {"kubernetes:/a/b", "does not begin with kubernetes://"},
      {"kubernetes://", "'' is not the name of a Lease"},
      {"kubernetes://a/", "'' is not the name of a Lease"},
      {"kubernetes:///b", "'' is not a namespace"},
      {"kubernetes://a.b/c", "'a.b' is not a namespace"},
      {"kubernetes://A/b", "'A' is not a namespace"},
      {"kubernetes://a/b/c", "'b/c' is not the name of a Lease"},
      {"kubernetes://a/-b", "'-b' is not the name of a Lease"},
      {"kubernetes://a/b c", "has blanks or one of the characters"}};
  for (const auto& [text, why] : mistakes) {
    const auto place = ParseElectionPlace(text);
    EXPECT_TRUE(absl::IsInvalidArgument(place.status())) << text;
    EXPECT_THAT(std::string(place.status().message()), HasSubstr(why));
    EXPECT_THAT(std::string(place.status().message()),
                HasSubstr("give kubernetes://[NAMESPACE/]LEASE"));
  }
}

TEST(ElectionPlaceTest, WhatIsWrongIsSaidWithWhatToGive) {
  const std::pair<const char*, const char*> mistakes[] = {
      {"http://a:2379/x", "does not begin with etcd:// or kubernetes://"},
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
