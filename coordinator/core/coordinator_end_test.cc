// Snapshots and the end.
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

Coordinator::Options WithCheckpoints() {
  Coordinator::Options options = JobOptions();
  options.job.mutable_checkpoint()->set_every_steps(5);
  options.job.set_drain_timeout_ms(29000);
  return options;
}

// Two workers; a checkpoint is due every 5 steps.
class CoordinatorEndTest : public ::testing::Test {
 protected:
  using Worker = StartedCoordinator::Worker;

  explicit CoordinatorEndTest(
      const Coordinator::Options& options = WithCheckpoints())
      : started_(options) {
    started_.Run();
    started_.Serve();
    chief_ = started_.Join(0);
    other_ = started_.Join(1);
    CatchUp();
  }
  CoreDriver& driver() { return started_.driver(); }
  std::string Waits() { return started_.core().waiting_for(); }
  void CatchUp() {
    started_.Serve();
    started_.CatchUp(&chief_);
    started_.CatchUp(&other_);
  }
  // Both workers go on being heard.
  void Pass(absl::Duration duration) {
    for (; duration > absl::ZeroDuration(); duration -= absl::Seconds(1)) {
      driver().Advance(std::min(duration, absl::Seconds(1)));
      if (!driver().exited) CatchUp();
    }
  }

  // ---- a snapshot, step by step
  void ReachStep(uint64_t step) {
    chief_.beat.mutable_header()->set_sequence(step);
    started_.Beat(&chief_);
  }
  void Prepare() {
    const auto prepare = driver().TakeIo<v1::PrepareCheckpoint>();
    ASSERT_TRUE(prepare.has_value());
    v1::PrepareCheckpointResult result;
    result.set_directory("/dir");
    driver().Complete(prepare->first, result);
  }
  void OpenAndCut() {
    ReachStep(5);
    Prepare();
    started_.Cut(&chief_, 5);
    started_.Cut(&other_, 1);
  }
  void SealAndWrite() {
    ASSERT_TRUE(started_.Seal(0) && started_.Seal(1));
    ASSERT_TRUE(started_.Write(0) && started_.Write(1));
  }
  v1::Manifest Commit(const std::string& path) {
    const auto commit = driver().TakeIo<v1::CommitCheckpoint>();
    EXPECT_TRUE(commit.has_value());
    v1::CommitCheckpointResult result;
    result.set_path(path);
    driver().Complete(commit->first, result);
    return commit->second.manifest();
  }

  // ---- the end, step by step
  void UseUpAllInput() {
    uint64_t last = 0;
    v1::PortionReply reply;
    while (!reply.no_more()) {
      reply = started_.NextPortion(&chief_, last);
      if (reply.has_portion()) last = reply.portion().id();
    }
    chief_.beat.set_no_input(true);
    started_.Beat(&chief_);
    other_.beat.set_no_input(true);
    started_.Beat(&other_);
  }
  void EvaluateFinally() {
    CatchUp();
    chief_.beat.mutable_evaluation()->set_examples(10);
    chief_.beat.mutable_evaluation()->set_correct(9);
    chief_.beat.mutable_evaluation()->set_epoch(2);
    chief_.beat.mutable_evaluation()->set_final(true);
    started_.Beat(&chief_);
  }
  void ComeToTheEnd() {
    UseUpAllInput();
    EvaluateFinally();
  }
  void WriteFinally() {
    Prepare();
    started_.Cut(&chief_, 8);
    started_.Cut(&other_, 1);
    SealAndWrite();
  }
  void SaveFinally() {
    WriteFinally();
    Commit("/final");
  }
  v1::WriteResult WriteResult() {
    const auto write = driver().TakeIo<v1::WriteResult>();
    EXPECT_TRUE(write.has_value());
    driver().End(write->first, absl::OkStatus());
    return write->second;
  }
  // Up to the entry in the log.
  void End() {
    ComeToTheEnd();
    SaveFinally();
    WriteResult();
    EXPECT_TRUE(started_.Append().has_finished());
  }
  // Answers all Finish that are open; how many said that everybody knows.
  int AnswerFinish() {
    int everybody = 0;
    while (const auto sent = driver().TakeSend<v1::FinishRequest>()) {
      everybody +=
          static_cast<const v1::FinishRequest&>(*sent->head).everybody_knows();
      driver().Reply(*sent, v1::FinishReply());
    }
    return everybody;
  }

  StartedCoordinator started_;
  Worker chief_;
  Worker other_;
};

// ---- snapshots --------------------------------------------------------------

TEST_F(CoordinatorEndTest, ASnapshotIsOpenedWhenItIsDue) {
  ReachStep(4);
  EXPECT_TRUE(driver().ios.empty());
  ReachStep(5);
  EXPECT_TRUE(driver().TakeIo<v1::PrepareCheckpoint>().has_value());
}

TEST_F(CoordinatorEndTest, WorkersAreToldOnceTheDirectoryIsThere) {
  ReachStep(5);
  EXPECT_FALSE(started_.TakeNews(&other_));
  Prepare();
  ASSERT_TRUE(started_.TakeNews(&other_));
  EXPECT_EQ(other_.beat.snapshot(), Pair(1, 1));
  EXPECT_FALSE(other_.beat.stop());
}

TEST_F(CoordinatorEndTest, Promise3_NothingIsSealedBeforeEveryWorkerHasCut) {
  ReachStep(5);
  Prepare();
  started_.Cut(&chief_, 5);
  EXPECT_FALSE(driver().TakeSend<v1::SealRequest>().has_value());
  EXPECT_EQ(Waits(),
            "worker-1 generation 1.4 to say its last push for checkpoint "
            "1.1");
  started_.Cut(&other_, 0);
  EXPECT_TRUE(driver().TakeSend<v1::SealRequest>().has_value());
}

TEST_F(CoordinatorEndTest, WorkersHearNoMoreOfItOnceEveryServerIsFrozen) {
  OpenAndCut();
  started_.CatchUp(&other_);
  EXPECT_EQ(other_.beat.snapshot(), Pair(1, 1));
  ASSERT_TRUE(started_.Seal(0));
  EXPECT_FALSE(started_.TakeNews(&other_));
  ASSERT_TRUE(started_.Seal(1));
  ASSERT_TRUE(started_.TakeNews(&other_));
  EXPECT_EQ(other_.beat.snapshot(), Pair(0, 0));
}

TEST_F(CoordinatorEndTest,
       Promise3_TheManifestIsCommittedWhenAllFilesAreThere) {
  OpenAndCut();
  ASSERT_TRUE(started_.Seal(0) && started_.Seal(1));
  ASSERT_TRUE(started_.Write(0));
  EXPECT_TRUE(driver().ios.empty());
  ASSERT_TRUE(started_.Write(1));
  const v1::Manifest manifest = Commit("/done");
  EXPECT_EQ(manifest.snapshot(), Pair(1, 1));
  EXPECT_EQ(manifest.global_step(), 6u);
  EXPECT_EQ(manifest.files(1).name(), "file-1");
  EXPECT_TRUE(driver().HasNote("checkpoint committed at step 6: /done"));
  v1::StatusReply status;
  started_.core().FillStatus(&status);
  EXPECT_EQ(status.job().checkpoint_path(), "/done");
  EXPECT_EQ(status.job().checkpoint_step(), 6u);
}

TEST_F(CoordinatorEndTest, Promise3_TheManifestHoldsTheInputThatIsLeft) {
  v1::Portion portion = started_.NextPortion(&other_, 0).portion();
  ReachStep(5);
  Prepare();
  started_.Cut(&chief_, 5);
  portion.set_begin(2);  // Used as far as that.
  v1::WorkerCut* cut = other_.beat.mutable_cut();
  *cut->add_remaining() = portion;
  cut->set_last_portion(portion.id());
  started_.Cut(&other_, 1);
  SealAndWrite();
  const v1::SavedInput input = Commit("/done").input();
  ASSERT_EQ(input.remaining_size(), 1);
  EXPECT_EQ(input.remaining(0).begin(), 2u);
  EXPECT_EQ(input.remaining(0).end(), 4u);
  EXPECT_EQ(input.next_epoch(), 1u);
  EXPECT_EQ(input.next_offset(), 4u);
}

TEST_F(CoordinatorEndTest, ASealSaysUnderWhichGenerationsItWasOpened) {
  OpenAndCut();
  const auto sent = driver().TakeSend<v1::SealRequest>(PeerId::Ps(1));
  const auto& seal = static_cast<const v1::SealRequest&>(*sent->head);
  EXPECT_EQ(seal.header().snapshot(), Pair(1, 1));
  EXPECT_EQ(seal.server_generations(1), Pair(1, 2));
  EXPECT_EQ(seal.directory(), "/dir");
}

TEST_F(CoordinatorEndTest, ASealThatWasLostIsRepeated) {
  OpenAndCut();
  driver().Fail(*driver().TakeSend<v1::SealRequest>(PeerId::Ps(1)),
                absl::DeadlineExceededError("no answer"));
  driver().Advance(absl::Milliseconds(200));
  started_.Serve();  // It is asked who it is first.
  EXPECT_TRUE(started_.Seal(1));
}

TEST_F(CoordinatorEndTest, AServerThatStillWritesIsAskedAgain) {
  OpenAndCut();
  ASSERT_TRUE(started_.Seal(0) && started_.Seal(1));
  driver().Fail(*driver().TakeSend<v1::WrittenRequest>(PeerId::Ps(1)),
                RefuseForNow(v1::Refusal::WAIT, "ps-1", absl::ZeroDuration(),
                             "still writing"));
  driver().Advance(absl::Milliseconds(20));
  EXPECT_TRUE(started_.Write(1));
}

TEST_F(CoordinatorEndTest, ASnapshotIsGivenUpWithTheServersReason) {
  OpenAndCut();
  ASSERT_TRUE(started_.Seal(0) && started_.Seal(1));
  driver().Fail(*driver().TakeSend<v1::WrittenRequest>(PeerId::Ps(1)),
                Refuse(v1::Refusal::INVALID, "file", "disk full"));
  EXPECT_TRUE(
      driver().HasWarning("checkpoint 1.1 was given up: ps-1: disk full"));
  EXPECT_FALSE(driver().exited);
  EXPECT_TRUE(driver().ios.empty());  // Not again at once.
}

TEST_F(CoordinatorEndTest, ASnapshotIsGivenUpWhenAServerIsLost) {
  OpenAndCut();
  ASSERT_TRUE(started_.Seal(0));
  driver().Fail(*driver().TakeSend<v1::SealRequest>(PeerId::Ps(1)),
                absl::UnavailableError("connection refused"));
  started_.Restart(1);
  driver().Advance(absl::Seconds(1));
  started_.Serve();
  EXPECT_TRUE(
      driver().HasWarning("checkpoint 1.1 was given up: ps-1 was lost"));
  started_.CatchUp(&other_);
  EXPECT_EQ(other_.beat.snapshot(), Pair(0, 0));
}

TEST_F(CoordinatorEndTest,
       Promise5_AServerThatComesBackTakesTheNewestCheckpoint) {
  OpenAndCut();
  SealAndWrite();
  Commit("/done");
  started_.Restart(0);
  driver().Advance(absl::Seconds(1));
  started_.Serve();
  EXPECT_EQ(started_.configuration().servers(0).restore_directory(), "/done");
  EXPECT_EQ(started_.configuration().servers(1).restore_directory(), "");
}

TEST_F(CoordinatorEndTest, Promise4_ASnapshotThatWaitsTooLongIsGivenUpByName) {
  ReachStep(5);
  Prepare();
  started_.Cut(&chief_, 5);
  for (int i = 0; i < 61; ++i) {
    driver().Advance(absl::Seconds(1));
    CatchUp();  // Worker 1 lives, and does not say its cut.
  }
  EXPECT_TRUE(driver().HasWarning(
      "checkpoint 1.1 was given up: waited too long for worker-1 generation "
      "1.4 to say its last push for checkpoint 1.1"));
}

TEST_F(CoordinatorEndTest, Promise5_ASilentWorkerIsFencedWhileASnapshotWaits) {
  ReachStep(5);
  Prepare();
  started_.Cut(&chief_, 5);
  for (int i = 0; i < 11; ++i) {
    driver().Advance(absl::Seconds(1));
    started_.Serve();
    started_.CatchUp(&chief_);
  }
  EXPECT_EQ(started_.Append().fence().worker(), 1u);
  EXPECT_FALSE(driver().TakeSend<v1::SealRequest>().has_value());
  started_.Serve();  // Now every server knows that it is fenced.
  SealAndWrite();
  EXPECT_EQ(Commit("/done").global_step(), 5u);
}

TEST_F(CoordinatorEndTest, AfterAGivenUpSnapshotTheNextOneHasAHigherNumber) {
  ReachStep(5);
  driver().End(driver().TakeIo<v1::PrepareCheckpoint>()->first,
               absl::InternalError("no space"));
  EXPECT_TRUE(driver().HasWarning("checkpoint 1.1 was given up: no space"));
  ReachStep(9);
  EXPECT_TRUE(driver().ios.empty());
  ReachStep(10);
  const auto prepare = driver().TakeIo<v1::PrepareCheckpoint>();
  ASSERT_TRUE(prepare.has_value());
  EXPECT_EQ(prepare->second.snapshot(), Pair(1, 3))
      << "1.2 says it was given up";
}

TEST_F(CoordinatorEndTest,
       Promise5_AServerWhoseCheckpointWasDeletedTakesTheNewest) {
  OpenAndCut();
  SealAndWrite();
  Commit("/first");
  ReachStep(10);
  Prepare();
  started_.Cut(&chief_, 10);
  started_.Cut(&other_, 1);
  SealAndWrite();
  // While the second one is committed a server comes back.
  started_.Restart(1);
  driver().Advance(absl::Seconds(1));
  started_.Serve();
  EXPECT_EQ(started_.configuration().servers(1).restore_directory(), "/first");
  driver().Advance(absl::Seconds(1));
  driver().Fail(*driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(1)),
                Refuse(v1::Refusal::INVALID, "/first", "could not restore"));
  EXPECT_FALSE(driver().exited) << "it is not known yet what was committed";
  Commit("/second");
  driver().Advance(absl::Seconds(1));
  driver().Fail(*driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(1)),
                Refuse(v1::Refusal::INVALID, "/first", "could not restore"));
  EXPECT_FALSE(driver().exited);
  EXPECT_EQ(started_.configuration().servers(1).restore_directory(), "/second");
  // There is no later one that is known.
  driver().Advance(absl::Seconds(1));
  driver().Fail(*driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(1)),
                Refuse(v1::Refusal::INVALID, "/second", "could not restore"));
  EXPECT_TRUE(absl::IsAborted(driver().exit_status));
}

TEST_F(CoordinatorEndTest, ACommitThatFailsIsAWarningAndIsCounted) {
  OpenAndCut();
  SealAndWrite();
  driver().End(driver().TakeIo<v1::CommitCheckpoint>()->first,
               absl::InternalError("no space"));
  EXPECT_TRUE(driver().HasWarning("checkpoint 1.1 was given up: no space"));
  EXPECT_FALSE(driver().exited);
  v1::StatusReply status;
  started_.core().FillStatus(&status);
  EXPECT_EQ(status.job().checkpoints_failed(), 1u);
  EXPECT_EQ(status.job().checkpoint_failure(), "no space");
}

// ---- the end ----------------------------------------------------------------

TEST_F(CoordinatorEndTest, TheEndBeginsWhenAllInputIsUsedAndEveryWorkerSaysSo) {
  UseUpAllInput();
  EXPECT_EQ(started_.configuration().state(), v1::FINISHING);
  EXPECT_EQ(Waits(), "worker-0 generation 1.3 to evaluate");
  CatchUp();
  EXPECT_TRUE(chief_.beat.evaluate_final());
  EXPECT_FALSE(other_.beat.evaluate_final());
}

TEST_F(CoordinatorEndTest, TheLastCheckpointComesAfterTheLastEvaluation) {
  UseUpAllInput();
  CatchUp();
  EXPECT_TRUE(driver().ios.empty());
  EvaluateFinally();
  EXPECT_TRUE(driver().TakeIo<v1::PrepareCheckpoint>().has_value());
}

TEST_F(CoordinatorEndTest, TheResultSaysWhatTheRunCameTo) {
  v1::LostPushes* const lost = started_.file(1).add_lost();
  *lost->mutable_generation() = chief_.beat.header().generation();
  lost->set_from(1);
  lost->set_to(3);
  lost->set_server(1);
  *lost->mutable_server_generation() =
      started_.configuration().servers(1).generation();
  v1::AppliedRun* const applied =
      started_.file(0).add_slices()->add_applied();  // And no records.
  applied->set_applied(2);
  applied->set_blocks(1);
  Pass(absl::Seconds(1));
  ComeToTheEnd();
  SaveFinally();
  const v1::WriteResult result = WriteResult();
  EXPECT_EQ(result.evaluation().correct(), 9u);
  EXPECT_EQ(result.epochs(), 2u);
  EXPECT_EQ(result.global_step(), 9u);
  EXPECT_EQ(result.checkpoint_path(), "/final");
  EXPECT_EQ(result.pushes_lost(), 3u);
  EXPECT_EQ(result.pushes_doubled(), 2u);
  EXPECT_THAT(
      result.warnings(),
      ::testing::Contains(::testing::StartsWith(
          "3 of 9 pushes (33.3%) were lost with the memory of servers, which "
          "go back to the newest checkpoint: one is written every 5 steps;")));
}

TEST_F(CoordinatorEndTest, WhatIsLostDuringTheLastCommitIsInTheCheckpoint) {
  other_.beat.mutable_header()->set_sequence(3);
  other_.beat.set_leaving(true);
  started_.Beat(&other_);
  EXPECT_TRUE(started_.Append().has_fence());
  other_ = started_.Join(1);
  CatchUp();
  ComeToTheEnd();
  WriteFinally();
  started_.Restart(1);
  Pass(absl::Seconds(1));
  EXPECT_TRUE(driver().HasNote("lost: pushes 1 to 3 of worker-1"));
  Commit("/final");
  EXPECT_EQ(WriteResult().pushes_lost(), 0u);
}

TEST_F(CoordinatorEndTest, Promise7_TheEndIsLoggedBeforeAnyoneIsTold) {
  ComeToTheEnd();
  SaveFinally();
  WriteResult();
  started_.CatchUp(&other_);
  EXPECT_EQ(other_.beat.state(), v1::FINISHING);
  EXPECT_FALSE(driver().TakeSend<v1::FinishRequest>().has_value());
  EXPECT_TRUE(started_.Append().has_finished());
  ASSERT_TRUE(started_.TakeNews(&other_));
  EXPECT_EQ(other_.beat.state(), v1::FINISHED);
}

TEST_F(CoordinatorEndTest, Promise7_ItEndsWhenAllWorkersAndServersKnow) {
  End();
  CatchUp();  // Servers have answered what they were asked before.
  EXPECT_EQ(AnswerFinish(), 0);
  EXPECT_EQ(Waits(), "all processes to hear of the end");
  started_.Beat(&chief_);
  EXPECT_TRUE(driver().sends.empty());
  started_.Beat(&other_);
  EXPECT_TRUE(driver().answered(other_.parked));
  EXPECT_FALSE(driver().exited);
  EXPECT_EQ(AnswerFinish(), 2);
  EXPECT_TRUE(driver().exited);
  EXPECT_TRUE(driver().exit_status.ok());
}

TEST_F(CoordinatorEndTest,
       Promise7_AServerWhoseFirstWordOfTheEndWasLostIsToldAgain) {
  End();
  started_.Serve();
  driver().Fail(*driver().TakeSend<v1::FinishRequest>(PeerId::Ps(1)),
                absl::UnavailableError("connection reset"));
  driver().Advance(absl::Milliseconds(200));
  EXPECT_TRUE(driver().TakeSend<v1::FinishRequest>(PeerId::Ps(1)).has_value());
}

TEST_F(CoordinatorEndTest, Promise7_AWorkerThatIsGoneIsNotWaitedForLong) {
  End();
  started_.Serve();
  AnswerFinish();
  started_.CatchUp(&chief_);  // Worker 1 says nothing any more.
  for (int i = 0; i < 11 && !driver().exited; ++i) {
    driver().Advance(absl::Seconds(1));
    if (!driver().exited) started_.CatchUp(&chief_);
    AnswerFinish();
  }
  EXPECT_TRUE(driver().exited);
  EXPECT_TRUE(driver().exit_status.ok());
}

TEST_F(CoordinatorEndTest,
       Promise7_ServersThatDoNotAnswerAreNotWaitedForForEver) {
  End();
  Pass(absl::Seconds(20));
  driver().Advance(absl::Seconds(1));
  EXPECT_TRUE(driver().exited);
  EXPECT_TRUE(driver().exit_status.ok());
}

TEST_F(CoordinatorEndTest, Promise7_WhoJoinsAfterTheEndIsToldSo) {
  End();
  const CallId join = started_.BeginJoin(1, 999);
  EXPECT_EQ(RefusalOf(driver().Take(join).status).reason(),
            v1::Refusal::JOB_FINISHED);
}

// Of three workers the last has not come yet.
class LateWorkerTest : public CoordinatorEndTest {
 protected:
  static Coordinator::Options ThreeWorkers() {
    Coordinator::Options options = WithCheckpoints();
    options.workers = 3;
    return options;
  }
  LateWorkerTest() : CoordinatorEndTest(ThreeWorkers()) {}
};

TEST_F(LateWorkerTest, Promise7_AWorkerWithoutASessionIsStillToldTheEnd) {
  End();
  CatchUp();
  AnswerFinish();
  started_.Beat(&chief_);
  started_.Beat(&other_);
  EXPECT_EQ(AnswerFinish(), 0);  // Not everybody knows.
  const CallId join = started_.BeginJoin(2, 202);
  EXPECT_EQ(RefusalOf(driver().Take(join).status).reason(),
            v1::Refusal::JOB_FINISHED);
  EXPECT_EQ(AnswerFinish(), 2);
  EXPECT_TRUE(driver().exited);
}

// Space that is freed meanwhile is used, and later by the next start.
TEST_F(CoordinatorEndTest,
       Promise3_TheLastCheckpointIsTriedForTheDrainTimeout) {
  ComeToTheEnd();
  int attempts = 0;
  for (int second = 0; second < 30; ++second) {
    EXPECT_FALSE(driver().exited);
    if (const auto prepare = driver().TakeIo<v1::PrepareCheckpoint>()) {
      ++attempts;
      driver().End(prepare->first, absl::InternalError("no space"));
      EXPECT_THAT(Waits(), HasSubstr("tried again: no space"));
    }
    Pass(absl::Seconds(1));
  }
  EXPECT_GT(attempts, 10);
  EXPECT_FALSE(driver().exited);
  driver().End(driver().TakeIo<v1::PrepareCheckpoint>()->first,
               absl::InternalError("no space"));
  EXPECT_TRUE(absl::IsUnavailable(driver().exit_status));
  EXPECT_THAT(std::string(driver().exit_status.message()),
              HasSubstr("the last checkpoint can't be written: no space; it "
                        "takes about 16 bytes: see to it, and start the job "
                        "again in its run_dir (paramd local: --resume)"));
}

TEST_F(CoordinatorEndTest,
       Promise3_TheLastCheckpointWaitsForAServerThatIsAway) {
  ComeToTheEnd();
  Prepare();
  started_.Cut(&chief_, 8);
  started_.Cut(&other_, 1);
  ASSERT_TRUE(started_.Seal(0));
  driver().Fail(*driver().TakeSend<v1::SealRequest>(PeerId::Ps(1)),
                absl::UnavailableError("connection refused"));
  for (int second = 0; second < 200; ++second) {
    driver().Advance(absl::Seconds(1));
    if (const auto recall =
            driver().TakeSend<v1::RecallRequest>(PeerId::Ps(1))) {
      driver().Fail(*recall, absl::UnavailableError("connection refused"));
    }
    CatchUp();
  }
  EXPECT_FALSE(driver().exited);
  EXPECT_TRUE(driver().ios.empty());
  EXPECT_EQ(Waits(), "ps-1 generation 1.2 to be there: connection refused");
  Pass(absl::Seconds(1));
  SaveFinally();
  EXPECT_EQ(WriteResult().checkpoint_path(), "/final");
}

TEST_F(CoordinatorEndTest, Promise3_ALostServerIsNoFailureOfTheLastCheckpoint) {
  ComeToTheEnd();
  for (int i = 0; i < 4; ++i) {
    Prepare();
    started_.Restart(1);
    driver().Advance(absl::Seconds(1));
    CatchUp();
  }
  EXPECT_FALSE(driver().exited);
  SaveFinally();
}

TEST_F(CoordinatorEndTest, AResultThatCannotBeWrittenEndsTheProcessUnfinished) {
  ComeToTheEnd();
  SaveFinally();
  driver().End(driver().TakeIo<v1::WriteResult>()->first,
               absl::InternalError("no space"));
  driver().LetAllHear();
  EXPECT_EQ(driver().exit_status.message(), "no space");
  EXPECT_TRUE(driver().ios.empty());
}

}  // namespace
}  // namespace paramd
