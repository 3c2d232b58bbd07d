#include "process/observe/cluster_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "process/testing/fake_process.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr absl::Duration kPatience = absl::Minutes(1);

v1::StatusReply Worker(uint32_t index) {
  v1::StatusReply status;
  status.mutable_task()->set_type(v1::WORKER);
  status.mutable_task()->set_index(index);
  return status;
}

// The chief of a job with two workers, of which `other` is the second's
// address.
v1::StatusReply Chief(const std::string& other) {
  v1::StatusReply status = Worker(0);
  status.set_address("127.0.0.1:1");
  v1::JobStats* const job = status.mutable_job();
  job->set_state(v1::RUNNING);
  for (const uint32_t index : {0u, 1u}) {
    v1::Member* const member = job->add_members();
    member->mutable_task()->set_type(v1::WORKER);
    member->mutable_task()->set_index(index);
    member->set_state(v1::Member::ALIVE);
    member->set_address(index == 0 ? "127.0.0.1:1" : other);
  }
  return status;
}

TEST(ClusterWatchTest, TheChiefKnowsItsMembers) {
  const FakeProcess other(Worker(1));
  ClusterWatch watch({.own_status = [&]() -> absl::optional<v1::StatusReply> {
    return Chief(other.address());
  }});
  const auto page = watch.Page(0, kPatience);
  ASSERT_TRUE(page.has_value());
  EXPECT_EQ(page->figures(0).value(), "0") << page->DebugString();
  EXPECT_EQ(page->processes_size(), 2);
  const auto text = watch.Text(kPatience);
  ASSERT_TRUE(text.has_value());
  EXPECT_THAT(*text, StartsWith("trains: "));
  EXPECT_THAT(*text, HasSubstr("worker-1"));
}

TEST(ClusterWatchTest, AWorkerAsksItsChiefOnceSomebodyLooks) {
  const FakeProcess chief(Chief("127.0.0.1:1"));
  std::atomic<int> questions{0};
  ClusterWatch watch({.own_status = [&]() -> absl::optional<v1::StatusReply> {
    ++questions;
    v1::StatusReply own = Worker(1);
    own.set_chief_address(chief.address());
    own.set_address("127.0.0.1:1");
    return own;
  }});
  const auto page = watch.Page(0, kPatience);
  ASSERT_TRUE(page.has_value());
  EXPECT_EQ(page->seen_by(), "worker-1") << page->DebugString();
  EXPECT_GE(questions, 1);
}

TEST(ClusterWatchTest, WhileAProcessSaysNothingThereIsNoPage) {
  ClusterWatch watch({.own_status = []() -> absl::optional<v1::StatusReply> {
    return absl::nullopt;
  }});
  EXPECT_FALSE(watch.Page(0, absl::Milliseconds(1)).has_value());
  EXPECT_FALSE(watch.Text(absl::Milliseconds(1)).has_value());
}

TEST(ClusterWatchTest, WhoLooksSeesTheEnd) {
  const FakeProcess other(Worker(1));
  std::atomic<bool> is_over{false};
  ClusterWatch watch({.own_status = [&]() -> absl::optional<v1::StatusReply> {
    v1::StatusReply own = Chief(other.address());
    if (is_over) own.mutable_job()->set_state(v1::FINISHED);
    return own;
  }});
  const auto before = watch.Page(0, kPatience);
  ASSERT_TRUE(before.has_value());
  EXPECT_THAT(before->verdict(), StartsWith("trains: "));
  is_over = true;
  watch.ShowNewest(kPatience);
  const auto after = watch.Page(0, absl::ZeroDuration());
  ASSERT_TRUE(after.has_value());
  EXPECT_THAT(after->verdict(), StartsWith("finished: "));
}

TEST(ClusterWatchTest, WhereNobodyLooksNobodyWaits) {
  ClusterWatch watch({.own_status = []() -> absl::optional<v1::StatusReply> {
    return absl::nullopt;  // So that there is never a report.
  }});
  watch.ShowNewest(absl::Hours(1));
}

}  // namespace
}  // namespace paramd
