// Snapshots while pushes go on.
#include <algorithm>

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
using Worker = StartedCoordinator::Worker;

// A running job of two servers and three workers, two of which are there, with
// a checkpoint every 5 steps.
class CoordinatorCutTest : public ::testing::Test {
 protected:
  CoordinatorCutTest() : started_(Options()) {
    started_.Run();
    started_.Serve();
    chief_ = started_.Join(0);
    other_ = started_.Join(1);
    CatchUp();
  }
  static Coordinator::Options Options() {
    Coordinator::Options options = JobOptions();
    options.workers = 3;
    options.job.mutable_checkpoint()->set_every_steps(5);
    return options;
  }
  CoreDriver& driver() { return started_.driver(); }
  void CatchUp() {
    started_.Serve();
    started_.CatchUp(&chief_);
    started_.CatchUp(&other_);
  }
  void Pass(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      driver().Advance(absl::Seconds(1));
      CatchUp();
    }
  }
  void Prepare() {
    v1::PrepareCheckpointResult result;
    result.set_directory("/dir");
    driver().Complete(driver().TakeIo<v1::PrepareCheckpoint>()->first, result);
  }
  // Snapshot 1.1, of which both workers hear.
  void Open() {
    chief_.beat.mutable_header()->set_sequence(5);
    started_.Beat(&chief_);
    Prepare();
    CatchUp();
  }
  // Not acknowledged.
  void SayCut(Worker* worker, uint64_t sequence) {
    *worker->beat.mutable_cut()->mutable_snapshot() = worker->beat.snapshot();
    worker->beat.mutable_cut()->set_sequence(sequence);
    worker->beat.mutable_cut()->set_acknowledged(false);
    started_.Beat(worker);
  }
  bool IsSealing() {
    return driver().TakeSend<v1::SealRequest>().has_value();
  }
  // What both servers are told by a seal of theirs.
  bool SealBoth() {
    bool stopped = false;
    for (uint32_t s = 0; s < 2; ++s) {
      const auto sent = driver().TakeSend<v1::SealRequest>(PeerId::Ps(s));
      const auto& seal = static_cast<const v1::SealRequest&>(*sent->head);
      stopped = seal.stopped();
      v1::SealReply reply;
      *reply.mutable_snapshot() = seal.header().snapshot();
      driver().Reply(*sent, reply);
    }
    return stopped;
  }
  v1::Manifest Commit() {
    EXPECT_TRUE(started_.Write(0) && started_.Write(1));
    const auto commit = driver().TakeIo<v1::CommitCheckpoint>();
    v1::CommitCheckpointResult result;
    result.set_path("/done");
    driver().Complete(commit->first, result);
    return commit->second.manifest();
  }
  v1::Version ConfigureNames(uint32_t server) {
    driver().Advance(absl::Seconds(1));
    const auto sent =
        driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(server));
    return static_cast<const v1::ConfigureRequest&>(*sent->head)
        .header()
        .snapshot();
  }

  StartedCoordinator started_;
  Worker chief_;
  Worker other_;
};

TEST_F(CoordinatorCutTest, Promise3_TheSealWaitsUntilTheCutsAreAcknowledged) {
  Open();
  started_.Cut(&chief_, 5);
  SayCut(&other_, 3);
  EXPECT_FALSE(IsSealing());
  started_.Cut(&other_, 3);
  EXPECT_TRUE(IsSealing());
}

TEST_F(CoordinatorCutTest, Promise3_InputUsedBehindTheCutIsLeftInTheManifest) {
  Open();
  started_.Cut(&chief_, 5);
  started_.Cut(&other_, 0);
  // Before the servers answer.
  Worker late = other_;
  *late.beat.mutable_header()->mutable_snapshot() = Pair(1, 1);
  started_.NextPortion(&late, 0);
  SealBoth();
  const v1::SavedInput input = Commit().input();
  EXPECT_EQ(input.remaining_size(), 0);
  EXPECT_EQ(input.next_offset(), 0u);
}

TEST_F(CoordinatorCutTest, Promise3_APortionFinishedBehindTheCutIsUsedNowhere) {
  v1::Portion portion = started_.NextPortion(&other_, 0).portion();
  Open();
  v1::WorkerCut* const cut = other_.beat.mutable_cut();
  cut->set_last_portion(portion.id());
  portion.set_begin(portion.begin() + 2);
  *cut->add_remaining() = portion;
  started_.Cut(&other_, 1);
  *other_.beat.mutable_header()->mutable_snapshot() = Pair(1, 1);
  started_.NextPortion(&other_, portion.id());
  started_.Cut(&chief_, 5);
  SealBoth();
  const v1::Manifest manifest = Commit();
  // Its next portion is left whole, and of the one before what was then.
  ASSERT_EQ(manifest.input().remaining_size(), 2);
  EXPECT_EQ(manifest.input().remaining(0).begin(), portion.end());
  EXPECT_EQ(manifest.input().remaining(1).begin(), portion.begin());
  EXPECT_EQ(manifest.input().remaining(1).end(), portion.end());
}

TEST_F(CoordinatorCutTest, Promise3_InputIsNotTakenBehindACutThatIsNotKnown) {
  const uint64_t id = started_.NextPortion(&other_, 0).portion().id();
  Open();
  *other_.beat.mutable_header()->mutable_snapshot() = Pair(1, 1);
  const CoreDriver::Answer answer = started_.TakePortion(&other_, 2, id);
  EXPECT_EQ(RefusalOf(answer.status).reason(), v1::Refusal::RETRY);
  EXPECT_EQ(answer.status.message(),
            "the cut of worker-1 for snapshot 1.1 is not known yet");
  SayCut(&other_, 1);
  EXPECT_TRUE(started_.TakePortion(&other_, 2, id).status.ok());
}

TEST_F(CoordinatorCutTest, Promise3_AWorkerThatLeavesBehindItsCutTakesNothing) {
  v1::Portion portion = started_.NextPortion(&other_, 0).portion();
  Open();
  *other_.beat.mutable_cut()->add_remaining() = portion;
  other_.beat.mutable_cut()->set_last_portion(portion.id());
  started_.Cut(&other_, 0);
  // It has used two examples since, and leaves.
  other_.beat.mutable_cut()->clear_snapshot();
  other_.beat.mutable_cut()->mutable_remaining(0)->set_begin(portion.begin() +
                                                            2);
  other_.beat.mutable_header()->set_sequence(1);
  other_.beat.set_leaving(true);
  started_.Beat(&other_);
  EXPECT_TRUE(started_.Append().has_fence());
  started_.Serve();
  started_.Cut(&chief_, 5);
  SealBoth();
  const v1::Manifest manifest = Commit();
  EXPECT_EQ(manifest.global_step(), 5u) << "its push is not in";
  ASSERT_EQ(manifest.input().remaining_size(), 2);
  EXPECT_EQ(manifest.input().remaining(0).begin(), portion.begin() + 2);
  EXPECT_EQ(manifest.input().remaining(1).begin(), portion.begin());
  EXPECT_EQ(manifest.input().remaining(1).end(), portion.begin() + 2);
}

TEST_F(CoordinatorCutTest, AWorkerThatJoinsIsAdmittedAndItsCutWaitedFor) {
  Open();
  started_.Cut(&chief_, 5);
  Worker third = started_.Join(2);
  started_.Cut(&other_, 0);
  EXPECT_FALSE(IsSealing());
  EXPECT_EQ(started_.core().waiting_for(),
            "worker-2 to say its last push for checkpoint 1.1");
  started_.CatchUp(&third);
  EXPECT_EQ(third.beat.snapshot(), Pair(1, 1));
  started_.Cut(&third, 0);
  EXPECT_TRUE(IsSealing());
}

TEST_F(CoordinatorCutTest, Promise3_NobodyIsAdmittedWhileServersSeal) {
  Open();
  started_.Cut(&chief_, 5);
  started_.Cut(&other_, 0);
  const CallId join = started_.BeginJoin(2, 202);
  started_.Serve();
  EXPECT_EQ(started_.configuration().workers_size(), 2);
  SealBoth();
  started_.Serve();
  EXPECT_TRUE(driver().answered(join));
}

TEST_F(CoordinatorCutTest, ServersHearThatASnapshotWasGivenUp) {
  Open();
  EXPECT_EQ(ConfigureNames(0), Pair(1, 1));
  started_.Restart(1);
  driver().Fail(*driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(1)),
                absl::UnavailableError("reset"));
  driver().Advance(absl::Seconds(1));
  started_.Serve();
  EXPECT_TRUE(driver().HasNote("checkpoint 1.1 was given up: ps-1 was lost"));
  EXPECT_EQ(ConfigureNames(1), Pair(1, 2));
}

TEST_F(CoordinatorCutTest, Promise4_ASnapshotWaitsForThreeStepsOfTheLongest) {
  Pass(40);  // Of one step of worker 1.
  other_.beat.mutable_header()->set_sequence(1);
  Open();
  Pass(110);
  EXPECT_FALSE(driver().HasNote("checkpoint 1.1 was given up"));
  Pass(12);
  EXPECT_TRUE(driver().HasNote(
      "checkpoint 1.1 was given up: waited too long for worker-0"));
}

TEST_F(CoordinatorCutTest, ASnapshotToLeaveWithStopsWorkers) {
  started_.DrainServer(1);
  Pass(1);
  Prepare();
  CatchUp();
  EXPECT_TRUE(other_.beat.stop());
  started_.Cut(&chief_, 0);
  started_.Cut(&other_, 0);
  EXPECT_TRUE(SealBoth());
  CatchUp();
  EXPECT_FALSE(other_.beat.stop());
}

TEST_F(CoordinatorCutTest, Promise1_OneThatWasOpenBeforeIsFollowedByAnother) {
  Open();
  started_.DrainServer(1);
  Pass(1);
  EXPECT_FALSE(other_.beat.stop());
  started_.Cut(&chief_, 5);
  started_.Cut(&other_, 0);
  EXPECT_FALSE(SealBoth());
  Commit();
  EXPECT_FALSE(started_.gone(1));
  Pass(1);
  Prepare();
  CatchUp();
  EXPECT_EQ(other_.beat.snapshot(), Pair(1, 2));
  EXPECT_TRUE(other_.beat.stop());
}

// ---- what is not its time, and not its failure ------------------------------

TEST_F(CoordinatorCutTest, Promise5_APauseOfTheChiefIsNoTimeOfASnapshot) {
  Open();
  started_.Cut(&chief_, 5);
  driver().StandStill(absl::Minutes(2));
  Pass(1);
  started_.Cut(&other_, 1);
  SealBoth();
  driver().StandStill(absl::Minutes(20));
  driver().Tick();
  Commit();
  EXPECT_TRUE(driver().HasNote("checkpoint committed at step 6"));
}

TEST_F(CoordinatorCutTest, Promise4_APauseOfTheChiefIsNoLongStep) {
  driver().StandStill(absl::Minutes(5));
  driver().Tick();
  Open();
  started_.Cut(&chief_, 5);
  Pass(61);
  EXPECT_TRUE(driver().HasNote("checkpoint 1.1 was given up"));
}

TEST_F(CoordinatorCutTest, AFailureOfAnEarlierSnapshotIsNotThatOfTheNext) {
  const absl::Status full = Refuse(v1::Refusal::INVALID, "file", "disk full");
  Open();
  started_.Cut(&chief_, 5);
  started_.Cut(&other_, 1);
  SealBoth();
  const auto late = driver().TakeSend<v1::WrittenRequest>(PeerId::Ps(0));
  ASSERT_TRUE(late.has_value());
  driver().Fail(*driver().TakeSend<v1::WrittenRequest>(PeerId::Ps(1)), full);
  EXPECT_TRUE(driver().HasNote("checkpoint 1.1 was given up: ps-1: disk full"));
  chief_.beat.mutable_header()->set_sequence(10);
  started_.Beat(&chief_);
  Prepare();
  driver().Fail(*late, full);
  EXPECT_FALSE(driver().exited);
  EXPECT_FALSE(driver().HasNote("checkpoint 1.3 was given up"));
}

}  // namespace
}  // namespace paramd
