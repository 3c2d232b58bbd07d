// Snapshots while pushes go on.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "config/shard_description.h"
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
  bool IsSealing() { return driver().TakeSend<v1::SealRequest>().has_value(); }
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
  v1::SnapshotNumber ConfigureNames(uint32_t server) {
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
            "worker-2 generation 1.5 to say its last push for checkpoint "
            "1.1");
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
  EXPECT_TRUE(
      driver().HasWarning("checkpoint 1.1 was given up: ps-1 was lost"));
  EXPECT_EQ(ConfigureNames(1), Pair(1, 2));
}

TEST_F(CoordinatorCutTest, Promise4_ASnapshotWaitsForThreeStepsOfTheLongest) {
  Pass(40);  // Of one step of worker 1.
  other_.beat.mutable_header()->set_sequence(1);
  Open();
  Pass(110);
  EXPECT_FALSE(driver().HasWarning("checkpoint 1.1 was given up"));
  Pass(12);
  EXPECT_TRUE(driver().HasWarning(
      "checkpoint 1.1 was given up: waited too long for worker-0"));
}

TEST_F(CoordinatorCutTest, Promise4_StorageThatNeverAnswersEndsTheCoordinator) {
  chief_.beat.mutable_header()->set_sequence(5);
  started_.Beat(&chief_);
  EXPECT_EQ(started_.core().waiting_for(), "storage for checkpoint 1.1")
      << "though worker 2 is not there";
  Pass(15 * 60);
  EXPECT_FALSE(driver().exited);
  Pass(2);
  EXPECT_TRUE(driver().exited);
  EXPECT_TRUE(absl::IsDeadlineExceeded(driver().exit_status));
  EXPECT_EQ(driver().exit_status.message(),
            "waited too long for storage for checkpoint 1.1");
}

TEST_F(CoordinatorCutTest, Promise4_NorIsACommitWaitedForWithoutEnd) {
  Open();
  started_.Cut(&chief_, 5);
  started_.Cut(&other_, 0);
  CatchUp();
  SealBoth();
  EXPECT_TRUE(started_.Write(0) && started_.Write(1));
  EXPECT_TRUE(driver().TakeIo<v1::CommitCheckpoint>().has_value());
  Pass(29 * 60);
  EXPECT_FALSE(driver().exited);
  Pass(62);
  EXPECT_TRUE(absl::IsDeadlineExceeded(driver().exit_status));
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
  EXPECT_TRUE(driver().HasWarning("checkpoint 1.1 was given up"));
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
  EXPECT_TRUE(
      driver().HasWarning("checkpoint 1.1 was given up: ps-1: disk full"));
  chief_.beat.mutable_header()->set_sequence(10);
  started_.Beat(&chief_);
  Prepare();
  driver().Fail(*late, full);
  EXPECT_FALSE(driver().exited);
  EXPECT_FALSE(driver().HasWarning("checkpoint 1.3 was given up"));
}

// ---- bases, and files that come through here

class CoordinatorFilesTest : public ::testing::Test {
 protected:
  CoordinatorFilesTest() : started_(Options()) {
    started_.Run();
    started_.Serve();
    worker_ = started_.Join(0);
    started_.Serve();
    started_.CatchUp(&worker_);
    started_.file(0).set_server(0);
    started_.file(1).set_server(1);
  }
  static Coordinator::Options Options() {
    Coordinator::Options options = JobOptions();
    options.workers = 1;
    options.window_bytes = 10;
    options.job.mutable_checkpoint()->set_every_steps(1);
    options.job.mutable_checkpoint()->set_incremental(2);
    return options;
  }
  CoreDriver& driver() { return started_.driver(); }

  // One push later: up to the seal, of which both servers are told this.
  v1::SealRequest Seal() {
    const uint64_t sequence = worker_.beat.header().sequence() + 1;
    worker_.beat.mutable_header()->set_sequence(sequence);
    started_.Beat(&worker_);
    v1::PrepareCheckpointResult prepared;
    prepared.set_directory("/dir");
    prepared.set_nonce(77);
    driver().Complete(driver().TakeIo<v1::PrepareCheckpoint>()->first,
                      prepared);
    started_.CatchUp(&worker_);
    started_.Cut(&worker_, sequence);
    v1::SealRequest seal;
    for (uint32_t s = 0; s < 2; ++s) {
      const auto sent = driver().TakeSend<v1::SealRequest>(PeerId::Ps(s));
      seal = static_cast<const v1::SealRequest&>(*sent->head);
      v1::SealReply reply;
      *reply.mutable_snapshot() = seal.header().snapshot();
      driver().Reply(*sent, reply);
    }
    return seal;
  }
  v1::Manifest Commit(const std::vector<v1::SnapshotNumber>& retired = {}) {
    const auto commit = driver().TakeIo<v1::CommitCheckpoint>();
    if (!commit.has_value()) return {};
    v1::CommitCheckpointResult committed;
    committed.set_path(absl::StrCat(
        "/run/", VersionName(commit->second.manifest().snapshot())));
    for (const v1::SnapshotNumber& old : retired) {
      *committed.add_to_retire() = old;
    }
    driver().Complete(commit->first, committed);
    return commit->second.manifest();
  }
  // A whole checkpoint; `based`: ps-1 refers to its base.
  v1::Manifest Checkpoint(bool based,
                          const std::vector<v1::SnapshotNumber>& retired = {}) {
    const v1::SealRequest seal = Seal();
    started_.file(1).clear_base();
    if (based) {
      *started_.file(1).mutable_base()->mutable_snapshot() = seal.base();
    }
    EXPECT_TRUE(started_.Write(0) && started_.Write(1));
    return Commit(retired);
  }
  void SayUnseen(uint32_t server, const v1::SnapshotNumber& snapshot) {
    v1::WrittenReply unseen;
    *unseen.mutable_snapshot() = snapshot;
    unseen.set_unseen(true);
    unseen.mutable_file()->set_server(server);
    unseen.mutable_file()->set_name("part");
    driver().Reply(*driver().TakeSend<v1::WrittenRequest>(PeerId::Ps(server)),
                   unseen);
  }
  // Of a file of 15 bytes.
  v1::FetchShardReply Window(const v1::SnapshotNumber& snapshot,
                             uint64_t offset) {
    v1::FetchShardReply window;
    *window.mutable_snapshot() = snapshot;
    window.set_offset(offset);
    window.set_total(15);
    return window;
  }

  StartedCoordinator started_;
  Worker worker_;
};

TEST_F(CoordinatorFilesTest, SoManyCheckpointsReferToOneThenOneHasAllBlocks) {
  EXPECT_TRUE(IsZero(Seal().base())) << "none is committed";
  EXPECT_TRUE(started_.Write(0) && started_.Write(1));
  Commit();
  const v1::Manifest second = Checkpoint(/*based=*/true);
  ASSERT_EQ(second.files_size(), 2);
  EXPECT_FALSE(second.files(0).has_base());
  EXPECT_EQ(second.files(1).base().snapshot(), Pair(1, 1));
  EXPECT_EQ(second.files(1).base().directory(), "1.1");
  EXPECT_EQ(second.files(1).base().name(), "file-1");
  EXPECT_EQ(Checkpoint(/*based=*/true).files(1).base().snapshot(), Pair(1, 1));
  EXPECT_TRUE(IsZero(Seal().base()));
}

TEST_F(CoordinatorFilesTest, ABaseThatIsToBeDeletedIsReferredToNoMore) {
  Checkpoint(/*based=*/false);
  Checkpoint(/*based=*/true, /*retired=*/{Pair(1, 1)});
  EXPECT_TRUE(IsZero(Seal().base()));
}

TEST_F(CoordinatorFilesTest, AFileThatRefersToAnotherBaseIsNotCommitted) {
  Checkpoint(/*based=*/false);
  Seal();
  *started_.file(1).mutable_base()->mutable_snapshot() = Pair(1, 9);
  EXPECT_TRUE(started_.Write(0) && started_.Write(1));
  EXPECT_FALSE(driver().TakeIo<v1::CommitCheckpoint>().has_value());
  EXPECT_TRUE(driver().HasWarning(
      "checkpoint 1.2 was given up: 'file-1' of ps-1 refers to its file of "
      "checkpoint 1.9, not of 1.1"));
}

TEST_F(CoordinatorFilesTest, AFileThatItsServerCannotWriteComesInWindows) {
  const v1::SealRequest seal = Seal();
  EXPECT_EQ(seal.nonce(), 77u);
  const v1::SnapshotNumber snapshot = seal.header().snapshot();
  ASSERT_TRUE(started_.Write(0));
  SayUnseen(1, snapshot);
  EXPECT_TRUE(driver().HasNote(
      "ps-1 does not see '/dir'; its part goes through the chief"));
  for (const uint64_t offset : {0, 10}) {
    const auto fetch = driver().TakeSend<v1::FetchShardRequest>(PeerId::Ps(1));
    ASSERT_TRUE(fetch.has_value());
    const auto& asked = static_cast<const v1::FetchShardRequest&>(*fetch->head);
    EXPECT_EQ(asked.offset(), offset);
    EXPECT_EQ(asked.limit(), 10u);
    EXPECT_EQ(asked.header().term(), 1u);
    EXPECT_EQ(asked.header().snapshot(), snapshot);
    driver().Reply(*fetch, Window(snapshot, offset),
                   {Buffer::Copy(std::string(offset == 0 ? 10 : 5, 'x'))});
    EXPECT_FALSE(driver().TakeSend<v1::FetchShardRequest>().has_value())
        << "a window at a time";
    const auto write = driver().TakeIo<v1::WriteFetched>();
    ASSERT_TRUE(write.has_value());
    EXPECT_EQ(write->second.directory(), "/dir");
    EXPECT_EQ(write->second.name(), "part");
    EXPECT_EQ(write->second.offset(), offset);
    v1::WriteFetchedResult written;
    written.set_bytes(offset == 0 ? 10 : 15);
    written.set_crc32c(5);
    driver().Complete(write->first, written);
  }
  const v1::Manifest manifest = Commit();
  ASSERT_EQ(manifest.files_size(), 2);
  EXPECT_EQ(manifest.files(1).name(), "part");
  EXPECT_EQ(manifest.files(1).bytes(), 15u);
  EXPECT_EQ(manifest.files(1).crc32c(), 5u);
}

TEST_F(CoordinatorFilesTest, AFileTooLongToBeDescribedInAnAnswerIsCommitted) {
  const v1::SnapshotNumber snapshot = Seal().header().snapshot();
  ASSERT_TRUE(started_.Write(0));
  v1::WrittenReply written;
  *written.mutable_snapshot() = snapshot;
  driver().Reply(*driver().TakeSend<v1::WrittenRequest>(PeerId::Ps(1)),
                 written);
  v1::ShardFile file;
  file.set_name("part of ps-1");
  const std::string encoded = file.SerializeAsString();
  for (const uint64_t offset : {0, 10}) {
    const auto fetch = driver().TakeSend<v1::FetchShardRequest>(PeerId::Ps(1));
    ASSERT_TRUE(fetch.has_value());
    v1::FetchShardReply window = Window(snapshot, kDescriptionOffset + offset);
    window.set_total(kDescriptionOffset + encoded.size());
    EXPECT_EQ(static_cast<const v1::FetchShardRequest&>(*fetch->head).offset(),
              window.offset());
    driver().Reply(*fetch, window, {Buffer::Copy(encoded.substr(offset, 10))});
  }
  const v1::Manifest manifest = Commit();
  ASSERT_EQ(manifest.files_size(), 2);
  EXPECT_EQ(manifest.files(1).name(), "part of ps-1");
}

TEST_F(CoordinatorFilesTest, WhatOneServerAloneAcknowledgedIsSummedUp) {
  const auto said = [&] {
    v1::StatusReply status;
    started_.core().FillStatus(&status);
    return status.job().acknowledged_alone();
  };
  Seal();
  started_.file(0).set_acknowledged_alone(3);
  started_.file(1).set_acknowledged_alone(4);
  EXPECT_TRUE(started_.Write(0) && started_.Write(1));
  EXPECT_EQ(said(), 0u) << "it is not committed yet";
  EXPECT_EQ(Commit().files(1).acknowledged_alone(), 4u);
  EXPECT_EQ(said(), 7u);
}

TEST_F(CoordinatorFilesTest, AnAnswerThatIsTooLongEndsTheSnapshotAtOnce) {
  Seal();
  driver().Fail(*driver().TakeSend<v1::WrittenRequest>(PeerId::Ps(1)),
                Refuse(v1::Refusal::OVER_LIMIT, "Written",
                       "the answer to Written has 2 bytes; the limit is 1"));
  EXPECT_TRUE(driver().HasWarning(
      "checkpoint 1.1 was given up: ps-1: the answer to Written has 2 bytes; "
      "the limit is 1"));
  EXPECT_FALSE(driver().exited);
}

TEST_F(CoordinatorFilesTest, AWindowThatIsNotWrittenEndsTheSnapshotAlone) {
  const v1::SnapshotNumber snapshot = Seal().header().snapshot();
  SayUnseen(1, snapshot);
  driver().Reply(*driver().TakeSend<v1::FetchShardRequest>(PeerId::Ps(1)),
                 Window(snapshot, 0), {Buffer::Copy(std::string(10, 'x'))});
  driver().End(driver().TakeIo<v1::WriteFetched>()->first,
               absl::ResourceExhaustedError("no space"));
  EXPECT_TRUE(driver().HasWarning(
      "checkpoint 1.1 was given up: the part of ps-1: no space"));
  EXPECT_FALSE(driver().exited);
}

TEST_F(CoordinatorFilesTest, AWindowOfAnEarlierSnapshotChangesNothing) {
  const v1::SnapshotNumber snapshot = Seal().header().snapshot();
  SayUnseen(1, snapshot);
  driver().Reply(*driver().TakeSend<v1::FetchShardRequest>(PeerId::Ps(1)),
                 Window(snapshot, 0), {Buffer::Copy(std::string(10, 'x'))});
  const auto late = driver().TakeIo<v1::WriteFetched>();
  driver().Fail(*driver().TakeSend<v1::WrittenRequest>(PeerId::Ps(0)),
                Refuse(v1::Refusal::INVALID, "file", "disk full"));
  driver().Advance(absl::Seconds(1));
  started_.Serve();
  const v1::SnapshotNumber next = Seal().header().snapshot();
  SayUnseen(1, next);
  v1::WriteFetchedResult written;
  written.set_bytes(10);
  driver().Complete(late->first, written);
  const auto fetch = driver().TakeSend<v1::FetchShardRequest>(PeerId::Ps(1));
  ASSERT_TRUE(fetch.has_value());
  EXPECT_EQ(static_cast<const v1::FetchShardRequest&>(*fetch->head).offset(),
            0u);
}

}  // namespace
}  // namespace paramd
