// Joining, what the worker and the coordinator tell each other, and the end.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/job_end.h"
#include "proto/refusal.h"
#include "worker/core/testing/joined_worker.h"
#include "worker/core/worker.h"

namespace paramd {
namespace {

using testing::CoreDriver;
using ::testing::HasSubstr;
using testing::JoinedWorker;
using testing::Pair;
using testing::WorkerOptions;

absl::Status FailedJobRefusal() {
  return RefuseFinished("job",
                        ToFinished(absl::OutOfRangeError("the loss is nan")));
}

// ---- joining ----------------------------------------------------------------

class JoiningWorkerTest : public ::testing::Test {
 protected:
  JoiningWorkerTest() : joined_(WorkerOptions()) {}
  CoreDriver& driver() { return joined_.driver(); }
  absl::optional<Outbox::SendItem> Join() {
    return driver().TakeSend<v1::JoinRequest>();
  }

  JoinedWorker joined_;
};

TEST_F(JoiningWorkerTest, AJoinSaysWhoAsks) {
  const auto sent = Join();
  ASSERT_TRUE(sent.has_value());
  EXPECT_EQ(sent->to, PeerId::Coordinator());
  const auto& join = static_cast<const v1::JoinRequest&>(*sent->head);
  EXPECT_EQ(join.task().type(), v1::WORKER);
  EXPECT_EQ(join.task().index(), 3u);
  EXPECT_EQ(join.incarnation(), 55u);
  EXPECT_EQ(join.replaces(), 44u);
  EXPECT_EQ(join.left_sessions(), 0u);
  EXPECT_EQ(join.host(), "host");
  EXPECT_EQ(join.pid(), 4003u);
  EXPECT_EQ(join.job_digest(), "digest");
}

TEST_F(JoiningWorkerTest, JoinedItAsksForInputWeightsAndNews) {
  joined_.Join();
  EXPECT_TRUE(driver().HasNote("joined as generation 1.7"));
  EXPECT_TRUE(driver().TakeSend<v1::PortionRequest>().has_value());
  EXPECT_TRUE(joined_.TakePull().has_value());
  const v1::HeartbeatRequest beat = joined_.TakeBeat();
  EXPECT_EQ(beat.number(), 1u);
  EXPECT_EQ(beat.header().worker(), 3u);
  EXPECT_EQ(beat.header().generation(), Pair(1, 7));
  EXPECT_EQ(beat.header().configuration(), Pair(1, 1));
  EXPECT_EQ(joined_.core().waiting_for(),
            "ps-0 generation 1.1 to answer a pull of worker-3 generation 1.7");
}

TEST(PackedPullTest, IsAskedForWhereAJobPrunesAndWeightsTravel) {
  for (const bool prunes : {false, true}) {
    for (const bool travels : {false, true}) {
      Worker::Options options = WorkerOptions();
      if (prunes) options.job.mutable_optimizer()->add_pruning();
      options.packs_pulls = travels;
      JoinedWorker joined(options);
      joined.Join();
      const auto pull = joined.TakePull();
      ASSERT_TRUE(pull.has_value());
      EXPECT_EQ(JoinedWorker::PullOf(*pull).takes_packed(), prunes && travels);
    }
  }
}

TEST_F(JoiningWorkerTest, Promise4_NotReadyIsAskedAgainAfterTheHintAndNamed) {
  driver().Fail(*Join(),
                RefuseForNow(v1::Refusal::NOT_READY, "ps-1",
                             absl::Milliseconds(100), "waiting for ps-1"));
  EXPECT_EQ(joined_.core().waiting_for(),
            "the coordinator to admit worker-3: waiting for ps-1");
  driver().Advance(absl::Milliseconds(99));
  EXPECT_FALSE(Join().has_value());
  driver().Advance(absl::Milliseconds(1));
  EXPECT_TRUE(Join().has_value());
}

TEST_F(JoiningWorkerTest, Promise8_NotReadyWithoutAHintIsNotAskedAgainAtOnce) {
  driver().Fail(*Join(), RefuseForNow(v1::Refusal::NOT_READY, "",
                                      absl::ZeroDuration(), "not yet"));
  EXPECT_FALSE(Join().has_value());
  driver().Advance(absl::Milliseconds(20));
  EXPECT_TRUE(Join().has_value());
}

TEST_F(JoiningWorkerTest, ACoordinatorThatIsNotThereIsAskedAgain) {
  driver().Fail(*Join(), absl::UnavailableError("connection refused"));
  EXPECT_FALSE(Join().has_value());
  driver().Advance(absl::Milliseconds(200));
  EXPECT_TRUE(Join().has_value());
}

TEST_F(JoiningWorkerTest, Promise4_WhoDoesNotAdmitItIsNamedWhenTimeIsUp) {
  while (!driver().exited) {
    if (const auto join = Join()) {
      driver().Fail(*join, absl::UnavailableError("connection refused"));
    }
    driver().Advance(absl::Seconds(1));
  }
  EXPECT_TRUE(absl::IsDeadlineExceeded(driver().exit_status));
  EXPECT_EQ(driver().exit_status.message(),
            "not joined within 1m; waiting for the coordinator to admit "
            "worker-3: connection refused");
}

TEST_F(JoiningWorkerTest, Promise4_WhoWasMissingIsNamedAfterTheChiefHasGone) {
  driver().Fail(*Join(),
                RefuseForNow(v1::Refusal::NOT_READY, "ps-1",
                             absl::Milliseconds(50), "waiting for ps-1"));
  while (!driver().exited) {
    if (const auto join = Join()) {
      driver().Fail(*join, absl::UnavailableError("connection refused"));
    }
    driver().Advance(absl::Seconds(1));
  }
  EXPECT_EQ(driver().exit_status.message(),
            "not joined within 1m; waiting for the coordinator to admit "
            "worker-3: connection refused; it waited for ps-1");
}

TEST_F(JoiningWorkerTest, ATakenTaskEndsTheProcessWithTheOthersName) {
  driver().Fail(*Join(), Refuse(v1::Refusal::TASK_TAKEN, "worker-3",
                                "worker-3 is process 7 on elsewhere"));
  EXPECT_TRUE(absl::IsAlreadyExists(driver().exit_status));
  EXPECT_EQ(driver().exit_status.message(),
            "worker-3 is process 7 on elsewhere");
}

class UnfitWorkerTest
    : public JoiningWorkerTest,
      public ::testing::WithParamInterface<v1::Refusal::Reason> {};

TEST_P(UnfitWorkerTest, EndsWithTheCoordinatorsSentence) {
  driver().Fail(*Join(), Refuse(GetParam(), "worker-3", "another job file"));
  EXPECT_TRUE(absl::IsInvalidArgument(driver().exit_status));
  EXPECT_EQ(driver().exit_status.message(), "another job file");
}

INSTANTIATE_TEST_SUITE_P(Reasons, UnfitWorkerTest,
                         ::testing::Values(v1::Refusal::OTHER_JOB,
                                           v1::Refusal::PROTOCOL,
                                           v1::Refusal::INVALID));

TEST_F(JoiningWorkerTest, Promise7_AFinishedJobEndsItWithSuccess) {
  driver().Fail(
      *Join(), Refuse(v1::Refusal::JOB_FINISHED, "job", "the job is finished"));
  EXPECT_TRUE(driver().exited);
  EXPECT_TRUE(driver().exit_status.ok());
  EXPECT_TRUE(driver().HasNote("the job is finished"));
}

TEST_F(JoiningWorkerTest, Promise7_AFailedJobEndsItWithTheReason) {
  driver().Fail(*Join(), FailedJobRefusal());
  EXPECT_EQ(driver().exit_status,
            absl::FailedPreconditionError("the loss is nan"));
  EXPECT_TRUE(driver().HasNote("the job has failed"));
}

TEST_F(JoiningWorkerTest, Promise9_ABrokenLayoutEndsTheProcess) {
  v1::JoinReply reply = joined_.MakeJoinReply();
  reply.mutable_configuration()
      ->mutable_layout()
      ->mutable_slices(0)
      ->set_row_end(1);
  driver().Reply(*Join(), reply);
  EXPECT_TRUE(absl::IsInvalidArgument(driver().exit_status));
}

TEST_F(JoiningWorkerTest, AWorkerServesNoMethod) {
  const auto answer = driver().Call(PeerId::Ps(0), v1::PullRequest());
  EXPECT_EQ(RefusalOf(answer.status).reason(), v1::Refusal::INVALID);
}

// ---- a session --------------------------------------------------------------

class WorkerSessionTest : public ::testing::Test {
 protected:
  WorkerSessionTest() : joined_(WorkerOptions()) { joined_.Join(); }
  CoreDriver& driver() { return joined_.driver(); }
  absl::optional<Outbox::SendItem> Join() {
    return driver().TakeSend<v1::JoinRequest>();
  }
  absl::optional<Outbox::SendItem> Portion() {
    return driver().TakeSend<v1::PortionRequest>();
  }
  static v1::PortionRequest PortionOf(const Outbox::SendItem& sent) {
    return static_cast<const v1::PortionRequest&>(*sent.head);
  }
  void RefuseBeat(v1::Refusal::Reason reason, const std::string& entity = "x") {
    const auto beat = driver().TakeSend<v1::HeartbeatRequest>();
    ASSERT_TRUE(beat.has_value());
    driver().Fail(*beat, Refuse(reason, entity, "so says the coordinator"));
  }
  // One batch from the first pull to the acknowledged push.
  void TrainOneBatch() {
    joined_.AnswerPull(*joined_.TakePull(), 5);
    joined_.AnswerCompute(*driver().TakeIo<v1::ComputeGradient>());
    joined_.AnswerPush(*joined_.TakePush());
  }

  JoinedWorker joined_;
};

v1::PortionReply NoneNow() {
  v1::PortionReply reply;
  reply.set_term(1);
  return reply;
}

TEST_F(WorkerSessionTest, Promise1_APortionRequestKeepsItsNumberUntilAnswered) {
  const auto first = Portion();
  EXPECT_EQ(PortionOf(*first).number(), 1u);
  driver().Fail(*first, absl::DeadlineExceededError("lost"));
  driver().Advance(absl::Milliseconds(200));
  const auto again = Portion();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(PortionOf(*again).number(), 1u);
  driver().Reply(*again, NoneNow());
  driver().Advance(absl::Milliseconds(50));
  const auto next = Portion();
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(PortionOf(*next).number(), 2u);
}

TEST_F(WorkerSessionTest, APortionIsFetchedAsSoonAsItIsKnown) {
  joined_.GivePortion(1, 4, 20);
  const auto fetch = driver().TakeIo<v1::FetchPortion>();
  ASSERT_TRUE(fetch.has_value());
  EXPECT_EQ(fetch->second.portion().begin(), 4u);
}

TEST_F(WorkerSessionTest, Promise8_NoPortionIsAskedForWhileThereIsEnough) {
  joined_.GivePortion(1, 0, 16);  // 8 batches, one portion's worth.
  driver().Advance(absl::Seconds(1));
  EXPECT_FALSE(Portion().has_value());
  joined_.AnswerPull(*joined_.TakePull(), 5);  // The first of them begins.
  EXPECT_TRUE(Portion().has_value());
}

TEST_F(WorkerSessionTest,
       Promise1_APortionIsUsedUpWhenItsLastPushIsAcknowledged) {
  joined_.GivePortion(1, 0, 2);
  const auto open = Portion();
  joined_.AnswerPull(*joined_.TakePull(), 5);
  joined_.AnswerCompute(*driver().TakeIo<v1::ComputeGradient>());
  driver().Reply(*open, NoneNow());
  driver().Advance(absl::Milliseconds(50));
  const auto before = Portion();
  EXPECT_EQ(PortionOf(*before).finished_id(), 0u);
  joined_.AnswerPush(*joined_.TakePush());
  driver().Reply(*before, NoneNow());
  driver().Advance(absl::Milliseconds(50));
  EXPECT_EQ(PortionOf(*Portion()).finished_id(), 1u);
}

TEST_F(WorkerSessionTest, TheLastBatchOfAPortionMayBeShort) {
  joined_.GivePortion(1, 0, 1);
  joined_.AnswerPull(*joined_.TakePull(), 5);
  const auto compute = driver().TakeIo<v1::ComputeGradient>();
  ASSERT_TRUE(compute.has_value());
  EXPECT_EQ(compute->second.end(), 1u);
}

TEST_F(WorkerSessionTest, ThatNoInputIsLeftIsToldAtOnce) {
  EXPECT_FALSE(joined_.TakeBeat().no_input());
  joined_.GiveNoMore();
  const v1::HeartbeatRequest beat = joined_.TakeBeat();
  EXPECT_TRUE(beat.no_input());
  EXPECT_EQ(beat.number(), 2u);
  driver().Advance(absl::Seconds(1));
  EXPECT_FALSE(Portion().has_value());
}

TEST_F(WorkerSessionTest, Promise1_InputIsNotLeftBehindByAnOpenPush) {
  joined_.GivePortion(1, 0, 2);
  joined_.GiveNoMore();
  joined_.AnswerPull(*joined_.TakePull(), 5);
  joined_.AnswerCompute(*driver().TakeIo<v1::ComputeGradient>());
  EXPECT_FALSE(joined_.TakeBeat().no_input());
  joined_.AnswerPush(*joined_.TakePush());
  EXPECT_TRUE(joined_.TakeBeat().no_input());
}

TEST_F(WorkerSessionTest, AHeartbeatFollowsTheLastAnswerAndCountsOn) {
  EXPECT_EQ(joined_.TakeBeat().number(), 1u);
  v1::HeartbeatReply news;
  news.set_state(v1::RUNNING);
  joined_.AnswerBeat(news);
  const v1::HeartbeatRequest next = joined_.TakeBeat();
  EXPECT_EQ(next.number(), 2u);
  EXPECT_EQ(next.state(), v1::RUNNING);
}

TEST_F(WorkerSessionTest, AHeartbeatSaysHowFarItIs) {
  joined_.GivePortion(1, 0, 16);
  TrainOneBatch();
  v1::HeartbeatReply news;
  joined_.AnswerBeat(news);
  const v1::HeartbeatRequest beat = joined_.TakeBeat();
  EXPECT_EQ(beat.clock(), 1u);
  EXPECT_EQ(beat.header().sequence(), 1u);
  EXPECT_EQ(beat.stats().pushes(), 1u);
}

TEST_F(WorkerSessionTest, AHeartbeatThatWasLostIsRepeatedWithAHigherNumber) {
  const auto beat = driver().TakeSend<v1::HeartbeatRequest>();
  driver().Fail(*beat, absl::DeadlineExceededError("lost"));
  driver().Advance(absl::Milliseconds(200));
  EXPECT_EQ(joined_.TakeBeat().number(), 2u);
}

TEST_F(WorkerSessionTest, TheAnswerToAnEarlierHeartbeatIsIgnored) {
  const auto first = driver().TakeSend<v1::HeartbeatRequest>();
  joined_.GiveNoMore();  // A second one leaves.
  v1::HeartbeatReply news;
  news.set_state(v1::FINISHED);
  driver().Reply(*first, news);
  EXPECT_EQ(joined_.TakeBeat().state(), v1::JOB_STATE_UNSPECIFIED);
}

TEST_F(WorkerSessionTest, Promise1_ANewLifeOfAServerIsHeardOfByHeartbeat) {
  joined_.GivePortion(1, 0, 16);
  joined_.AnswerPull(*joined_.TakePull(), 5);
  joined_.AnswerCompute(*driver().TakeIo<v1::ComputeGradient>());
  const auto lost = joined_.TakePush();
  ASSERT_TRUE(lost.has_value());
  v1::HeartbeatReply news;
  *news.mutable_configuration() =
      testing::MakeConfiguration({{"a", {2}, 0}}, 1);
  *news.mutable_configuration()->mutable_version() = Pair(1, 2);
  *news.mutable_configuration()->mutable_servers(0)->mutable_generation() =
      Pair(1, 9);
  joined_.AnswerBeat(news);
  driver().Advance(absl::ZeroDuration());
  const auto again = joined_.TakePush();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(joined_.PushOf(*again).header().sequence(), 1u);
  EXPECT_EQ(joined_.PushOf(*again).header().server_generation(), Pair(1, 9));
  EXPECT_EQ(joined_.TakeBeat().header().configuration(), Pair(1, 2));
}

TEST_F(WorkerSessionTest, Promise9_AnotherLayoutEndsTheProcess) {
  v1::HeartbeatReply news;
  *news.mutable_configuration() =
      testing::MakeConfiguration({{"a", {3}, 0}}, 1);
  *news.mutable_configuration()->mutable_version() = Pair(1, 2);
  joined_.AnswerBeat(news);
  EXPECT_TRUE(absl::IsInvalidArgument(driver().exit_status));
}

// ---- losing the session -----------------------------------------------------

TEST_F(WorkerSessionTest, AWorkerThatWasReplacedEndsToBeStartedAgain) {
  RefuseBeat(v1::Refusal::FENCED);
  EXPECT_TRUE(absl::IsAborted(driver().exit_status));
  EXPECT_EQ(driver().exit_status.message(), "so says the coordinator");
}

TEST_F(WorkerSessionTest, Promise1_AJoinSaysHowManySessionsWereLeft) {
  RefuseBeat(v1::Refusal::NOT_READY, "session");
  const auto join = Join();
  ASSERT_TRUE(join.has_value());
  EXPECT_EQ(static_cast<const v1::JoinRequest&>(*join->head).left_sessions(),
            1u);
}

TEST_F(WorkerSessionTest,
       Promise1_ASessionThatSomebodyElsePushesAsIsLeftForAnother) {
  joined_.GivePortion(1, 0, 16);
  joined_.AnswerPull(*joined_.TakePull(), 5);
  joined_.AnswerCompute(*driver().TakeIo<v1::ComputeGradient>());
  const auto push = joined_.TakePush();
  ASSERT_TRUE(push.has_value());
  v1::PushReply reply = joined_.PushReplyTo(*push);
  reply.mutable_blocks(0)->set_result(v1::PushedBlock::ALREADY_APPLIED);
  driver().Reply(*push, reply);
  EXPECT_TRUE(driver().HasNote("another process pushes as this session"));
  driver().Advance(absl::ZeroDuration());
  const auto join = Join();
  ASSERT_TRUE(join.has_value());
  EXPECT_EQ(static_cast<const v1::JoinRequest&>(*join->head).left_sessions(),
            1u);
  v1::StatusReply status;
  joined_.core().FillStatus(driver().now(), &status);
  EXPECT_EQ(status.worker().spoiled_sessions(), 1u);
}

TEST_F(WorkerSessionTest, AnotherRunsCoordinatorEndsTheProcess) {
  RefuseBeat(v1::Refusal::OTHER_JOB);
  EXPECT_TRUE(absl::IsInvalidArgument(driver().exit_status));
}

TEST_F(WorkerSessionTest, Promise1_ANewSessionCountsFromOneAndHasNewInput) {
  const auto old_pull = joined_.TakePull();
  const auto old_portion = Portion();
  RefuseBeat(v1::Refusal::NOT_READY, "session");
  EXPECT_TRUE(driver().HasNote("the coordinator knows no such session"));
  joined_.Join();
  EXPECT_TRUE(driver().HasNote("joined as generation 1.8"));
  // Answers to what the old session asked mean nothing now.
  joined_.AnswerPull(*old_pull, 5);
  v1::PortionReply late;
  late.mutable_portion()->set_end(16);
  driver().Reply(*old_portion, late);
  EXPECT_TRUE(driver().ios.empty());
  joined_.GivePortion(9, 0, 16);
  TrainOneBatch();
  const v1::HeartbeatRequest beat = joined_.TakeBeat();
  EXPECT_EQ(beat.number(), 1u);
  EXPECT_EQ(beat.header().generation(), Pair(1, 8));
}

TEST_F(WorkerSessionTest, ItDoesNotJoinAgainWhileABufferIsRead) {
  joined_.GivePortion(1, 0, 16);
  joined_.AnswerPull(*joined_.TakePull(), 5);
  const auto compute = driver().TakeIo<v1::ComputeGradient>();
  ASSERT_TRUE(compute.has_value());
  RefuseBeat(v1::Refusal::NOT_READY, "session");
  driver().Advance(absl::Seconds(5));
  EXPECT_FALSE(Join().has_value());
  joined_.AnswerCompute(*compute);  // Of no use any more.
  EXPECT_TRUE(Join().has_value());
  EXPECT_FALSE(joined_.TakePush().has_value());
}

TEST_F(WorkerSessionTest, ItDoesNotJoinAgainWhileTheEvaluationReadsItsBuffer) {
  v1::HeartbeatReply news;
  news.set_evaluate_epoch(1);
  const auto training = joined_.TakePull();
  joined_.AnswerBeat(news);
  joined_.AnswerPull(*joined_.TakePull(), 5);
  const auto evaluate = driver().TakeIo<v1::EvaluateWeights>();
  ASSERT_TRUE(evaluate.has_value());
  RefuseBeat(v1::Refusal::NOT_READY, "session");
  EXPECT_FALSE(Join().has_value());
  driver().Complete(evaluate->first, v1::EvaluateWeightsResult());
  EXPECT_TRUE(Join().has_value());
}

TEST_F(WorkerSessionTest, Promise1_AWorkerThatAServerFencesEndsToo) {
  driver().Fail(*joined_.TakePull(),
                Refuse(v1::Refusal::FENCED, "worker-3", "followed by another"));
  EXPECT_TRUE(absl::IsAborted(driver().exit_status));
  EXPECT_EQ(driver().exit_status.message(), "followed by another");
}

TEST_F(WorkerSessionTest, Promise4_ACoordinatorThatIsGoneIsNamedInTheEnd) {
  for (int i = 0; i < 100 && !driver().exited; ++i) {
    while (auto beat = driver().TakeSend<v1::HeartbeatRequest>()) {
      driver().Fail(*beat, absl::UnavailableError("connection refused"));
    }
    driver().Advance(absl::Seconds(1));
  }
  EXPECT_TRUE(absl::IsUnavailable(driver().exit_status));
  EXPECT_THAT(std::string(driver().exit_status.message()),
              HasSubstr("the coordinator has not answered for 1m"));
}

TEST_F(WorkerSessionTest, Promise4_ASilentCoordinatorIsWaitedForByName) {
  while (const auto pull = joined_.TakePull()) {
    joined_.AnswerPull(*pull, 5);  // No server is waited for.
  }
  const auto lose_beats = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      while (auto beat = driver().TakeSend<v1::HeartbeatRequest>()) {
        driver().Fail(*beat, absl::UnavailableError("DNS resolution failed"));
      }
      driver().Advance(absl::Seconds(1));
    }
  };
  lose_beats(3);
  EXPECT_EQ(joined_.core().overdue(driver().now()), "");
  lose_beats(3);
  EXPECT_EQ(joined_.core().overdue(driver().now()),
            "the coordinator to answer: DNS resolution failed");
  joined_.AnswerBeat(v1::HeartbeatReply());
  EXPECT_EQ(joined_.core().overdue(driver().now()), "");
}

// ---- the end ----------------------------------------------------------------

TEST_F(WorkerSessionTest, Promise7_TheEndIsAcknowledgedBeforeItLeaves) {
  v1::HeartbeatReply news;
  news.set_state(v1::FINISHED);
  joined_.AnswerBeat(news);
  EXPECT_FALSE(driver().exited);
  EXPECT_EQ(joined_.TakeBeat().state(), v1::FINISHED);
  joined_.AnswerBeat(news);
  EXPECT_TRUE(driver().exited);
  EXPECT_TRUE(driver().exit_status.ok());
}

TEST_F(WorkerSessionTest, Promise7_ItLeavesAlsoWhenTheCoordinatorWasFaster) {
  v1::HeartbeatReply news;
  news.set_state(v1::FINISHED);
  joined_.AnswerBeat(news);
  const auto beat = driver().TakeSend<v1::HeartbeatRequest>();
  driver().Fail(*beat, absl::UnavailableError("connection refused"));
  EXPECT_TRUE(driver().exited);
  EXPECT_TRUE(driver().exit_status.ok());
}

TEST_F(WorkerSessionTest, Promise7_AFinishedJobThatKnowsNoSessionEndsIt) {
  RefuseBeat(v1::Refusal::JOB_FINISHED);
  EXPECT_TRUE(driver().exited);
  EXPECT_TRUE(driver().exit_status.ok());
}

TEST_F(WorkerSessionTest, Promise7_AServerThatHasFinishedIsNoFailure) {
  driver().Fail(*joined_.TakePull(),
                Refuse(v1::Refusal::JOB_FINISHED, "ps-0", "has finished"));
  EXPECT_FALSE(driver().exited);  // The coordinator tells the end.
  EXPECT_FALSE(Join().has_value());
}

TEST_F(WorkerSessionTest, Promise7_AFailedJobEndsItWithTheReason) {
  const auto beat = driver().TakeSend<v1::HeartbeatRequest>();
  driver().Fail(*beat, FailedJobRefusal());
  EXPECT_EQ(driver().exit_status,
            absl::FailedPreconditionError("the loss is nan"));
}

TEST_F(WorkerSessionTest, Promise7_WhatAServerSaidCountsWhenTheChiefIsGone) {
  driver().Fail(*joined_.TakePull(), FailedJobRefusal());
  EXPECT_FALSE(driver().exited);  // The coordinator tells the end.
  const auto beat = driver().TakeSend<v1::HeartbeatRequest>();
  driver().Fail(*beat, absl::UnavailableError("connection refused"));
  EXPECT_EQ(driver().exit_status,
            absl::FailedPreconditionError("the loss is nan"));
}

TEST_F(WorkerSessionTest, FiguresAreOfTheLastSecond) {
  joined_.GivePortion(1, 0, 16);
  joined_.AnswerPull(*joined_.TakePull(), 5);
  driver().Advance(absl::Seconds(1));
  joined_.AnswerCompute(*driver().TakeIo<v1::ComputeGradient>(), /*loss=*/3);
  v1::StatusReply status;
  joined_.core().FillStatus(driver().now(), &status);
  EXPECT_EQ(status.worker().examples_per_second(), 2.0);
  EXPECT_EQ(status.worker().loss(), 1.5);
  EXPECT_EQ(status.worker().epoch(), 1u);
  EXPECT_EQ(status.worker().pull_p50_ms_size(), 1);
  EXPECT_EQ(status.generation(), Pair(1, 7));
  // The servers are silent: what it waits for is no training.
  driver().Advance(absl::Seconds(4));
  joined_.core().FillStatus(driver().now(), &status);
  EXPECT_EQ(status.worker().examples_per_second(), 0);
}

TEST_F(WorkerSessionTest, TheStatusSaysHowLongAgoTheFirstPushWas) {
  joined_.GivePortion(1, 0, 16);
  joined_.AnswerPull(*joined_.TakePull(), 5);
  joined_.AnswerCompute(*driver().TakeIo<v1::ComputeGradient>());
  v1::StatusReply status;
  joined_.core().FillStatus(driver().now(), &status);
  EXPECT_FALSE(status.has_first_push_ago_ms());
  joined_.AnswerPush(*joined_.TakePush());
  driver().Advance(absl::Seconds(2));
  joined_.core().FillStatus(driver().now(), &status);
  EXPECT_EQ(status.first_push_ago_ms(), 2000u);
}

}  // namespace
}  // namespace paramd
