#include "cli/stages/stage_meeting.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "cli/stages/stage_record.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

std::string MeetingDirectory() {
  const ::testing::TestInfo& test =
      *::testing::UnitTest::GetInstance()->current_test_info();
  return absl::StrCat(::testing::TempDir(), "/", test.name());
}

const std::vector<std::string>& AllTasks() {
  static const auto* const kTasks =
      new std::vector<std::string>{"ps-0", "worker-0", "worker-1"};
  return *kTasks;
}

TEST(StageMeetingTest, TheChiefWaitsUntilAllHaveLeft) {
  const StageMeeting chief(AllTasks(), "worker-0", absl::InfiniteDuration());
  std::thread others([] {
    for (const char* task : {"worker-1", "ps-0"}) {
      EXPECT_TRUE(StageMeeting(AllTasks(), task, absl::ZeroDuration())
                      .Leave(MeetingDirectory())
                      .ok());
    }
  });
  chief.AwaitOthers(MeetingDirectory());
  others.join();
}

TEST(StageMeetingTest, TheChiefGoesOnWithoutOneThatDoesNotCome) {
  StageMeeting(AllTasks(), "worker-0", absl::ZeroDuration())
      .AwaitOthers(MeetingDirectory());
}

TEST(StageMeetingTest, OneThatLeavesTwiceHasLeft) {
  const StageMeeting server(AllTasks(), "ps-0", absl::ZeroDuration());
  EXPECT_TRUE(server.Leave(MeetingDirectory()).ok());
  EXPECT_TRUE(server.Leave(MeetingDirectory()).ok());
}

TEST(StageMeetingTest, TheOthersWaitUntilTheStageIsRecorded) {
  const StageMeeting server(AllTasks(), "ps-0", absl::InfiniteDuration());
  std::thread chief([] {
    EXPECT_TRUE(WriteStageRecord(MeetingDirectory(), StageRecord()).ok());
  });
  EXPECT_TRUE(server.AwaitRecord(MeetingDirectory()).ok());
  chief.join();
}

TEST(StageMeetingTest, AStageThatIsNotRecordedInTimeIsTriedAgain) {
  const absl::Status status =
      StageMeeting(AllTasks(), "ps-0", absl::ZeroDuration())
          .AwaitRecord(MeetingDirectory());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("all processes need to see one run_dir"));
}

}  // namespace
}  // namespace paramd
