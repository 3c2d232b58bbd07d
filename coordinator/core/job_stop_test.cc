// A job that an operator stops.
#include "coordinator/core/job_stop.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/core/coordinator.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/job_end.h"
#include "proto/refusal.h"
#include "proto/stopped_job.h"

namespace paramd {
namespace {

using testing::CoreDriver;
using ::testing::HasSubstr;
using testing::JobOptions;
using testing::StartedCoordinator;

constexpr PeerId kOutside;

v1::StopJobRequest StopRequestOf(uint64_t nonce, bool now = false) {
  v1::StopJobRequest request;
  request.set_nonce(nonce);
  request.set_now(now);
  request.mutable_origin()->set_who("uid 1000");
  request.mutable_origin()->set_address("the Unix socket");
  return request;
}

v1::StopJobReply ReplyIn(const CoreDriver::Answer& answer) {
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  const auto* reply = dynamic_cast<const v1::StopJobReply*>(answer.head.get());
  return reply == nullptr ? v1::StopJobReply() : *reply;
}

// As all processes hear of it.
void ExpectStopped(const CoreDriver::Answer& answer,
                   const std::string& sentence) {
  const absl::Status end = EndFor(answer.status);
  EXPECT_TRUE(IsStoppedJob(end)) << end;
  EXPECT_THAT(end.message(), HasSubstr(sentence));
}

// A running job of two servers and two workers that have pushed.
class JobStopTest : public ::testing::Test {
 protected:
  using Worker = StartedCoordinator::Worker;

  JobStopTest() : JobStopTest(JobOptions()) {}
  explicit JobStopTest(const Coordinator::Options& options)
      : started_(options) {
    started_.Run();
    started_.Serve();
    chief_ = started_.Join(0);
    other_ = started_.Join(1);
    CatchUp();
    other_.beat.mutable_header()->set_sequence(2);
    started_.Beat(&other_);
    CatchUp();
  }
  CoreDriver& driver() { return started_.driver(); }
  void CatchUp() {
    started_.Serve();
    started_.CatchUp(&chief_);
    started_.CatchUp(&other_);
  }
  CallId Stop(uint64_t nonce = 7, bool now = false) {
    return driver().Begin(kOutside, StopRequestOf(nonce, now));
  }
  // Until every server has been asked again.
  void PassHeartbeat() {
    driver().Advance(absl::Seconds(1));
    started_.Serve();
  }
  bool Prepare() {
    const auto prepare = driver().TakeIo<v1::PrepareCheckpoint>();
    if (!prepare.has_value()) return false;
    v1::PrepareCheckpointResult result;
    result.set_directory("/dir");
    driver().Complete(prepare->first, result);
    return true;
  }
  void SealWriteCommit() {
    ASSERT_TRUE(started_.Seal(0) && started_.Seal(1));
    started_.Serve();
    ASSERT_TRUE(started_.Write(0) && started_.Write(1));
    const auto commit = driver().TakeIo<v1::CommitCheckpoint>();
    ASSERT_TRUE(commit.has_value());
    v1::CommitCheckpointResult result;
    result.set_path("/done");
    driver().Complete(commit->first, result);
  }
  // What each server is told of the end.
  std::vector<v1::FinishRequest> Finishes() {
    std::vector<v1::FinishRequest> told;
    while (const auto sent = driver().TakeSend<v1::FinishRequest>()) {
      told.push_back(static_cast<const v1::FinishRequest&>(*sent->head));
      driver().Reply(*sent, v1::FinishReply());
    }
    return told;
  }
  // The worker's heartbeat is refused with the end.
  void ExpectTold(Worker* worker) {
    const absl::Status told =
        driver().answered(worker->parked)
            ? driver().Take(worker->parked).status
            : driver().Call(PeerId::Worker(worker->index), worker->beat).status;
    EXPECT_EQ(RefusalOf(told).reason(), v1::Refusal::JOB_FINISHED);
    EXPECT_EQ(RefusalOf(told).exit_code(), 0);
    EXPECT_TRUE(IsStoppedJob(EndFor(told))) << told;
  }

  StartedCoordinator started_;
  Worker chief_;
  Worker other_;
};

TEST_F(JobStopTest, EverybodyStandsStillUntilTheLastCheckpointAndIsTold) {
  const CallId call = Stop();
  started_.CatchUp(&other_);
  EXPECT_TRUE(started_.last_reply().stop()) << "before a snapshot is open";
  PassHeartbeat();
  ASSERT_TRUE(Prepare());
  EXPECT_FALSE(driver().answered(call));
  started_.Cut(&chief_, 0);
  started_.Cut(&other_, 2);
  ASSERT_TRUE(started_.Seal(0) && started_.Seal(1));
  started_.CatchUp(&other_);
  EXPECT_TRUE(started_.last_reply().stop()) << "behind the seal, too";
  ASSERT_TRUE(started_.Write(0) && started_.Write(1));
  const auto commit = driver().TakeIo<v1::CommitCheckpoint>();
  ASSERT_TRUE(commit.has_value());
  v1::CommitCheckpointResult result;
  result.set_path("/done");
  driver().Complete(commit->first, result);
  ExpectStopped(driver().Take(call),
                "stopped by an operator (uid 1000) at step 2; a later start "
                "goes on from /done");
  ExpectTold(&other_);
  for (const v1::FinishRequest& finish : Finishes()) {
    EXPECT_TRUE(finish.finished().stopped());
    EXPECT_EQ(finish.finished().exit_code(), 0);
  }
  Finishes();
  driver().LetAllHear();
  ASSERT_TRUE(driver().exited);
  EXPECT_TRUE(IsStoppedJob(driver().exit_status)) << driver().exit_status;
  EXPECT_EQ(driver().exit_status.message(),
            "stopped by an operator (uid 1000) at step 2; a later start goes "
            "on from /done");
  EXPECT_FALSE(driver().TakeIo<v1::AppendLog>().has_value())
      << "the run is not finished";
}

TEST_F(JobStopTest, AtOnceNothingIsSavedAndItSaysWhatThatCosts) {
  ExpectStopped(driver().Take(Stop(7, /*now=*/true)),
                "stopped at once by an operator (uid 1000) at step 2, giving "
                "up the 2 since the beginning; a later start begins anew");
  EXPECT_FALSE(Prepare());
  ExpectTold(&other_);
  driver().LetAllHear();
  EXPECT_EQ(driver().exit_status.message(),
            "stopped at once by an operator (uid 1000) at step 2, giving up "
            "the 2 since the beginning; a later start begins anew");
}

TEST_F(JobStopTest, TheSecondOneHearsThatItIsUnderWayAndWaitsToo) {
  const CallId first = Stop(7);
  const CallId second = Stop(8);
  const CallId again = Stop(7);
  EXPECT_FALSE(driver().answered(first));
  driver().Advance(absl::Seconds(2));
  started_.Serve();
  const v1::StopJobReply waits = ReplyIn(driver().Take(second));
  EXPECT_TRUE(waits.already());
  EXPECT_FALSE(ReplyIn(driver().Take(first)).already());
  EXPECT_FALSE(ReplyIn(driver().Take(again)).already());
  ASSERT_TRUE(Prepare());
  const CallId late = Stop(8);
  started_.Cut(&chief_, 0);
  started_.Cut(&other_, 2);
  SealWriteCommit();
  ExpectStopped(driver().Take(late), "stopped by an operator (uid 1000)");
  // All who come later are told, as everybody is.
  const absl::Status refused = driver().Take(Stop(9)).status;
  EXPECT_TRUE(IsStoppedJob(EndFor(refused))) << refused;
}

TEST_F(JobStopTest, StorageThatFailsIsSaidAndTheSecondOneNeedNotWaitForIt) {
  Stop();
  PassHeartbeat();
  const auto prepare = driver().TakeIo<v1::PrepareCheckpoint>();
  ASSERT_TRUE(prepare.has_value());
  driver().End(prepare->first, absl::ResourceExhaustedError("disk is full"));
  driver().Advance(absl::Milliseconds(500));
  EXPECT_THAT(started_.core().waiting_for(), HasSubstr("disk is full"));
  v1::StatusReply status;
  started_.core().FillStatus(&status);
  EXPECT_EQ(status.job().stopping(),
            "is being stopped by an operator (uid 1000)");
  ExpectStopped(driver().Take(Stop(8, /*now=*/true)), "giving up the 2 since");
}

TEST_F(JobStopTest, ASnapshotThatIsBeingWrittenIsFollowedByTheLastOne) {
  const CallId checkpoint = driver().Begin(kOutside, v1::CheckpointRequest());
  ASSERT_TRUE(Prepare());
  started_.Cut(&chief_, 0);
  started_.Cut(&other_, 2);
  const CallId call = Stop();
  SealWriteCommit();
  EXPECT_TRUE(driver().answered(checkpoint));
  EXPECT_FALSE(driver().answered(call));
  PassHeartbeat();
  ASSERT_TRUE(Prepare());
}

TEST_F(JobStopTest, AJobThatIsFinishedIsNotStopped) {
  StartedCoordinator ended(JobOptions());
  v1::ReadLogResult log;
  v1::LogEntry* const entry = log.add_entries();
  entry->set_number(1);
  entry->set_run_id("run");
  entry->set_job_digest("digest");
  entry->mutable_finished();
  ended.ReadLog(log);
  const CallId call = ended.driver().Begin(kOutside, StopRequestOf(7));
  const absl::Status refused = ended.driver().Take(call).status;
  EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::JOB_FINISHED);
  EXPECT_FALSE(IsStoppedJob(EndFor(refused)));
}

TEST_F(JobStopTest, BeforeTheJobRunsItEndsWhenAllServersCanBeTold) {
  StartedCoordinator young(JobOptions());
  young.ReadLog();
  young.Append();  // The term. No server has answered.
  const CallId first = young.driver().Begin(kOutside, StopRequestOf(7));
  young.driver().Advance(absl::Seconds(2));
  const v1::StopJobReply waits = ReplyIn(young.driver().Take(first));
  EXPECT_THAT(waits.waiting_for(), HasSubstr("ps-"));
  const CallId again = young.driver().Begin(kOutside, StopRequestOf(7));
  const CallId joins = young.BeginJoin(1, 201);
  young.Serve();
  ExpectStopped(young.driver().Take(again), "a later start begins anew");
  ASSERT_TRUE(young.driver().answered(joins));
  EXPECT_TRUE(IsStoppedJob(EndFor(young.driver().Take(joins).status)));
  young.driver().LetAllHear();
  EXPECT_EQ(young.driver().exit_status.message(),
            "stopped by an operator (uid 1000) at step 0; a later start "
            "begins anew");
}

TEST_F(JobStopTest, ServersThatAreNotThereAreWaitedForAMoment) {
  StartedCoordinator young(JobOptions());
  young.ReadLog();
  young.Append();
  const auto stop = [&] {
    return young.driver().Begin(kOutside, StopRequestOf(7));
  };
  const CallId first = stop();
  young.driver().Advance(absl::Seconds(2));
  EXPECT_THAT(ReplyIn(young.driver().Take(first)).waiting_for(),
              HasSubstr("ps-"));
  young.driver().Advance(absl::Seconds(3));
  ExpectStopped(young.driver().Take(stop()), "a later start begins anew");
}

TEST_F(JobStopTest, IfTheyMayHoldPushesUntilItIsToBeAtOnce) {
  StartedCoordinator next(JobOptions());
  v1::ReadLogResult log;
  v1::LogEntry* const entry = log.add_entries();
  entry->set_number(1);
  entry->set_run_id("run");
  entry->set_job_digest("digest");
  entry->mutable_configuration()->mutable_version()->set_term(1);
  next.ReadLog(log);
  next.Append();
  const CallId first = next.driver().Begin(kOutside, StopRequestOf(7));
  for (int i = 0; i < 10; ++i) next.driver().Advance(absl::Seconds(1));
  EXPECT_THAT(ReplyIn(next.driver().Take(first)).waiting_for(),
              HasSubstr("ps-"));
  const CallId now =
      next.driver().Begin(kOutside, StopRequestOf(8, /*now=*/true));
  EXPECT_TRUE(IsStoppedJob(EndFor(next.driver().Take(now).status)));
}

TEST_F(JobStopTest, ServersThatMayHoldPushesAreNotStoppedBeforeTheyAreSaved) {
  StartedCoordinator next(JobOptions());
  next.recalled(0).set_filled(true);
  next.ReadLog();
  next.Append();
  const auto sent = next.driver().TakeSend<v1::RecallRequest>(PeerId::Ps(0));
  ASSERT_TRUE(sent.has_value());
  v1::RecallReply reply = next.recalled(0);
  reply.set_incarnation(next.incarnation(0));
  next.driver().Reply(*sent, reply);
  const CallId call = next.driver().Begin(kOutside, StopRequestOf(7));
  EXPECT_FALSE(next.driver().answered(call));
  next.driver().Advance(absl::Seconds(5));
  const CallId now =
      next.driver().Begin(kOutside, StopRequestOf(8, /*now=*/true));
  EXPECT_TRUE(IsStoppedJob(EndFor(next.driver().Take(now).status)));
}

}  // namespace
}  // namespace paramd
