#include "server/core/shard.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "proto/refusal.h"
#include "server/core/testing/shard_driver.h"

namespace paramd {
namespace {

using testing::kChief;
using testing::MakeConfiguration;
using testing::MakeSeal;
using testing::MakeWritten;
using testing::Next;
using testing::Pair;
using testing::Payload;
using testing::ReasonOf;
using testing::ShardDriver;
using testing::Small;
using testing::Zeros;

v1::RecallRequest Recall(uint64_t term) {
  v1::RecallRequest recall;
  recall.mutable_header()->set_term(term);
  recall.set_run_id("run");
  recall.set_job_digest("digest");
  return recall;
}

v1::FinishRequest Finish(bool everybody_knows) {
  v1::FinishRequest finish;
  finish.mutable_header()->set_term(1);
  finish.set_everybody_knows(everybody_knows);
  return finish;
}

// ---- recall ----------------------------------------------------------------

TEST(ShardRecallTest, ANewProcessKnowsOnlyItself) {
  ShardDriver driver;
  const auto reply = driver.Ask<v1::RecallReply>(kChief, Recall(1));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->incarnation(), 100u);
  EXPECT_TRUE(IsZero(reply->generation()));
  EXPECT_FALSE(reply->has_configuration());
}

TEST(ShardRecallTest, AProcessSaysOfWhichBuildItIs) {
  Shard::Options options;
  options.incarnation = 100;
  options.build = "0.1 abc 01";
  ShardDriver driver(options);
  const auto reply = driver.Ask<v1::RecallReply>(kChief, Recall(1));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->build(), "0.1 abc 01");
}

TEST(ShardRecallTest, AConfiguredServerTellsTheNewestConfiguration) {
  ShardDriver driver;
  driver.MakeReady(Small());
  ASSERT_TRUE(driver.Configure(Next(Small())).ok());
  const auto reply = driver.Ask<v1::RecallReply>(kChief, Recall(2));
  EXPECT_EQ(reply->generation(), Pair(1, 1));
  EXPECT_EQ(reply->configuration().version(), Pair(1, 2));
}

TEST(ShardRecallTest, AfterARecallLowerTermsAreRefusedEverywhere) {
  ShardDriver driver;
  driver.MakeReady(Small());
  ASSERT_TRUE(driver.Ask<v1::RecallReply>(kChief, Recall(2)).ok());
  const absl::Status refused[] = {
      driver.Call(kChief, Recall(1)).status,
      driver.Configure(Next(Small())).status(),
      driver.Call(kChief, MakeSeal(1)).status,
      driver.Call(kChief, MakeWritten(1)).status,
      driver.Call(kChief, Finish(true)).status,
  };
  for (const absl::Status& status : refused) {
    EXPECT_EQ(ReasonOf(status), v1::Refusal::OLD_TERM);
    EXPECT_EQ(RefusalOf(status).term(), 2u);
    EXPECT_EQ(status.message(), "term 1 is over; ps-0 has heard of term 2");
  }
  EXPECT_FALSE(driver.exited);
}

TEST(ShardRecallTest, ReadersGoOnUnderTheLastConfiguration) {
  ShardDriver driver;
  driver.MakeReady(Small());
  ASSERT_TRUE(driver.Push(driver.MakeSmallPush(1), {1, 1}).ok());
  ASSERT_TRUE(driver.Ask<v1::RecallReply>(kChief, Recall(2)).ok());
  EXPECT_EQ(driver.Pull(0), std::vector<float>(2, -1.0f));
}

TEST(ShardRecallTest, AnotherRunOrOtherSettingsAreAnotherJob) {
  ShardDriver driver;
  driver.MakeReady(Small());
  v1::RecallRequest recall = Recall(2);
  recall.set_run_id("other");
  const absl::Status run = driver.Call(kChief, recall).status;
  EXPECT_EQ(ReasonOf(run), v1::Refusal::OTHER_JOB);
  EXPECT_EQ(run.message(), "ps-0 belongs to run 'run', not to 'other'");
  recall = Recall(2);
  recall.set_job_digest("abc");
  const absl::Status settings = driver.Call(kChief, recall).status;
  EXPECT_EQ(ReasonOf(settings), v1::Refusal::OTHER_JOB);
  EXPECT_EQ(settings.message(),
            "ps-0 has job settings of digest digest, not abc");
  EXPECT_TRUE(driver.Configure(Small()).ok()) << "term 2 was not heard";
}

// ---- configure -------------------------------------------------------------

TEST(ShardConfigureTest, TheAnswerIsNotReadyUntilTheSlicesAreFilled) {
  ShardDriver driver;
  const absl::Status refused = driver.Configure(Small()).status();
  EXPECT_EQ(ReasonOf(refused), v1::Refusal::NOT_READY);
  EXPECT_EQ(refused.message(), "ps-0 is still filling its slices");
  EXPECT_EQ(RefusalOf(refused).retry_after_ms(), 20u);
  driver.Settle();
  const auto reply = driver.Configure(Small());
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->configuration(), Pair(1, 1));
  EXPECT_EQ(reply->incarnation(), 100u);
  EXPECT_TRUE(reply->restored());
  EXPECT_EQ(reply->bytes(), 8u);
  EXPECT_EQ(driver.notes,
            std::vector<std::string>{
                "generation 1.1 holds 1 slices, 8 bytes, from initial "
                "values"});
}

TEST(ShardConfigureTest, FillingIsCutIntoTurns) {
  ShardDriver driver;
  (void)driver.Configure(MakeConfiguration({Zeros("w", {5, 262144})}));
  EXPECT_GE(driver.Settle(), 5);
}

TEST(ShardConfigureTest, TheSameConfigurationAgainGivesTheSameAnswer) {
  ShardDriver driver;
  driver.MakeReady(Small());
  ASSERT_TRUE(driver.Push(driver.MakeSmallPush(1), {1, 1}).ok());
  const auto first = driver.Configure(Small());
  const auto second = driver.Configure(Small());
  EXPECT_EQ(first->SerializeAsString(), second->SerializeAsString());
  EXPECT_EQ(driver.Pull(0), std::vector<float>(2, -1.0f)) << "not filled again";
}

TEST(ShardConfigureTest, OtherContentUnderTheSameNumberIsRefused) {
  ShardDriver driver;
  driver.MakeReady(Small());
  v1::Configuration other = Small();
  other.set_seed(99);
  const absl::Status refused = driver.Configure(other).status();
  EXPECT_EQ(ReasonOf(refused), v1::Refusal::INVALID);
  EXPECT_EQ(refused.message(),
            "configuration 1.1 was told before with other content");
}

TEST(ShardConfigureTest, AnOlderConfigurationIsRefused) {
  ShardDriver driver;
  driver.MakeReady(Next(Small()));
  const absl::Status refused = driver.Configure(Small()).status();
  EXPECT_EQ(ReasonOf(refused), v1::Refusal::OLD_TERM);
  EXPECT_EQ(refused.message(), "configuration 1.1 is old; ps-0 has 1.2");
}

TEST(ShardConfigureTest, AConfigurationOfAnotherRunIsRefused) {
  ShardDriver driver;
  driver.MakeReady(Small());
  v1::Configuration other = Next(Small());
  other.set_run_id("other");
  EXPECT_EQ(ReasonOf(driver.Configure(other).status()), v1::Refusal::OTHER_JOB);
}

TEST(ShardConfigureTest, AConfigurationThatDoesNotNameTheServerIsRefused) {
  ShardDriver driver(4);
  const absl::Status refused = driver.Configure(Small()).status();
  EXPECT_EQ(ReasonOf(refused), v1::Refusal::INVALID);
  EXPECT_EQ(refused.message(), "configuration 1.1 does not name ps-4");
}

TEST(ShardConfigureTest,
     AFreshProcessAnswersAConfigurationOfAnotherWithItself) {
  Shard::Options options;
  options.incarnation = 555;
  ShardDriver driver(options);
  const auto reply = driver.Configure(Small());
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->incarnation(), 555u);
  EXPECT_FALSE(reply->restored());
  EXPECT_FALSE(driver.exited);
  EXPECT_FALSE(
      driver.Ask<v1::RecallReply>(kChief, Recall(1))->has_configuration());
}

TEST(ShardConfigureTest, AServerThatWasReplacedLeaves) {
  ShardDriver driver;
  driver.MakeReady(Small());
  v1::Configuration replaced = Next(Small());
  replaced.mutable_servers(0)->set_incarnation(555);
  *replaced.mutable_servers(0)->mutable_generation() = Pair(1, 9);
  EXPECT_EQ(ReasonOf(driver.Configure(replaced).status()), v1::Refusal::FENCED);
  EXPECT_TRUE(driver.exited);
  EXPECT_EQ(driver.exit_status,
            absl::AbortedError("ps-0 generation 1.1 has been replaced by "
                               "another process, generation 1.9"));
}

TEST(ShardConfigureTest, AGenerationForTwoProcessesIsRefused) {
  ShardDriver driver;
  driver.MakeReady(Small());
  v1::Configuration twice = Next(Small());
  twice.mutable_servers(0)->set_incarnation(555);
  EXPECT_EQ(driver.Configure(twice).status().message(),
            "ps-0 is generation 1.1; generation 1.1 is given to another "
            "process");
  EXPECT_FALSE(driver.exited);
}

TEST(ShardConfigureTest, ALowerGenerationOfItsOwnIsRefused) {
  ShardDriver driver;
  v1::Configuration configuration = Small();
  *configuration.mutable_servers(0)->mutable_generation() = Pair(1, 5);
  driver.MakeReady(configuration);
  EXPECT_EQ(driver.Configure(Next(Small())).status().message(),
            "ps-0 is generation 1.5 already, not 1.1");
}

TEST(ShardConfigureTest, ANewLayoutUnderTheSameGenerationIsRefused) {
  ShardDriver driver;
  driver.MakeReady(Small());
  const absl::Status refused =
      driver.Configure(Next(MakeConfiguration({Zeros("other", {2})}))).status();
  EXPECT_EQ(ReasonOf(refused), v1::Refusal::INVALID);
  EXPECT_EQ(
      refused.message(),
      "configuration 1.2 changes the layout of ps-0 under its generation");
  EXPECT_EQ(
      driver.Ask<v1::RecallReply>(kChief, Recall(1))->configuration().version(),
      Pair(1, 1));
}

// Small() as what has changed since `since`: nothing.
v1::Configuration SmallSince(const v1::ConfigurationVersion& since,
                             const v1::ConfigurationVersion& version) {
  v1::Configuration told;
  *told.mutable_version() = version;
  *told.mutable_changes_since() = since;
  told.set_run_id(Small().run_id());
  told.set_job_digest(Small().job_digest());
  *told.add_servers() = Small().servers(0);
  return told;
}

TEST(ShardConfigureTest, WhatHasChangedMakesTheWholeConfiguration) {
  ShardDriver driver;
  driver.MakeReady(Small());
  v1::Configuration told = SmallSince(Pair(1, 1), Pair(1, 2));
  told.set_decay_steps(99);
  told.add_changed(v1::Configuration::kDecayStepsFieldNumber);
  const auto reply = driver.Configure(told);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->restored());
  EXPECT_EQ(reply->configuration(), Pair(1, 2));
  v1::Configuration whole = Small();
  *whole.mutable_version() = Pair(1, 2);
  whole.set_decay_steps(99);
  EXPECT_EQ(driver.Ask<v1::RecallReply>(kChief, Recall(1))
                ->configuration()
                .SerializeAsString(),
            whole.SerializeAsString());
}

TEST(ShardConfigureTest, ChangesOfAnotherConfigurationAreRefused) {
  ShardDriver driver;
  driver.MakeReady(Small());
  const absl::Status refused =
      driver.Configure(SmallSince(Pair(1, 2), Pair(1, 3))).status();
  EXPECT_EQ(ReasonOf(refused), v1::Refusal::INVALID);
  EXPECT_EQ(refused.message(),
            "configuration 1.3 is told as changes since 1.2; known is 1.1");
  EXPECT_EQ(
      driver.Ask<v1::RecallReply>(kChief, Recall(1))->configuration().version(),
      Pair(1, 1));
}

TEST(ShardConfigureTest, AReminderIsAnsweredAndChangesNothing) {
  ShardDriver driver;
  driver.MakeReady(Small());
  v1::Configuration reminder = SmallSince(Pair(1, 1), Pair(1, 1));
  const auto reply = driver.Configure(reminder);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->restored());
  EXPECT_TRUE(reply->takes_changes());
  EXPECT_EQ(reply->configuration(), Pair(1, 1));
  EXPECT_EQ(driver.Ask<v1::RecallReply>(kChief, Recall(1))
                ->configuration()
                .SerializeAsString(),
            Small().SerializeAsString());
  reminder.mutable_servers(0)->set_restore_directory("/other");
  EXPECT_EQ(driver.Configure(reminder).status().message(),
            "configuration 1.1 was told before with other content");
}

TEST(ShardConfigureTest, AReminderForAnEarlierProcessTellsANewOneNothing) {
  ShardDriver driver;
  v1::Configuration reminder = SmallSince(Pair(1, 1), Pair(1, 1));
  reminder.mutable_servers(0)->set_incarnation(99);
  const auto reply = driver.Configure(reminder);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->incarnation(), uint64_t{100});
  EXPECT_FALSE(reply->has_configuration());
  EXPECT_FALSE(reply->restored());
  EXPECT_FALSE(
      driver.Ask<v1::RecallReply>(kChief, Recall(1))->has_configuration());
}

TEST(ShardConfigureTest, TheLayoutMayComeLater) {
  ShardDriver driver;
  v1::Configuration without = Small();
  without.clear_layout();
  const auto reply = driver.Configure(without);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_FALSE(reply->restored());
  driver.MakeReady(Next(Small()));
}

TEST(ShardConfigureTest, AServerWithoutSlicesIsReady) {
  ShardDriver driver(1);
  driver.MakeReady(MakeConfiguration({Zeros("w", {2})}, 2));
}

TEST(ShardConfigureTest, AHigherGenerationOfItsOwnFillsAgainUnderNewLives) {
  ShardDriver driver;
  driver.MakeReady(Small());
  const auto before = driver.Push(driver.MakeSmallPush(1), {1, 1});
  v1::Configuration again = Next(Small());
  *again.mutable_servers(0)->mutable_generation() = Pair(1, 9);
  EXPECT_EQ(ReasonOf(driver.Configure(again).status()), v1::Refusal::NOT_READY);
  driver.Settle();
  EXPECT_EQ(driver.Pull(0), std::vector<float>(2));
  const auto after = driver.Push(driver.MakeSmallPush(1), {1, 1});
  EXPECT_EQ(after->blocks(0).result(), v1::PushedBlock::APPLIED);
  EXPECT_EQ(after->server_generation(), Pair(1, 9));
  EXPECT_NE(after->blocks(0).version().life(),
            before->blocks(0).version().life());
}

// ---- sessions --------------------------------------------------------------

TEST(ShardSessionTest, Promise1_AnUnknownSessionIsNotAdmitted) {
  ShardDriver driver;
  driver.MakeReady(Small());
  v1::PushRequest push = driver.MakeSmallPush(1);
  push.mutable_header()->set_worker(7);
  const absl::Status unknown = driver.Push(push, {1, 1}).status();
  EXPECT_EQ(ReasonOf(unknown), v1::Refusal::NOT_READY);
  EXPECT_EQ(unknown.message(),
            "configuration 1.1 does not name worker-7 generation 1.11");
  EXPECT_EQ(RefusalOf(unknown).waiting_for(), "worker-7 generation 1.11");
  push = driver.MakeSmallPush(1);
  *push.mutable_header()->mutable_generation() = Pair(2, 1);
  EXPECT_EQ(ReasonOf(driver.Push(push, {1, 1}).status()),
            v1::Refusal::NOT_READY);
  EXPECT_EQ(driver.Pull(0), std::vector<float>(2));
}

TEST(ShardSessionTest, Promise1_AnEarlierGenerationIsFenced) {
  ShardDriver driver;
  driver.MakeReady(Small());
  const v1::PushRequest push = driver.MakeSmallPush(1);
  v1::Configuration next = Next(Small());
  *next.mutable_workers(1)->mutable_generation() = Pair(1, 20);
  ASSERT_TRUE(driver.Configure(next).ok());
  const absl::Status fenced = driver.Push(push, {1, 1}).status();
  EXPECT_EQ(ReasonOf(fenced), v1::Refusal::FENCED);
  EXPECT_EQ(fenced.message(),
            "worker-1 generation 1.11 has been followed by generation 1.20");
  EXPECT_EQ(driver.Pull(0), std::vector<float>(2));
}

TEST(ShardSessionTest, Promise1_ARemovedSessionStaysFenced) {
  ShardDriver driver;
  driver.MakeReady(Small());
  v1::Configuration higher = Next(Small());
  *higher.mutable_workers(1)->mutable_generation() = Pair(1, 20);
  ASSERT_TRUE(driver.Configure(higher).ok());
  v1::Configuration back = Next(higher);
  *back.mutable_workers(1)->mutable_generation() = Pair(1, 11);
  ASSERT_TRUE(driver.Configure(back).ok());
  EXPECT_EQ(ReasonOf(driver.Push(driver.MakeSmallPush(1), {1, 1}).status()),
            v1::Refusal::FENCED);
}

TEST(ShardSessionTest, NobodyPushesInTheNameOfAnother) {
  ShardDriver driver;
  driver.MakeReady(Small());
  const absl::Status refused =
      driver.Call(PeerId::Worker(2), driver.MakeSmallPush(1), Payload({1, 1}))
          .status;
  EXPECT_EQ(ReasonOf(refused), v1::Refusal::NOT_ALLOWED);
  EXPECT_EQ(refused.message(), "worker-2 speaks in the name of worker-1");
}

TEST(ShardSessionTest, NothingIsServedBeforeTheConfiguration) {
  ShardDriver driver;
  v1::PullRequest pull;
  pull.set_encoding(v1::FP32);
  EXPECT_EQ(driver.Call({}, pull).status.message(),
            "ps-0 has not been given a configuration yet");
  EXPECT_EQ(ReasonOf(driver.Push(driver.MakeSmallPush(1), {1, 1}).status()),
            v1::Refusal::NOT_READY);
}

TEST(ShardSessionTest, NothingIsServedWhileFilling) {
  ShardDriver driver;
  (void)driver.Configure(Small());
  v1::PullRequest pull;
  pull.set_encoding(v1::FP32);
  EXPECT_EQ(driver.Call({}, pull).status.message(),
            "ps-0 is still filling its slices");
  EXPECT_EQ(driver.Push(driver.MakeSmallPush(1), {1, 1}).status().message(),
            "ps-0 is still filling its slices");
}

TEST(ShardSessionTest, ANewerConfigurationIsWaitedFor) {
  ShardDriver driver;
  driver.MakeReady(Small());
  v1::PushRequest push = driver.MakeSmallPush(1);
  *push.mutable_header()->mutable_configuration() = Pair(1, 2);
  const absl::Status refused = driver.Push(push, {1, 1}).status();
  EXPECT_EQ(ReasonOf(refused), v1::Refusal::NOT_READY);
  EXPECT_EQ(refused.message(), "ps-0 has not heard of configuration 1.2 yet");
  ASSERT_TRUE(driver.Configure(Next(Small())).ok());
  EXPECT_TRUE(driver.Push(push, {1, 1}).ok());
}

TEST(ShardSessionTest, ALaterLifeOfTheServerIsWaitedFor) {
  ShardDriver driver;
  driver.MakeReady(Small());
  v1::PushRequest push = driver.MakeSmallPush(1);
  *push.mutable_header()->mutable_server_generation() = Pair(1, 2);
  EXPECT_EQ(driver.Push(push, {1, 1}).status().message(),
            "ps-0 is generation 1.1; generation 1.2 is meant");
}

// Two runs of one job count their generations alike.
TEST(ShardSessionTest, Promise1_ACallForAnotherProcessChangesNothing) {
  ShardDriver driver;
  driver.MakeReady(Small());
  v1::PushRequest push = driver.MakeSmallPush(1);
  push.mutable_header()->set_server_incarnation(7);
  const absl::Status refused = driver.Push(push, {1, 1}).status();
  EXPECT_EQ(ReasonOf(refused), v1::Refusal::NOT_READY);
  EXPECT_EQ(refused.message(),
            "a call is for process 0000000000000007; this ps-0 is process "
            "0000000000000064");
  v1::FinishRequest finish;
  *finish.mutable_header() = push.header();
  EXPECT_EQ(ReasonOf(driver.Call(PeerId::Coordinator(), finish).status),
            v1::Refusal::NOT_READY);
  push.mutable_header()->set_server_incarnation(100);
  const auto reply = driver.Push(push, {1, 1});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->blocks(0).result(), v1::PushedBlock::APPLIED);
}

TEST(ShardSessionTest, AnswersSayProcessGenerationAndConfiguration) {
  ShardDriver driver;
  driver.MakeReady(Small());
  const auto reply = driver.Push(driver.MakeSmallPush(1), {1, 1});
  EXPECT_EQ(reply->incarnation(), 100u);
  EXPECT_EQ(reply->server_generation(), Pair(1, 1));
  EXPECT_EQ(reply->configuration(), Pair(1, 1));
}

TEST(ShardSessionTest, AnUnknownCallIsRefused) {
  ShardDriver driver;
  const absl::Status refused = driver.Call({}, v1::JoinRequest()).status;
  EXPECT_EQ(ReasonOf(refused), v1::Refusal::INVALID);
  EXPECT_EQ(refused.message(), "a parameter server does not answer this call");
}

// ---- the end ---------------------------------------------------------------

TEST(ShardFinishTest, Promise7_AFinishedServerAnswersThatAndStays) {
  ShardDriver driver;
  driver.MakeReady(Small());
  ASSERT_TRUE(driver.Ask<v1::FinishReply>(kChief, Finish(false)).ok());
  EXPECT_FALSE(driver.exited);
  v1::PullRequest pull;
  pull.set_encoding(v1::FP32);
  const absl::Status refused[] = {
      driver.Call({}, pull).status,
      driver.Push(driver.MakeSmallPush(1), {1, 1}).status(),
      driver.Configure(Small()).status(),
      driver.Call(kChief, Recall(1)).status,
      driver.Call(kChief, MakeSeal(1)).status,
      driver.Call(kChief, MakeWritten(1)).status,
  };
  for (const absl::Status& status : refused) {
    EXPECT_EQ(ReasonOf(status), v1::Refusal::JOB_FINISHED);
    EXPECT_EQ(status.message(), "the job is finished");
  }
}

TEST(ShardFinishTest, Promise7_ItLeavesWhenEverybodyKnows) {
  ShardDriver driver;
  driver.MakeReady(Small());
  ASSERT_TRUE(driver.Ask<v1::FinishReply>(kChief, Finish(false)).ok());
  ASSERT_TRUE(driver.Ask<v1::FinishReply>(kChief, Finish(true)).ok());
  EXPECT_TRUE(driver.exited);
  EXPECT_TRUE(driver.exit_status.ok());
}

TEST(ShardFinishTest, Promise7_ItLeavesAfterAWhileWhateverOthersDo) {
  ShardDriver driver;
  driver.MakeReady(Small());
  ASSERT_TRUE(driver.Ask<v1::FinishReply>(kChief, Finish(false)).ok());
  driver.Advance(absl::Seconds(9));
  ASSERT_TRUE(driver.Ask<v1::FinishReply>(kChief, Finish(false)).ok());
  EXPECT_FALSE(driver.exited);
  driver.Advance(absl::Seconds(1));
  EXPECT_TRUE(driver.exited);
  EXPECT_TRUE(driver.exit_status.ok());
}

TEST(ShardFinishTest, Promise7_WithoutACoordinatorItLeavesToBeStartedAgain) {
  ShardDriver driver;
  driver.MakeReady(Small());
  driver.Advance(absl::Minutes(9));
  ASSERT_TRUE(driver.Configure(Small()).ok());
  driver.Advance(absl::Minutes(9));
  driver.Pull(0);
  EXPECT_FALSE(driver.exited);
  driver.Advance(absl::Minutes(1));
  EXPECT_EQ(driver.exit_status,
            absl::UnavailableError("ps-0 has not heard of a coordinator for "
                                   "10m: is the chief running?"));
}

TEST(ShardStartTest, Promise4_AStartWithoutACoordinatorEnds) {
  Shard::Options options;
  options.incarnation = 100;
  options.start_timeout = absl::Seconds(5);
  ShardDriver driver(options);
  driver.Advance(absl::Seconds(4));
  EXPECT_FALSE(driver.exited);
  driver.Advance(absl::Seconds(1));
  EXPECT_EQ(driver.exit_status,
            absl::UnavailableError("ps-0 has not heard of a coordinator for "
                                   "5s: is the chief running?"));
}

TEST(ShardStartTest, TheStartIsOverWhenACoordinatorHasConfiguredTheServer) {
  Shard::Options options;
  options.incarnation = 100;
  options.start_timeout = absl::Seconds(5);
  ShardDriver driver(options);
  driver.Advance(absl::Seconds(4));
  driver.MakeReady(Small());
  driver.Advance(absl::Minutes(9));
  EXPECT_FALSE(driver.exited);
}

TEST(ShardStatusTest, TheStatusSaysWhoThisIs) {
  ShardDriver driver;
  v1::StatusReply status;
  driver.shard().FillStatus(&status);
  EXPECT_FALSE(status.server().restored());
  driver.MakeReady(Small());
  driver.shard().FillStatus(&status);
  EXPECT_EQ(status.task().type(), v1::PS);
  EXPECT_EQ(status.incarnation(), 100u);
  EXPECT_EQ(status.generation(), Pair(1, 1));
  EXPECT_EQ(status.configuration(), Pair(1, 1));
  EXPECT_TRUE(status.server().restored());
}

TEST(ShardTest, AnAnswerToTheCoordinatorSaysStalenessAndRate) {
  ShardDriver driver;
  const auto configuration = MakeConfiguration({Zeros("w", {2})});
  driver.MakeReady(configuration);
  v1::PushRequest push = driver.MakePush(1, {{0, 0}}, 2);
  ASSERT_TRUE(driver.Push(push, {1, 1}).ok());
  const auto reply = driver.Configure(configuration);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->learning_rate(), configuration.optimizer().learning_rate());
  EXPECT_GT(reply->staleness().histogram_size(), 0);
}

}  // namespace
}  // namespace paramd
