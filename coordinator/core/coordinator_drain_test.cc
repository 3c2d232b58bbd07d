// Processes that are told to stop.
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/core/coordinator.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using testing::CoreDriver;
using testing::JobOptions;
using testing::Pair;
using testing::StartedCoordinator;

class CoordinatorDrainTest : public ::testing::Test {
 protected:
  using Worker = StartedCoordinator::Worker;

  CoordinatorDrainTest() : started_(JobOptions()) {
    started_.Run();
    started_.Serve();
    chief_ = started_.Join(0);
    other_ = started_.Join(1);
    CatchUp();
  }
  CoreDriver& driver() { return started_.driver(); }
  void CatchUp() {
    started_.Serve();
    started_.CatchUp(&chief_);
    started_.CatchUp(&other_);
  }
  // The worker's last words, and the entry in the log that they lead to.
  void Leave(Worker* worker) {
    worker->beat.set_leaving(true);
    started_.Beat(worker);
    EXPECT_TRUE(started_.Append().has_fence());
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
    ASSERT_TRUE(started_.Write(0) && started_.Write(1));
    const auto commit = driver().TakeIo<v1::CommitCheckpoint>();
    ASSERT_TRUE(commit.has_value());
    v1::CommitCheckpointResult result;
    result.set_path("/done");
    driver().Complete(commit->first, result);
  }
  // Until every server has been asked again.
  void PassHeartbeat() {
    driver().Advance(absl::Seconds(1));
    started_.Serve();
  }
  void DrainServerAndSave() {
    started_.DrainServer(1);
    PassHeartbeat();
    ASSERT_TRUE(Prepare());
    started_.Cut(&chief_, 3);
    started_.Cut(&other_, 2);
    SealWriteCommit();
    started_.Serve();
  }

  StartedCoordinator started_;
  Worker chief_;
  Worker other_;
};

// ---- a worker ---------------------------------------------------------------

TEST_F(CoordinatorDrainTest,
       Promise1_WhatAWorkerThatLeavesUsedIsNotHandedOutAgain) {
  v1::Portion portion = started_.NextPortion(&other_, 0).portion();
  portion.set_begin(2);
  *other_.beat.mutable_cut()->add_remaining() = portion;
  other_.beat.mutable_cut()->set_last_portion(portion.id());
  Leave(&other_);
  const v1::Portion again = started_.NextPortion(&chief_, 0).portion();
  EXPECT_EQ(again.begin(), 2u);
  EXPECT_EQ(again.end(), 4u);
}

TEST_F(CoordinatorDrainTest, AWorkerHearsThatItsLeavingIsKnown) {
  other_.beat.set_leaving(true);
  started_.Beat(&other_);
  EXPECT_FALSE(driver().answered(other_.parked));
  started_.Append();
  const CoreDriver::Answer answer = driver().Take(other_.parked);
  EXPECT_EQ(RefusalOf(answer.status).reason(), v1::Refusal::FENCED);
}

// ---- a server ---------------------------------------------------------------

TEST_F(CoordinatorDrainTest,
       AServerThatDrainsGetsASnapshotAndHearsOfItsCommit) {
  DrainServerAndSave();
  EXPECT_TRUE(started_.gone(1));
  PassHeartbeat();
  EXPECT_FALSE(Prepare());
  EXPECT_EQ(started_.core().waiting_for(),
            "ps-1 generation 1.2 to be there: refused");
}

TEST_F(CoordinatorDrainTest, Promise5_ItsSuccessorTakesItsCheckpoint) {
  DrainServerAndSave();
  started_.Restart(1);
  PassHeartbeat();
  EXPECT_TRUE(
      driver().HasNote("ps-1 is back after it was stopped; it takes /done, "
                       "which is all it had"));
  EXPECT_EQ(started_.configuration().servers(1).restore_directory(), "/done");
}

TEST_F(CoordinatorDrainTest, ASnapshotThatFailedIsTriedAgainLater) {
  started_.DrainServer(1);
  PassHeartbeat();
  const auto prepare = driver().TakeIo<v1::PrepareCheckpoint>();
  ASSERT_TRUE(prepare.has_value());
  driver().End(prepare->first, absl::ResourceExhaustedError("disk is full"));
  EXPECT_FALSE(Prepare());
  PassHeartbeat();
  EXPECT_TRUE(Prepare());
}

// ---- the chief --------------------------------------------------------------

TEST_F(CoordinatorDrainTest, BeforeTheJobRunsItLeavesAtOnce) {
  StartedCoordinator young(JobOptions());
  young.ReadLog();
  young.driver().Drain();
  EXPECT_TRUE(young.driver().exited);
  EXPECT_TRUE(young.driver().exit_status.ok());
}

TEST_F(CoordinatorDrainTest, BeforeAnybodyHasPushedItNeedsNoServer) {
  StartedCoordinator young(JobOptions());
  young.Run();
  young.Serve();
  young.driver().Drain();
  EXPECT_FALSE(young.driver().exited);  // Do servers drain too?
  young.driver().Advance(absl::Seconds(1));
  young.Serve();
  EXPECT_FALSE(young.driver().TakeIo<v1::PrepareCheckpoint>().has_value());
  EXPECT_TRUE(young.driver().exited);
  EXPECT_TRUE(young.driver().exit_status.ok());
}

TEST_F(CoordinatorDrainTest, ItLeavesWithACheckpointAndAfterItsOwnWorker) {
  driver().Drain();
  EXPECT_FALSE(Prepare());  // Do servers drain too?
  PassHeartbeat();
  ASSERT_TRUE(Prepare());
  started_.Cut(&other_, 2);
  Leave(&chief_);
  SealWriteCommit();
  EXPECT_TRUE(driver().exited);
  EXPECT_TRUE(driver().exit_status.ok());
}

TEST_F(CoordinatorDrainTest, ItStaysUntilServersThatDrainTooAreTold) {
  driver().Drain();
  started_.DrainServer(1);
  PassHeartbeat();
  ASSERT_TRUE(Prepare());
  started_.Cut(&other_, 2);
  Leave(&chief_);
  SealWriteCommit();
  EXPECT_FALSE(driver().exited);
  EXPECT_EQ(started_.core().waiting_for(), "worker-0 and the servers to leave");
  started_.Serve();
  EXPECT_TRUE(started_.gone(1));
  EXPECT_TRUE(driver().exited);
}

TEST_F(CoordinatorDrainTest, WhoWasAdmittedBeforeIsToldAgainMeanwhile) {
  driver().Drain();
  const CallId again = started_.BeginJoin(1, 201);  // The answer was lost.
  ASSERT_TRUE(driver().answered(again));
  EXPECT_TRUE(driver().Take(again).status.ok());
}

TEST_F(CoordinatorDrainTest, NobodyIsAdmittedMeanwhile) {
  Leave(&other_);
  driver().Drain();
  const CallId call = started_.BeginJoin(1, 999);
  started_.Serve();
  driver().Advance(absl::Seconds(2));
  ASSERT_TRUE(driver().answered(call));
  EXPECT_EQ(RefusalOf(driver().Take(call).status).reason(),
            v1::Refusal::NOT_READY);
}

}  // namespace
}  // namespace paramd
