#include "proto/refusal.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(RefusalTest, ReasonAndDetailsSurviveTheStatus) {
  const absl::Status status =
      RefuseForNow(v1::Refusal::NOT_READY, "ps-1", absl::Milliseconds(250),
                   "ps-1 is still being filled");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  const v1::Refusal refusal = RefusalOf(status);
  EXPECT_EQ(refusal.reason(), v1::Refusal::NOT_READY);
  EXPECT_EQ(refusal.waiting_for(), "ps-1");
  EXPECT_EQ(refusal.retry_after_ms(), 250u);
}

TEST(RefusalTest, AStatusWithoutDetailsHasNoReason) {
  EXPECT_EQ(RefusalOf(absl::InternalError("x")).reason(),
            v1::Refusal::REASON_UNSPECIFIED);
}

TEST(VersionTest, TermComesBeforeCounter) {
  const auto low = MakeNumber<v1::SnapshotNumber>(1, 99);
  const auto high = MakeNumber<v1::SnapshotNumber>(2, 1);
  EXPECT_TRUE(low < high);
  EXPECT_TRUE(high > low);
  EXPECT_TRUE(low != high);
  EXPECT_TRUE(IsZero(v1::SnapshotNumber()));
  EXPECT_EQ(VersionName(high), "2.1");
}

TEST(RefusalTest, ThatAProcessHasEndedIsSaidBesideTheReason) {
  absl::Status status = absl::UnavailableError("ps-1: refused");
  EXPECT_FALSE(HasEnded(status));
  MarkEnded(&status);
  EXPECT_TRUE(HasEnded(status));
  EXPECT_EQ(RefusalOf(status).reason(), v1::Refusal::REASON_UNSPECIFIED);
}

template <class A, class B>
concept Comparable = requires(A a, B b) {
  a == b;
};

TEST(VersionTest, NumbersOfUnlikeThingsDoNotCompare) {
  EXPECT_TRUE((Comparable<v1::SessionId, v1::SessionId>));
  EXPECT_FALSE((Comparable<v1::SessionId, v1::ServerLife>));
  EXPECT_FALSE((std::is_assignable_v<v1::SessionId&, v1::ServerLife>));
}

}  // namespace
}  // namespace paramd
