#include "coordinator/election/lease_record.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/election/testing/fake_api_server.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

constexpr char kLeases[] =
    "/apis/coordination.k8s.io/v1/namespaces/research/leases";
constexpr char kLease[] =
    "/apis/coordination.k8s.io/v1/namespaces/research/leases/mnist";
constexpr absl::Duration kTtl = absl::Seconds(10);

class LeaseRecordTest : public ::testing::Test {
 protected:
  std::unique_ptr<LeaseRecord> NewRecord() {
    return std::make_unique<LeaseRecord>(LeasePlace{"research", "mnist"},
                                         server_.Connect(), absl::Seconds(1),
                                         [this] { return now_; });
  }
  void Pass(absl::Duration time) { now_ = now_ + time; }
  // Looks every second for that long; who holds it then.
  std::string LookFor(LeaseRecord* record, absl::Duration time) {
    for (; time > absl::ZeroDuration(); time -= absl::Seconds(1)) {
      Pass(absl::Seconds(1));
      record->Look().IgnoreError();
    }
    return Holder(record);
  }
  static std::string Holder(LeaseRecord* record) {
    const auto holder = record->Look();
    if (!holder.ok()) return std::string(holder.status().message());
    return holder->has_value() ? (*holder)->text : "nobody";
  }
  // Takes it, which nobody else has.
  static uint64_t Take(LeaseRecord* record, const std::string& text) {
    EXPECT_EQ(Holder(record), "nobody");
    const auto token = record->Take(text, kTtl);
    EXPECT_TRUE(token.ok()) << token.status();
    return token.value_or(0);
  }

  FakeApiServer server_;
  Time now_ = Time() + absl::Hours(1);
  std::unique_ptr<LeaseRecord> a_ = NewRecord();
  std::unique_ptr<LeaseRecord> b_ = NewRecord();
};

TEST_F(LeaseRecordTest, TheLeaseThatItMakesIsOneOfKubernetes) {
  EXPECT_EQ(Take(a_.get(), "a"), 1u);
  const auto lease = server_.Get(kLease);
  EXPECT_EQ(lease["apiVersion"], "coordination.k8s.io/v1");
  EXPECT_EQ(lease["kind"], "Lease");
  EXPECT_EQ(lease["metadata"]["name"], "mnist");
  EXPECT_EQ(lease["metadata"]["namespace"], "research");
  const auto& spec = lease["spec"];
  EXPECT_EQ(spec["holderIdentity"], "a");
  EXPECT_EQ(spec["leaseDurationSeconds"], 10);
  EXPECT_EQ(spec["leaseTransitions"], 0);
  EXPECT_THAT(spec["renewTime"].get<std::string>(),
              ::testing::MatchesRegex("20..-..-..T..:..:..\\.......Z"));
  EXPECT_EQ(spec["renewTime"], spec["acquireTime"]);
}

TEST_F(LeaseRecordTest, OneThatIsRenewedIsNobodyElses) {
  Take(a_.get(), "a");
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(LookFor(b_.get(), absl::Seconds(5)), "a");
    EXPECT_EQ(*b_->Take("b", kTtl), 0u);
    const auto renewed = a_->Renew();
    EXPECT_TRUE(renewed.ok() && *renewed);
  }
  EXPECT_EQ(server_.Get(kLease)["spec"]["leaseTransitions"], 0);
}

TEST_F(LeaseRecordTest, OneThatIsNotRenewedIsTakenWhenItsTimeIsOver) {
  Take(a_.get(), "a");
  EXPECT_EQ(LookFor(b_.get(), absl::Seconds(10)), "a");
  EXPECT_EQ(LookFor(b_.get(), absl::Seconds(1)), "nobody");
  EXPECT_EQ(*b_->Take("b", kTtl), 2u);
  EXPECT_EQ(server_.Get(kLease)["spec"]["leaseTransitions"], 1);
  const auto renewed = a_->Renew();
  ASSERT_TRUE(renewed.ok());
  EXPECT_FALSE(*renewed);
  // Nor does it give away what is another one's.
  EXPECT_TRUE(a_->Release().ok());
  EXPECT_EQ(Holder(b_.get()), "b");
}

TEST_F(LeaseRecordTest, ItsHolderKeepsItWhereNobodyHasTakenIt) {
  Take(a_.get(), "a");
  Pass(absl::Hours(1));
  const auto renewed = a_->Renew();
  ASSERT_TRUE(renewed.ok());
  EXPECT_TRUE(*renewed);
}

TEST_F(LeaseRecordTest, OfTwoThatTakeItAtOnceOneGetsIt) {
  EXPECT_EQ(Holder(a_.get()), "nobody");
  EXPECT_EQ(Holder(b_.get()), "nobody");
  EXPECT_EQ(*a_->Take("a", kTtl), 1u);
  EXPECT_EQ(*b_->Take("b", kTtl), 0u);
  EXPECT_TRUE(a_->Release().ok());
  EXPECT_EQ(Holder(a_.get()), "nobody");
  EXPECT_EQ(Holder(b_.get()), "nobody");
  EXPECT_EQ(*b_->Take("b", kTtl), 2u);
  EXPECT_EQ(*a_->Take("a", kTtl), 0u);
}

TEST_F(LeaseRecordTest, TimeInWhichTheServerWasAwayDoesNotCount) {
  Take(a_.get(), "a");
  EXPECT_EQ(LookFor(b_.get(), absl::Seconds(5)), "a");
  server_.GoAway();
  EXPECT_THAT(LookFor(b_.get(), absl::Seconds(60)), HasSubstr("refused"));
  server_.Return();
  EXPECT_EQ(LookFor(b_.get(), absl::Seconds(4)), "a");
  EXPECT_EQ(LookFor(b_.get(), absl::Seconds(3)), "nobody");
}

TEST_F(LeaseRecordTest, ATakeWhoseAnswerIsLostCounts) {
  EXPECT_EQ(Holder(a_.get()), "nobody");
  server_.LoseAnswers(1);
  EXPECT_TRUE(absl::IsUnavailable(a_->Take("a", kTtl).status()));
  const auto holder = a_->Look();
  ASSERT_TRUE(holder.ok() && holder->has_value());
  EXPECT_TRUE((*holder)->is_self);
  EXPECT_EQ((*holder)->token, 1u);
  const auto renewed = a_->Renew();
  ASSERT_TRUE(renewed.ok());
  EXPECT_TRUE(*renewed);
}

TEST_F(LeaseRecordTest, OneThatWasDeletedIsLostAndCountsAnew) {
  Take(a_.get(), "a");
  EXPECT_TRUE(a_->Release().ok());
  EXPECT_EQ(Take(b_.get(), "b"), 2u);
  server_.Delete(kLease);
  const auto renewed = b_->Renew();
  ASSERT_TRUE(renewed.ok());
  EXPECT_FALSE(*renewed);
  EXPECT_EQ(Take(a_.get(), "a"), 1u);
}

TEST_F(LeaseRecordTest, WhatOthersHaveAddedStays) {
  Take(a_.get(), "a");
  auto lease = server_.Get(kLease);
  lease["metadata"]["labels"] = {{"team", "vision"}};
  server_.Put(kLease, lease);
  const auto renewed = a_->Renew();
  ASSERT_TRUE(renewed.ok());
  EXPECT_TRUE(*renewed);
  EXPECT_EQ(server_.Get(kLease)["metadata"]["labels"]["team"], "vision");
}

TEST_F(LeaseRecordTest, OnlyOneThatIsRenewedIsAlive) {
  Take(a_.get(), "a");
  EXPECT_FALSE((*b_->Look())->is_alive);
  Pass(absl::Seconds(1));
  EXPECT_FALSE((*b_->Look())->is_alive);
  absl::SleepFor(absl::Microseconds(10));  // Another renewTime.
  EXPECT_TRUE(*a_->Renew());
  EXPECT_TRUE((*b_->Look())->is_alive);
  // Known from its beginning.
  EXPECT_TRUE(a_->Release().ok());
  EXPECT_EQ(Holder(a_.get()), "nobody");
  EXPECT_EQ(*b_->Take("b", kTtl), 0u);  // That it is free was not seen.
  EXPECT_EQ(Take(b_.get(), "b"), 2u);
  EXPECT_TRUE((*a_->Look())->is_alive);
}

TEST_F(LeaseRecordTest, OneIsRemovedOnlyIfItHoldsItStill) {
  Take(a_.get(), "a");
  EXPECT_EQ(Holder(b_.get()), "a");
  absl::SleepFor(absl::Microseconds(10));
  EXPECT_TRUE(*a_->Renew());
  EXPECT_TRUE(b_->Remove().ok());
  EXPECT_EQ(Holder(b_.get()), "a");
  EXPECT_TRUE(b_->Remove().ok());
  EXPECT_EQ(Take(b_.get(), "b"), 2u);
}

TEST_F(LeaseRecordTest, WithoutRightsTheSentenceSaysWhichRoleIsMissing) {
  server_.Forbid("POST", true);
  EXPECT_EQ(Holder(a_.get()), "nobody");
  // The rights may have been granted just now.
  EXPECT_TRUE(absl::IsUnavailable(a_->Take("a", kTtl).status()));
  Pass(LeaseRecord::kRightsSettle);
  EXPECT_EQ(Holder(a_.get()), "nobody");
  const auto token = a_->Take("a", kTtl);
  EXPECT_TRUE(absl::IsInvalidArgument(token.status()));
  EXPECT_THAT(
      std::string(token.status().message()),
      HasSubstr("does not let this pod create the Lease mnist of namespace "
                "research: bind its service account to a Role with the verbs "
                "get, create and update on leases of coordination.k8s.io; it "
                "says: User \"pod\" cannot do that"));
  server_.Forbid("POST", false);
  EXPECT_EQ(Take(a_.get(), "a"), 1u);
}

TEST_F(LeaseRecordTest, AnAnswerThatIsNoLeaseIsAnError) {
  server_.Put(kLease, {{"kind", "Status"}, {"metadata", {{"name", "x"}}}});
  EXPECT_THAT(Holder(a_.get()), HasSubstr("its answer is not a Lease"));
  // What a Lease has of other types counts as not there.
  server_.Put(kLease, {{"metadata", {{"name", "mnist"}}},
                       {"spec",
                        {{"holderIdentity", 7},
                         {"leaseDurationSeconds", "x"},
                         {"leaseTransitions", -3}}}});
  EXPECT_EQ(Take(a_.get(), "a"), 2u);
  EXPECT_TRUE(server_.Get(kLeases).is_null());
}

TEST_F(LeaseRecordTest, WaitingEndsWhenItIsCancelled) {
  LeaseRecord record(LeasePlace{"research", "mnist"}, server_.Connect(),
                     absl::Hours(1));
  record.Cancel();
  EXPECT_TRUE(record.WaitForChange(absl::Hours(1)).ok());
}

}  // namespace
}  // namespace paramd
