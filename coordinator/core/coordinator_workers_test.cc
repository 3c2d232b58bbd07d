#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/core/coordinator.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using testing::CoreDriver;
using ::testing::HasSubstr;
using testing::JobOptions;
using testing::Pair;
using testing::StartedCoordinator;

class CoordinatorWorkersTest : public ::testing::Test {
 protected:
  using Worker = StartedCoordinator::Worker;

  CoordinatorWorkersTest() : started_(JobOptions()) {
    started_.Run();
    started_.Serve();
  }
  CoreDriver& driver() { return started_.driver(); }

  // Time in which servers and `worker` go on talking.
  void Pass(absl::Duration duration, Worker* worker = nullptr) {
    for (; duration > absl::ZeroDuration(); duration -= absl::Seconds(1)) {
      driver().Advance(std::min(duration, absl::Seconds(1)));
      started_.Serve();
      if (worker != nullptr) started_.CatchUp(worker);
    }
  }
  v1::Refusal::Reason ReasonOf(CallId call) {
    return RefusalOf(driver().Take(call).status).reason();
  }
  v1::PortionReply PortionOf(const CoreDriver::Answer& answer) {
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    return static_cast<const v1::PortionReply&>(*answer.head);
  }

  StartedCoordinator started_;
};

// ---- joining ----------------------------------------------------------------

TEST_F(CoordinatorWorkersTest, AGenerationIsToldOnlyWhenEveryServerHasIt) {
  const CallId call = started_.BeginJoin(1, 201);
  const auto first = driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(0));
  const auto second = driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(1));
  ASSERT_TRUE(first.has_value() && second.has_value());
  v1::ConfigureReply reply;
  const auto& told =
      static_cast<const v1::ConfigureRequest&>(*first->head).configuration();
  ASSERT_EQ(told.workers_size(), 1);
  *reply.mutable_configuration() = told.version();
  reply.set_restored(true);
  reply.set_incarnation(100);
  driver().Reply(*first, reply);
  EXPECT_FALSE(driver().answered(call));
  reply.set_incarnation(101);
  driver().Reply(*second, reply);
  const CoreDriver::Answer answer = driver().Take(call);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  const auto& joined = static_cast<const v1::JoinReply&>(*answer.head);
  EXPECT_EQ(joined.generation(), told.workers(0).generation());
  EXPECT_EQ(joined.configuration().version(), told.version());
}

TEST_F(CoordinatorWorkersTest,
       WhoJoinsBeforeTheServersAreFilledIsAnsweredLater) {
  StartedCoordinator early(JobOptions());
  const CallId call = early.BeginJoin(0, 200);
  early.Run();
  early.Serve();
  EXPECT_TRUE(early.driver().Take(call).status.ok());
}

TEST_F(CoordinatorWorkersTest,
       Promise4_AJoinThatWaitsIsAnsweredWithWhomItWaitsFor) {
  const CallId call = started_.BeginJoin(0, 200);
  driver().Fail(*driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(1)),
                absl::UnavailableError("connection refused"));
  driver().Advance(absl::Seconds(2));
  const v1::Refusal refusal = RefusalOf(driver().Take(call).status);
  EXPECT_EQ(refusal.reason(), v1::Refusal::NOT_READY);
  EXPECT_EQ(refusal.waiting_for(),
            "ps-1 generation 1.2 to be there: connection refused");
  EXPECT_GT(refusal.retry_after_ms(), 0u);
}

TEST_F(CoordinatorWorkersTest, TheSameIncarnationGetsTheSameAnswer) {
  const Worker worker = started_.Join(0);
  const v1::ConfigurationVersion before = started_.configuration().version();
  const CoreDriver::Answer again = driver().Take(started_.BeginJoin(0, 200));
  ASSERT_TRUE(again.status.ok()) << again.status;
  EXPECT_EQ(static_cast<const v1::JoinReply&>(*again.head).generation(),
            worker.beat.header().generation());
  EXPECT_EQ(started_.configuration().version(), before);
}

// Its pushes count from 1 again: not under the same generation.
TEST_F(CoordinatorWorkersTest,
       Promise1_AProcessThatLeftItsSessionGetsAnotherGeneration) {
  const Worker first = started_.Join(1);
  const CallId again = started_.BeginJoin(1, 201, "host", /*replaces=*/0,
                                          /*left_sessions=*/1);
  EXPECT_FALSE(driver().answered(again));
  const v1::LogEntry fence = started_.Append();
  EXPECT_EQ(fence.fence().generation(), first.beat.header().generation());
  started_.Serve();
  const CoreDriver::Answer answer = driver().Take(again);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_GT(static_cast<const v1::JoinReply&>(*answer.head).generation(),
            first.beat.header().generation());
}

TEST_F(CoordinatorWorkersTest,
       Promise1_AJoinThatComesLateEndsNoSessionOfItsProcess) {
  started_.BeginJoin(1, 201, "host", /*replaces=*/0, /*left_sessions=*/1);
  started_.Serve();
  ASSERT_EQ(started_.configuration().workers_size(), 1);
  const CallId late = started_.BeginJoin(1, 201);
  EXPECT_EQ(RefusalOf(driver().Take(late).status).reason(),
            v1::Refusal::SUPERSEDED);
  EXPECT_FALSE(driver().TakeIo<v1::AppendLog>().has_value());
  EXPECT_EQ(started_.configuration().workers_size(), 1);
}

TEST_F(CoordinatorWorkersTest, AWorkerThatIsNotOfTheJobIsRefused) {
  const CallId call = started_.BeginJoin(2, 202);
  const absl::Status status = driver().Take(call).status;
  EXPECT_EQ(RefusalOf(status).reason(), v1::Refusal::INVALID);
  EXPECT_EQ(status.message(),
            "worker-2 is not one of the 2 workers of this job");
}

TEST_F(CoordinatorWorkersTest, AWorkerWithOtherSettingsIsRefusedByBothDigests) {
  v1::JoinRequest request;
  request.mutable_task()->set_type(v1::WORKER);
  request.set_job_digest("mine");
  const absl::Status status = driver().Call(PeerId::Worker(0), request).status;
  EXPECT_EQ(RefusalOf(status).reason(), v1::Refusal::OTHER_JOB);
  EXPECT_THAT(std::string(status.message()), HasSubstr("digest mine"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("the chief digest"));
}

TEST_F(CoordinatorWorkersTest, AWorkerWithOtherDataIsRefusedByBothDirectories) {
  v1::JoinRequest request;
  request.mutable_task()->set_type(v1::WORKER);
  request.mutable_task()->set_index(1);
  request.set_job_digest("digest");
  request.set_host("there");
  request.mutable_data()->set_directory("/data/b");
  request.mutable_data()->set_examples(10000);
  const absl::Status status = driver().Call(PeerId::Worker(1), request).status;
  EXPECT_EQ(RefusalOf(status).reason(), v1::Refusal::OTHER_JOB);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("worker-1 on there has read other training data, in "
                        "'/data/b', than the chief"));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("10000 examples, not 0"));
  request.mutable_data()->clear_directory();
  EXPECT_THAT(
      std::string(driver().Call(PeerId::Worker(1), request).status.message()),
      HasSubstr("on there has read other training data than the chief on "));
}

TEST_F(CoordinatorWorkersTest,
       ASecondProcessIsRefusedWhenTheFirstIsHeardAgain) {
  Worker worker = started_.Join(1);
  const CallId second = started_.BeginJoin(1, 999, "elsewhere");
  EXPECT_FALSE(driver().answered(second));
  driver().Advance(absl::Milliseconds(10));
  started_.Beat(&worker);
  // That may have been under way when the first one died.
  EXPECT_FALSE(driver().answered(second));
  driver().Advance(absl::Seconds(2));
  EXPECT_EQ(RefusalOf(driver().Take(second).status).reason(),
            v1::Refusal::NOT_READY);
  const CallId again = started_.BeginJoin(1, 999, "elsewhere");
  started_.Beat(&worker);
  const absl::Status status = driver().Take(again).status;
  EXPECT_EQ(RefusalOf(status).reason(), v1::Refusal::TASK_TAKEN);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("worker-1 is process 4001 on host, which is alive"));
}

TEST_F(CoordinatorWorkersTest, Promise4_ASecondProcessWaitsByName) {
  started_.Join(1);
  const CallId second = started_.BeginJoin(1, 999, "elsewhere");
  driver().Advance(absl::Seconds(2));
  const v1::Refusal refusal = RefusalOf(driver().Take(second).status);
  EXPECT_EQ(refusal.reason(), v1::Refusal::NOT_READY);
  EXPECT_EQ(refusal.waiting_for(),
            "the lease of the process 4001 on host that was worker-1 "
            "generation 1.3 before");
}

TEST_F(CoordinatorWorkersTest, Promise5_ASuccessorTakesOverAfterTheLease) {
  const Worker first = started_.Join(1);
  started_.BeginJoin(1, 999);
  Pass(absl::Seconds(11));
  const auto fence = driver().TakeIo<v1::AppendLog>();
  ASSERT_TRUE(fence.has_value());
  EXPECT_EQ(fence->second.entry().fence().worker(), 1u);
  EXPECT_EQ(fence->second.entry().fence().generation(),
            first.beat.header().generation());
  // Until it is logged nobody is told.
  EXPECT_EQ(started_.configuration().workers_size(), 1);
  const CallId again = started_.BeginJoin(1, 999);
  started_.Serve();
  EXPECT_FALSE(driver().answered(again));
  driver().End(fence->first, absl::OkStatus());
  started_.Serve();
  const CoreDriver::Answer answer = driver().Take(again);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_GT(static_cast<const v1::JoinReply&>(*answer.head).generation(),
            first.beat.header().generation());
}

TEST_F(CoordinatorWorkersTest, Promise5_WhoSawTheFirstEndNeedNotWaitForALease) {
  const Worker first = started_.Join(1);
  const CallId second = started_.BeginJoin(1, 999, "host", /*replaces=*/201);
  const v1::Fence fence = started_.Append().fence();
  EXPECT_EQ(fence.worker(), 1u);
  EXPECT_EQ(fence.generation(), first.beat.header().generation());
  started_.Serve();
  const CoreDriver::Answer answer = driver().Take(second);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_GT(static_cast<const v1::JoinReply&>(*answer.head).generation(),
            first.beat.header().generation());
}

TEST_F(CoordinatorWorkersTest, WhoSawAnotherProcessEndWaits) {
  Worker first = started_.Join(1);
  started_.CatchUp(&first);
  const CallId second = started_.BeginJoin(1, 999, "host", /*replaces=*/777);
  EXPECT_TRUE(driver().ios.empty());  // No fence was appended.
  EXPECT_FALSE(driver().answered(second));
  driver().Advance(absl::Seconds(3));
  started_.Beat(&first);
  EXPECT_TRUE(driver().ios.empty());
  EXPECT_EQ(RefusalOf(driver().Take(second).status).reason(),
            v1::Refusal::NOT_READY);
}

TEST_F(CoordinatorWorkersTest, WhoseFenceIsBeingLoggedJoinsAnew) {
  const Worker first = started_.Join(1);
  Pass(absl::Seconds(11));
  ASSERT_EQ(driver().ios.size(), 1u);
  const CallId again = started_.BeginJoin(1, 201);  // The same process.
  started_.Serve();
  EXPECT_FALSE(driver().answered(again));
  started_.Append();
  started_.Serve();
  const CoreDriver::Answer answer = driver().Take(again);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_GT(static_cast<const v1::JoinReply&>(*answer.head).generation(),
            first.beat.header().generation());
}

TEST_F(CoordinatorWorkersTest,
       Promise8_WhoWaitsForAServerIsNotFencedMeanwhile) {
  started_.BeginJoin(1, 201);
  for (int i = 0; i < 30; ++i) {  // ps-1 is away for 30 s.
    driver().Advance(absl::Seconds(1));
    while (auto sent = driver().TakeSend<v1::RecallRequest>(PeerId::Ps(1))) {
      driver().Fail(*sent, absl::UnavailableError("connection refused"));
    }
    while (auto sent = driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(1))) {
      driver().Fail(*sent, absl::UnavailableError("connection refused"));
    }
    started_.BeginJoin(1, 201);
  }
  EXPECT_TRUE(driver().ios.empty());  // No fence was appended.
}

TEST_F(CoordinatorWorkersTest, AFenceThatSomebodyElseLoggedMakesItStepDown) {
  started_.Join(1);
  Pass(absl::Seconds(11));
  driver().End(driver().TakeIo<v1::AppendLog>()->first,
               absl::AbortedError("number 3 is taken"));
  EXPECT_TRUE(absl::IsAlreadyExists(driver().exit_status));
}

TEST_F(CoordinatorWorkersTest, ASilentWorkerIsFencedAndItsInputHandedOutAgain) {
  Worker silent = started_.Join(1);
  Worker other = started_.Join(0);
  const v1::Portion lost = started_.NextPortion(&silent, 0).portion();
  Pass(absl::Seconds(11), &other);
  EXPECT_EQ(started_.Append().fence().worker(), 1u);
  EXPECT_TRUE(driver().HasNote("worker-1 (process 4001 on host) is gone"));
  started_.Serve();
  EXPECT_EQ(started_.configuration().workers_size(), 1);
  const v1::Portion again = started_.NextPortion(&other, 0).portion();
  EXPECT_EQ(again.begin(), lost.begin());
  EXPECT_GT(again.id(), lost.id());
  // The one that was fenced is told to join again.
  started_.Beat(&silent);
  const v1::Refusal refusal = RefusalOf(driver().Take(silent.parked).status);
  EXPECT_EQ(refusal.reason(), v1::Refusal::NOT_READY);
  EXPECT_EQ(refusal.entity(), "session");
}

TEST_F(CoordinatorWorkersTest, AWorkerThatLeavesIsFencedAtOnce) {
  Worker worker = started_.Join(1);
  started_.CatchUp(&worker);
  worker.beat.set_leaving(true);
  started_.Beat(&worker);
  EXPECT_EQ(started_.Append().fence().worker(), 1u);
  EXPECT_EQ(ReasonOf(worker.parked), v1::Refusal::FENCED);
}

// Two runs count their generations alike.
TEST_F(CoordinatorWorkersTest, AWorkerOfAnotherRunIsRefusedByName) {
  Worker worker = started_.Join(1);
  v1::HeartbeatRequest beat = worker.beat;
  beat.set_number(beat.number() + 1);
  beat.mutable_header()->set_incarnation(999);
  const absl::Status refused = driver().Call(PeerId::Worker(1), beat).status;
  EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::OTHER_JOB);
  EXPECT_EQ(RefusalOf(refused).entity(), "session");
  // It changed nothing.
  started_.CatchUp(&worker);
}

TEST_F(CoordinatorWorkersTest, AnEarlierGenerationIsFencedByName) {
  Worker first = started_.Join(1);
  Pass(absl::Seconds(11));
  started_.Append();
  started_.Serve();
  started_.Join(1);
  started_.Beat(&first);
  const absl::Status status = driver().Take(first.parked).status;
  EXPECT_EQ(RefusalOf(status).reason(), v1::Refusal::FENCED);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("worker-1 was replaced by process 4001 on host"));
}

TEST_F(CoordinatorWorkersTest, Promise5_APauseOfTheChiefFencesNobody) {
  Worker worker = started_.Join(1);
  started_.CatchUp(&worker);
  driver().StandStill(absl::Seconds(30));
  driver().Tick();
  EXPECT_TRUE(driver().ios.empty());
  started_.CatchUp(&worker);
  Pass(absl::Seconds(12));  // Now it is really silent.
  EXPECT_EQ(driver().ios.size(), 1u);
}

// ---- heartbeats -------------------------------------------------------------

TEST_F(CoordinatorWorkersTest, AHeartbeatIsKeptWhileThereIsNothingToSay) {
  Worker worker = started_.Join(1);
  started_.CatchUp(&worker);
  driver().Advance(absl::Milliseconds(999));
  EXPECT_FALSE(started_.TakeNews(&worker));
  driver().Advance(absl::Milliseconds(1));
  EXPECT_TRUE(started_.TakeNews(&worker));
}

TEST_F(CoordinatorWorkersTest, AKeptHeartbeatIsAnsweredAtOnceOnNews) {
  Worker worker = started_.Join(1);
  started_.CatchUp(&worker);
  EXPECT_EQ(worker.beat.state(), v1::RUNNING);
  started_.Join(0);
  ASSERT_TRUE(started_.TakeNews(&worker));
  EXPECT_EQ(started_.last_reply().configuration().version(),
            started_.configuration().version());
}

TEST_F(CoordinatorWorkersTest, AConfigurationThatIsKnownIsNotSentAgain) {
  Worker worker = started_.Join(1);
  started_.CatchUp(&worker);
  driver().Advance(absl::Seconds(1));
  ASSERT_TRUE(started_.TakeNews(&worker));
  EXPECT_FALSE(started_.last_reply().has_configuration());
}

TEST_F(CoordinatorWorkersTest, ALaterHeartbeatFreesTheOneThatIsKept) {
  Worker worker = started_.Join(1);
  started_.CatchUp(&worker);
  const CallId kept = worker.parked;
  started_.Beat(&worker);
  EXPECT_TRUE(driver().answered(kept));
}

TEST_F(CoordinatorWorkersTest,
       AHeartbeatOfALowerNumberIsSupersededAndChangesNothing) {
  Worker worker = started_.Join(1);
  started_.CatchUp(&worker);
  v1::HeartbeatRequest old = worker.beat;
  old.set_number(1);
  old.mutable_header()->set_sequence(77);
  const CallId call = driver().Begin(PeerId::Worker(1), old);
  EXPECT_EQ(ReasonOf(call), v1::Refusal::SUPERSEDED);
  EXPECT_FALSE(started_.TakeNews(&worker));
  v1::StatusReply status;
  started_.core().FillStatus(&status);
  EXPECT_EQ(status.job().global_step(), 0u);
}

TEST_F(CoordinatorWorkersTest, NobodySpeaksInTheNameOfAnotherWorker) {
  Worker worker = started_.Join(1);
  started_.CatchUp(&worker);
  v1::HeartbeatRequest beat = worker.beat;
  beat.set_number(beat.number() + 1);
  EXPECT_EQ(RefusalOf(driver().Call(PeerId::Worker(0), beat).status).reason(),
            v1::Refusal::NOT_ALLOWED);
  v1::JoinRequest join;
  join.mutable_task()->set_type(v1::WORKER);
  join.mutable_task()->set_index(1);
  EXPECT_EQ(RefusalOf(driver().Call(PeerId(), join).status).reason(),
            v1::Refusal::NOT_ALLOWED);
}

TEST_F(CoordinatorWorkersTest, WhoHasNoSessionIsToldToJoinAgain) {
  v1::HeartbeatRequest request;
  request.mutable_header()->set_worker(1);
  *request.mutable_header()->mutable_generation() = Pair(1, 77);
  request.set_number(1);
  const v1::Refusal refusal =
      RefusalOf(driver().Call(PeerId::Worker(1), request).status);
  EXPECT_EQ(refusal.reason(), v1::Refusal::NOT_READY);
  EXPECT_EQ(refusal.entity(), "session");
}

TEST_F(CoordinatorWorkersTest, OnlyTheChiefsWorkerIsAskedToEvaluateAnEpoch) {
  Coordinator::Options options = JobOptions();
  options.job.set_evaluate_every_epochs(1);
  StartedCoordinator started(options);
  started.Run();
  started.Serve();
  Worker chief = started.Join(0);
  Worker other = started.Join(1);
  const uint64_t first = started.NextPortion(&chief, 0).portion().id();
  const uint64_t second = started.NextPortion(&chief, first).portion().id();
  started.CatchUp(&chief);
  started.CatchUp(&other);
  EXPECT_EQ(chief.beat.evaluate_epoch(), 0u);
  started.NextPortion(&chief, second);
  started.CatchUp(&chief);
  EXPECT_EQ(chief.beat.evaluate_epoch(), 1u);
  EXPECT_FALSE(chief.beat.evaluate_final());
  started.CatchUp(&other);
  EXPECT_EQ(other.beat.evaluate_epoch(), 0u);
  chief.beat.mutable_evaluation()->set_epoch(1);
  chief.beat.mutable_evaluation()->set_examples(10);
  chief.beat.mutable_evaluation()->set_correct(9);
  started.Beat(&chief);
  started.CatchUp(&chief);
  EXPECT_EQ(chief.beat.evaluate_epoch(), 0u);
  v1::StatusReply status;
  started.core().FillStatus(&status);
  EXPECT_EQ(status.job().evaluation().correct(), 9u);
}

TEST(CoordinatorJoinTest, Promise7_AJoinBeforeTheLogIsReadIsToldOfTheEnd) {
  StartedCoordinator started(JobOptions());
  const CallId call = started.BeginJoin(0, 200);
  v1::ReadLogResult log;
  log.add_entries()->set_number(1);
  log.mutable_entries(0)->set_run_id("run");
  log.mutable_entries(0)->set_job_digest("digest");
  log.mutable_entries(0)->mutable_finished();
  started.ReadLog(log);
  ASSERT_TRUE(started.driver().answered(call));
  EXPECT_EQ(RefusalOf(started.driver().Take(call).status).reason(),
            v1::Refusal::JOB_FINISHED);
}

// ---- portions ---------------------------------------------------------------

TEST_F(CoordinatorWorkersTest, WhatIsAskedAgainMayKnowOfMorePushes) {
  Worker worker = started_.Join(1);
  started_.TakePortion(&worker, 1, 0);
  worker.beat.mutable_header()->set_sequence(5);
  started_.TakePortion(&worker, 1, 0);
  v1::StatusReply status;
  started_.core().FillStatus(&status);
  EXPECT_EQ(status.job().members(3).pushes(), 5u);
}

TEST_F(CoordinatorWorkersTest, Promise1_TheSameNumberGetsTheSamePortion) {
  Worker worker = started_.Join(1);
  const v1::PortionReply first = PortionOf(started_.TakePortion(&worker, 1, 0));
  const v1::PortionReply again = PortionOf(started_.TakePortion(&worker, 1, 0));
  EXPECT_EQ(first.SerializeAsString(), again.SerializeAsString());
  const v1::PortionReply next = PortionOf(started_.TakePortion(&worker, 2, 0));
  EXPECT_EQ(next.portion().begin(), first.portion().end());
}

TEST_F(CoordinatorWorkersTest, APortionRequestOfALowerNumberHandsOutNothing) {
  Worker worker = started_.Join(1);
  const v1::PortionReply first = PortionOf(started_.TakePortion(&worker, 1, 0));
  EXPECT_EQ(RefusalOf(started_.TakePortion(&worker, 0, 0).status).reason(),
            v1::Refusal::SUPERSEDED);
  const v1::PortionReply second =
      PortionOf(started_.TakePortion(&worker, 2, 0));
  EXPECT_EQ(second.portion().begin(), first.portion().end());
}

TEST_F(CoordinatorWorkersTest, APortionRequestFarAheadStarvesNobody) {
  Worker worker = started_.Join(1);
  started_.TakePortion(&worker, 1, 0);
  const absl::Status refused =
      started_.TakePortion(&worker, 1000000000, 0).status;
  EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::INVALID);
  EXPECT_EQ(refused.message(),
            "portion request 1000000000 of worker-1 does not follow 1");
  EXPECT_TRUE(PortionOf(started_.TakePortion(&worker, 2, 0)).has_portion());
}

TEST_F(CoordinatorWorkersTest, PortionsEndWhenAllInputWasUsedAndNotBefore) {
  Worker worker = started_.Join(1);
  Worker other = started_.Join(0);
  uint64_t last = 0;
  for (int i = 0; i < 3; ++i) {
    last = started_.NextPortion(&worker, 0).portion().id();
  }
  const uint64_t others = started_.NextPortion(&other, 0).portion().id();
  const v1::PortionReply none = started_.NextPortion(&worker, last);
  EXPECT_FALSE(none.has_portion());
  EXPECT_FALSE(none.no_more());  // The other one may yet be lost.
  EXPECT_TRUE(started_.NextPortion(&other, others).no_more());
  EXPECT_TRUE(started_.NextPortion(&worker, last).no_more());
}

}  // namespace
}  // namespace paramd
