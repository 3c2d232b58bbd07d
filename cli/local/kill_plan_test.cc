#include "cli/local/kill_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr KillPlan::Cluster kCluster = {
    .servers = 2, .workers = 3, .epochs = 5};

std::string ErrorOf(absl::string_view text) {
  return std::string(KillPlan::Parse(text, kCluster).status().message());
}

TEST(KillPlanTest, WithoutATextNobodyIsKilled) {
  EXPECT_THAT(KillPlan::Parse("", kCluster)->left(), IsEmpty());
}

TEST(KillPlanTest, AKillIsDueFromTheBeginningOfItsEpochOn) {
  const auto plan = KillPlan::Parse("worker-2@epoch=3", kCluster);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->Due(0), IsEmpty());
  EXPECT_THAT(plan->Due(2), IsEmpty());
  ASSERT_THAT(plan->Due(2.01), SizeIs(1));
  EXPECT_EQ(plan->Due(2.01)[0].task, "worker-2");
  EXPECT_EQ(plan->Due(4.5)[0].epoch, 3u);
}

TEST(KillPlanTest, NothingIsDueBeforeTheJobHasBegun) {
  const auto plan = KillPlan::Parse("ps-0@epoch=1", kCluster);
  EXPECT_THAT(plan->Due(0), IsEmpty());
  EXPECT_THAT(plan->Due(0.001), SizeIs(1));
}

TEST(KillPlanTest, WhatWasCarriedOutIsNotDueAgain) {
  auto plan =
      KillPlan::Parse("ps-1@epoch=2,worker-0@epoch=2,ps-1@epoch=4", kCluster);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_THAT(plan->Due(1.5), SizeIs(2));
  plan->Remove(plan->Due(1.5)[0]);
  ASSERT_THAT(plan->Due(1.5), SizeIs(1));
  EXPECT_EQ(plan->Due(1.5)[0].task, "worker-0");
  EXPECT_THAT(plan->left(), SizeIs(2));
}

TEST(KillPlanTest, AStageIsKilledWhereThereAreSome) {
  EXPECT_THAT(
      ErrorOf("stage-0@epoch=1"),
      ::testing::HasSubstr("there is no stage-0: tasks are ps-0 to ps-1 "
                           "and worker-0 to worker-2"));
  KillPlan::Cluster cluster = kCluster;
  cluster.stages = 2;
  EXPECT_TRUE(KillPlan::Parse("stage-1@epoch=1", cluster).ok());
  EXPECT_THAT(
      std::string(
          KillPlan::Parse("stage-2@epoch=1", cluster).status().message()),
      ::testing::EndsWith("worker-0 to worker-2 and stage-0 to stage-1"));
}

TEST(KillPlanTest, WhatIsNotOfTheFormIsRefused) {
  for (const char* text : {"worker-1", "worker-1@3", "worker-1@epoch=", ",",
                           "worker-1@epoch=x", "worker-1@step=3"}) {
    EXPECT_THAT(ErrorOf(text),
                ::testing::HasSubstr("it must be like worker-1@epoch=3"))
        << text;
  }
}

TEST(KillPlanTest, ATaskOrEpochThatThereIsNotIsRefusedByName) {
  for (const char* task : {"worker-3", "ps-2", "chief-0", "worker-01"}) {
    EXPECT_EQ(ErrorOf(absl::StrCat(task, "@epoch=1")),
              absl::StrCat("--kill: there is no ", task,
                           ": tasks are ps-0 to ps-1 and worker-0 to "
                           "worker-2"));
  }
  for (const char* epoch : {"0", "6"}) {
    EXPECT_EQ(ErrorOf(absl::StrCat("ps-0@epoch=", epoch)),
              absl::StrCat("--kill: ps-0 can't be killed in epoch ", epoch,
                           ": the job has epochs 1 to 5"));
  }
}

}  // namespace
}  // namespace paramd
