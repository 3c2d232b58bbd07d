#include "cli/trace/trace_collector.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

void AddMember(v1::TaskType type, uint32_t index, const std::string& address,
               v1::StatusReply* status) {
  v1::Member* const member = status->mutable_job()->add_members();
  member->mutable_task()->set_type(type);
  member->mutable_task()->set_index(index);
  member->set_address(address);
}

// Two ps of two servers each, and three workers.
v1::StatusReply StatusOfAJob() {
  v1::StatusReply status;
  status.set_address("w0:1");
  for (uint32_t server = 0; server < 4; ++server) {
    AddMember(v1::PS, server, absl::StrCat("p", server / 2, ":1"), &status);
  }
  for (uint32_t worker = 0; worker < 3; ++worker) {
    AddMember(v1::WORKER, worker, absl::StrCat("w", worker, ":1"), &status);
  }
  return status;
}

std::vector<std::string> TextOf(const std::vector<TraceTarget>& targets) {
  std::vector<std::string> texts;
  for (const TraceTarget& target : targets) {
    texts.push_back(absl::StrCat(target.name, " ", target.address.socket,
                                 target.address.address));
  }
  return texts;
}

TEST(TraceCollectorTest, EachProcessButTheChiefIsATarget) {
  EXPECT_THAT(
      TextOf(TargetsOf(StatusOfAJob(), {.address = "w0:1"})),
      ElementsAre("worker-1 w1:1", "worker-2 w2:1", "ps-0 p0:1", "ps-1 p1:1"));
}

TEST(TraceCollectorTest, TheirSocketsLieBesideTheChiefs) {
  EXPECT_THAT(
      TextOf(TargetsOf(StatusOfAJob(), {.socket = "runs/a/worker-0.sock"})),
      ElementsAre("worker-1 runs/a/worker-1.sock",
                  "worker-2 runs/a/worker-2.sock", "ps-0 runs/a/ps-0.sock",
                  "ps-1 runs/a/ps-1.sock"));
}

TEST(TraceCollectorTest, APsThatHoldsBackupsAloneIsOneToo) {
  v1::StatusReply status = StatusOfAJob();
  for (v1::Member& member : *status.mutable_job()->mutable_members()) {
    if (member.task().type() == v1::PS) member.set_backup_address("p2:1");
  }
  EXPECT_THAT(TextOf(TargetsOf(status, {.address = "w0:1"})),
              ElementsAre("worker-1 w1:1", "worker-2 w2:1", "ps-0 p0:1",
                          "ps-1 p1:1", "ps-2 p2:1"));
}

TEST(TraceCollectorTest, OfAJobInOneProcessThereIsNobodyElse) {
  v1::StatusReply status = StatusOfAJob();
  status.clear_address();
  EXPECT_THAT(TargetsOf(status, {.socket = "runs/a/worker-0.sock"}), IsEmpty());
}

TEST(TraceCollectorTest, WithoutAChiefThereIsNoTrace) {
  const auto trace = CollectTrace(
      {.socket = absl::StrCat(::testing::TempDir(), "/worker-0.sock")},
      {.duration = absl::Seconds(1), .nonce = 7, .timeout = absl::Seconds(60)});
  EXPECT_TRUE(absl::IsNotFound(trace.status())) << trace.status();
}

}  // namespace
}  // namespace paramd
