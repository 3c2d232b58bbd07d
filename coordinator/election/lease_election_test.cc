// A chief that is elected by a Lease: what differs from an etcd's.

#include <stdlib.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/election/chief_election.h"
#include "coordinator/election/chief_watch.h"
#include "coordinator/election/lease_record.h"
#include "coordinator/election/testing/fake_api_server.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

constexpr char kLeaseOfChief[] =
    "/apis/coordination.k8s.io/v1/namespaces/research/leases/mnist";

class LeaseElectionTest : public ::testing::Test {
 protected:
  LeaseElectionTest() {
    options_.state_directory = NewDirectory();
    options_.ttl = absl::Seconds(3);
    options_.patience = absl::Seconds(20);
  }

  static std::string NewDirectory() {
    std::string path = absl::StrCat(::testing::TempDir(), "/lease-XXXXXX");
    return mkdtemp(path.data());
  }
  std::unique_ptr<ChiefRecord> Record() {
    return std::make_unique<LeaseRecord>(LeasePlace{"research", "mnist"},
                                         server_.Connect(),
                                         absl::Milliseconds(50));
  }
  absl::StatusOr<std::unique_ptr<ChiefElection>> Stand(
      const std::string& address, uint64_t incarnation, uint64_t replaces = 0) {
    ChiefElection::Options options = options_;
    options.address = address;
    options.incarnation = incarnation;
    options.replaces = replaces;
    return ChiefElection::Stand(options, Record());
  }
  std::string Leader() const {
    const auto lease = server_.Get(kLeaseOfChief);
    if (lease.is_null()) return "nobody";
    const auto chief = ElectedChief::FromText(
        lease["spec"]["holderIdentity"].get<std::string>());
    return chief.has_value() ? chief->address : "nobody";
  }
  // Waits until `holds` does, 10 s at most.
  template <typename Holds>
  static bool Eventually(Holds holds) {
    for (int looks = 0; looks < 1000; ++looks) {
      if (holds()) return true;
      absl::SleepFor(absl::Milliseconds(10));
    }
    return false;
  }

  FakeApiServer server_;
  ChiefElection::Options options_;
};

TEST_F(LeaseElectionTest, WhoeverResignsIsFollowedBeforeItsLeaseIsOver) {
  options_.ttl = absl::Seconds(600);
  auto first = Stand("a:1", 7);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(Leader(), "a:1");
  EXPECT_TRUE((*first)->Confirm().ok());
  const uint64_t token = (*first)->token();
  absl::StatusOr<std::unique_ptr<ChiefElection>> second =
      absl::UnknownError("it still stands");
  std::thread standing([&] { second = Stand("b:1", 8); });
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_EQ(Leader(), "a:1");
  (*first)->Resign();
  standing.join();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(Leader(), "b:1");
  EXPECT_TRUE((*second)->stood_by());
  EXPECT_GT((*second)->token(), token);
}

TEST_F(LeaseElectionTest, OneWhoseLeaseIsAnotherOnesIsTheChiefNoMore) {
  auto first = Stand("a:1", 7);
  ASSERT_TRUE(first.ok());
  auto lease = server_.Get(kLeaseOfChief);
  lease["spec"]["holderIdentity"] =
      ElectedChief{"b:1", 8, 9}.ToText();  // As one that took it meanwhile.
  lease["spec"]["leaseTransitions"] = 1;
  server_.Put(kLeaseOfChief, lease);
  EXPECT_TRUE(absl::IsUnavailable((*first)->Confirm()));
  EXPECT_THAT(std::string((*first)->Check().message()),
              HasSubstr("is not the chief any more: its lease in "
                        "kubernetes://research/mnist has ended"));
  first->reset();  // Resigns from nothing.
  EXPECT_EQ(Leader(), "b:1");
}

TEST_F(LeaseElectionTest, WhileTheApiServerIsAwayTheChiefStaysAndSaysSo) {
  auto chief = Stand("a:1", 7);
  ASSERT_TRUE(chief.ok());
  server_.GoAway();
  EXPECT_TRUE(Eventually([&] { return (*chief)->away().has_value(); }));
  EXPECT_THAT((*chief)->away()->why, HasSubstr("the API server at fake:443"));
  absl::SleepFor(2 * options_.ttl);
  EXPECT_TRUE((*chief)->Check().ok());
  EXPECT_FALSE((*chief)->Confirm().ok());
  server_.Return();
  EXPECT_TRUE(Eventually([&] { return !(*chief)->away().has_value(); }));
  EXPECT_TRUE((*chief)->Confirm().ok());
}

TEST_F(LeaseElectionTest, ALeaseThatIsDeletedEndsTheChief) {
  auto chief = Stand("a:1", 7);
  ASSERT_TRUE(chief.ok());
  server_.Delete(kLeaseOfChief);
  EXPECT_TRUE(absl::IsUnavailable((*chief)->Confirm()));
}

TEST_F(LeaseElectionTest, WhatADeadChiefOfAnotherRunHasLeftIsWaitedFor) {
  options_.ttl = absl::Seconds(1);
  auto before = Stand("a:1", 7);
  ASSERT_TRUE(before.ok());
  auto lease = server_.Get(kLeaseOfChief);
  before->reset();
  server_.Put(kLeaseOfChief, lease);  // It did not resign.
  options_.state_directory = NewDirectory();
  auto chief = Stand("b:1", 8);
  ASSERT_TRUE(chief.ok()) << chief.status();
  EXPECT_EQ(Leader(), "b:1");
}

TEST_F(LeaseElectionTest, ACandidateWithAnotherDirectoryIsRefused) {
  auto first = Stand("a:1", 7);
  ASSERT_TRUE(first.ok());
  options_.state_directory = NewDirectory();
  const auto second = Stand("b:1", 8);
  EXPECT_TRUE(absl::IsInvalidArgument(second.status()));
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("is not the directory of the chief at a:1"));
}

TEST_F(LeaseElectionTest, OneThatIsKnownToHaveEndedIsNotWaitedFor) {
  options_.ttl = absl::Seconds(600);
  auto first = Stand("a:1", 7);
  ASSERT_TRUE(first.ok());
  auto second = Stand("a:1", 8, /*replaces=*/7);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(absl::IsUnavailable((*first)->Confirm()));
  EXPECT_TRUE((*second)->Confirm().ok());
}

TEST_F(LeaseElectionTest, SomebodyElsesLeaseIsLeftAlone) {
  server_.Put(
      kLeaseOfChief,
      {{"metadata", {{"name", "mnist"}}},
       {"spec",
        {{"holderIdentity", "scheduler"}, {"leaseDurationSeconds", 600}}}});
  const auto chief = Stand("a:1", 7);
  EXPECT_TRUE(absl::IsInvalidArgument(chief.status()));
  EXPECT_THAT(std::string(chief.status().message()),
              HasSubstr("the Lease mnist of namespace research is not one of "
                        "paramd's: choose another name"));
}

TEST_F(LeaseElectionTest, OthersSeeWhereTheChiefIs) {
  ChiefWatch watch(Record(), "listed:1");
  auto chief = Stand("a:1", 7);
  ASSERT_TRUE(chief.ok());
  EXPECT_TRUE(Eventually([&] { return watch.address() == "a:1"; }));
  (*chief)->Resign();
  auto next = Stand("b:1", 8);
  ASSERT_TRUE(next.ok());
  EXPECT_TRUE(Eventually([&] { return watch.address() == "b:1"; }));
  server_.GoAway();
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_EQ(watch.address(), "b:1");
}

}  // namespace
}  // namespace paramd
