#include "coordinator/core/finished_job.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/core/testing/core_driver.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/status.pb.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using testing::CoreDriver;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(FinishedJobTest, EveryCallIsToldThatTheJobIsFinished) {
  FinishedJob core(/*servers=*/0, /*term=*/3);
  CoreDriver driver(&core);
  driver.Start();
  EXPECT_EQ(RefusalOf(driver.Call(PeerId::Worker(1), v1::JoinRequest()).status)
                .reason(),
            v1::Refusal::JOB_FINISHED);
  EXPECT_EQ(RefusalOf(driver.Call(PeerId(), v1::PullRequest()).status).reason(),
            v1::Refusal::JOB_FINISHED);
  driver.Advance(absl::Minutes(10));
  EXPECT_THAT(driver.sends, IsEmpty());
  EXPECT_FALSE(driver.exited);
}

TEST(FinishedJobTest, TheCoordinatorsTellsEveryServerAgainAndAgain) {
  FinishedJob core(/*servers=*/2, /*term=*/3);
  CoreDriver driver(&core);
  driver.Start();
  ASSERT_THAT(driver.sends, SizeIs(2));
  const auto first = driver.TakeSend<v1::FinishRequest>(PeerId::Ps(0));
  const auto second = driver.TakeSend<v1::FinishRequest>(PeerId::Ps(1));
  const auto& finish = static_cast<const v1::FinishRequest&>(*first->head);
  EXPECT_EQ(finish.header().term(), 3u);
  EXPECT_TRUE(finish.everybody_knows());
  driver.Fail(*first, absl::UnavailableError("refused"));
  driver.Advance(absl::Seconds(6));
  // The second has not answered: at most one call is under way.
  ASSERT_THAT(driver.sends, SizeIs(1));
  EXPECT_EQ(driver.sends[0].to, PeerId::Ps(0));
  driver.Reply(*second, v1::FinishReply());
  driver.Advance(absl::Seconds(5));
  EXPECT_THAT(driver.sends, SizeIs(2));
}

TEST(FinishedJobTest, OfAStoppedJobLateOnesHearItAndThereIsNothingToStop) {
  v1::Finished stopped;
  stopped.set_stopped(true);
  stopped.set_reason("stopped by an operator");
  FinishedJob core(/*servers=*/0, /*term=*/3, stopped);
  CoreDriver driver(&core);
  driver.Start();
  EXPECT_TRUE(
      RefusalOf(driver.Call(PeerId::Worker(1), v1::JoinRequest()).status)
          .stopped());
  const v1::Refusal refusal =
      RefusalOf(driver.Call(PeerId(), v1::StopJobRequest()).status);
  EXPECT_EQ(refusal.reason(), v1::Refusal::JOB_FINISHED);
  EXPECT_FALSE(refusal.stopped());
}

TEST(FinishedJobTest, ACoordinatorOfAnotherRunEndsIt) {
  FinishedJob core(/*servers=*/0, /*term=*/3);
  CoreDriver driver(&core);
  driver.Start();
  v1::RecallRequest recall;
  recall.set_run_id("other-7");
  EXPECT_EQ(
      RefusalOf(driver.Call(PeerId::Coordinator(), recall).status).reason(),
      v1::Refusal::JOB_FINISHED);
  EXPECT_TRUE(driver.exited);
  EXPECT_EQ(driver.exit_status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(driver.exit_status.message(), HasSubstr("run other-7 calls"));
}

}  // namespace
}  // namespace paramd
