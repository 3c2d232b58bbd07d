// Which checkpoints are taken and which are deleted.
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/core/coordinator.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using testing::CoreDriver;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::JobOptions;
using testing::Pair;
using testing::StartedCoordinator;

// Two workers; a checkpoint is due after each step.
class CoordinatorRetireTest : public ::testing::Test {
 protected:
  using Worker = StartedCoordinator::Worker;

  static Coordinator::Options Often() {
    Coordinator::Options options = JobOptions();
    options.job.mutable_checkpoint()->set_every_steps(1);
    return options;
  }

  explicit CoordinatorRetireTest(const Coordinator::Options& options = Often())
      : started_(options) {
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
  // The chief's pushes, up to this one; then the commit of a checkpoint of it.
  std::pair<IoId, v1::CommitCheckpoint> Save(uint64_t step) {
    chief_.beat.mutable_header()->set_sequence(step);
    started_.Beat(&chief_);
    const auto prepare = driver().TakeIo<v1::PrepareCheckpoint>();
    EXPECT_TRUE(prepare.has_value());
    v1::PrepareCheckpointResult prepared;
    prepared.set_directory("/dir");
    driver().Complete(prepare->first, prepared);
    started_.Cut(&chief_, step);
    started_.Cut(&other_, 0);
    EXPECT_TRUE(started_.Seal(0) && started_.Seal(1));
    EXPECT_TRUE(started_.Write(0) && started_.Write(1));
    const auto commit = driver().TakeIo<v1::CommitCheckpoint>();
    EXPECT_TRUE(commit.has_value());
    return *commit;
  }
  void Committed(IoId commit,
                 const std::vector<v1::SnapshotNumber>& to_retire) {
    v1::CommitCheckpointResult result;
    result.set_path("/saved");
    for (const v1::SnapshotNumber& old : to_retire) {
      *result.add_to_retire() = old;
    }
    driver().Complete(commit, result);
  }
  // What is to be deleted now.
  std::vector<v1::SnapshotNumber> Deleting() {
    const auto remove = driver().TakeIo<v1::DeleteCheckpoints>();
    if (!remove.has_value()) return {};
    driver().Complete(remove->first, v1::DeleteCheckpointsResult());
    return {remove->second.snapshots().begin(),
            remove->second.snapshots().end()};
  }

  StartedCoordinator started_;
  Worker chief_;
  Worker other_;
};

TEST_F(CoordinatorRetireTest, NothingIsDeletedBeforeTheLogHasItAsRetired) {
  Committed(Save(1).first, {Pair(1, 7), Pair(1, 8)});
  EXPECT_THAT(Deleting(), ElementsAre());
  EXPECT_EQ(started_.Append().retired(), Pair(1, 7));
  EXPECT_THAT(Deleting(), ElementsAre(Pair(1, 7)));
  EXPECT_EQ(started_.Append().retired(), Pair(1, 8));
  EXPECT_THAT(Deleting(), ElementsAre(Pair(1, 8)));
}

// Another chief has the number: it may go on from what was to be deleted.
TEST_F(CoordinatorRetireTest, OneThatWasReplacedDeletesNothing) {
  Committed(Save(1).first, {Pair(1, 7), Pair(1, 8)});
  driver().End(driver().TakeIo<v1::AppendLog>()->first,
               absl::AbortedError("another coordinator's"));
  EXPECT_THAT(Deleting(), ElementsAre());
  EXPECT_TRUE(driver().exited);
  EXPECT_TRUE(absl::IsAlreadyExists(driver().exit_status));
}

TEST_F(CoordinatorRetireTest, OneThatCouldNotBeDeletedIsNotLoggedAgain) {
  Committed(Save(1).first, {Pair(1, 7)});
  started_.Append();
  EXPECT_THAT(Deleting(), ElementsAre(Pair(1, 7)));
  Committed(Save(2).first, {Pair(1, 7)});
  EXPECT_FALSE(driver().TakeIo<v1::AppendLog>().has_value());
  EXPECT_THAT(Deleting(), ElementsAre(Pair(1, 7)));
}

TEST_F(CoordinatorRetireTest, TheCommitSaysWhatTheSettingsKeep) {
  const auto commit = Save(1).second;
  EXPECT_EQ(commit.retention().keep(), 3u);
  EXPECT_EQ(commit.retention().metric(), "loss") << "nothing has an accuracy";
  EXPECT_FALSE(commit.manifest().final());
}

TEST_F(CoordinatorRetireTest, TheManifestNamesTheNewestEvaluation) {
  Committed(Save(1).first, {});
  v1::Evaluation* evaluation = chief_.beat.mutable_evaluation();
  evaluation->set_epoch(1);
  evaluation->set_examples(4);
  (*evaluation->mutable_metrics())["accuracy"] = 0.75;
  evaluation->set_loss(0.5);
  const v1::CommitCheckpoint commit = Save(2).second;
  EXPECT_EQ(commit.retention().metric(), "accuracy");
  const v1::Manifest& manifest = commit.manifest();
  EXPECT_EQ(manifest.metrics().at("accuracy"), 0.75);
  EXPECT_EQ(manifest.metrics().at("loss"), 0.5);
  EXPECT_EQ(manifest.metrics_step(), 2u);
}

// The log of a chief that died when 1.9 was retired.
v1::ReadLogResult LogWithARetiredOne() {
  v1::ReadLogResult log;
  for (uint64_t number = 1; number <= 2; ++number) {
    v1::LogEntry* entry = log.add_entries();
    entry->set_number(number);
    entry->set_run_id("run-1");
    entry->set_job_digest("digest");
  }
  log.mutable_entries(0)->set_term(1);
  *log.mutable_entries(1)->mutable_retired() = Pair(1, 9);
  return log;
}

TEST(CoordinatorRetireStartTest, WhatADeadChiefRetiredIsDeleted) {
  StartedCoordinator started(JobOptions());
  started.ReadLog(LogWithARetiredOne());
  EXPECT_FALSE(started.driver().TakeIo<v1::DeleteCheckpoints>().has_value());
  started.Append();
  started.Serve();
  v1::FindCheckpointResult found;
  found.set_path("/c/10");
  *found.mutable_manifest()->mutable_snapshot() = Pair(1, 10);
  started.FindCheckpoint(found);
  const auto remove = started.driver().TakeIo<v1::DeleteCheckpoints>();
  ASSERT_TRUE(remove.has_value());
  EXPECT_THAT(remove->second.snapshots(), ElementsAre(Pair(1, 9)));
}

TEST(CoordinatorRetireStartTest, WhatAFinishedRunLeftOfThemIsDeletedToo) {
  StartedCoordinator started(JobOptions());
  v1::ReadLogResult log = LogWithARetiredOne();
  *log.add_entries() = log.entries(1);
  log.mutable_entries(2)->set_number(3);
  log.mutable_entries(2)->mutable_finished();
  started.ReadLog(log);
  const auto remove = started.driver().TakeIo<v1::DeleteCheckpoints>();
  ASSERT_TRUE(remove.has_value());
  EXPECT_THAT(remove->second.snapshots(), ElementsAre(Pair(1, 9)));
}

// Else a storage that is not mounted would begin the job anew.
TEST(CoordinatorRetireStartTest, AnEmptyDirectoryIsNotThatOfARunThatRetired) {
  StartedCoordinator started(JobOptions());
  started.ReadLog(LogWithARetiredOne());
  started.Append();
  started.Serve();
  started.FindCheckpoint();
  EXPECT_TRUE(started.driver().exited);
  EXPECT_TRUE(absl::IsUnavailable(started.driver().exit_status));
  EXPECT_THAT(std::string(started.driver().exit_status.message()),
              HasSubstr("checkpoint 1.9 was retired for a newer one"));
}

TEST(CoordinatorRetireStartTest, ACheckpointOfAnotherJobIsRefusedByName) {
  StartedCoordinator started(JobOptions());
  started.ReadLog();
  started.Append();
  started.Serve();
  v1::FindCheckpointResult found;
  found.set_path("/c/8");
  found.mutable_manifest()->set_job_name("other");
  found.mutable_manifest()->set_job_digest("other digest");
  started.FindCheckpoint(found);
  started.driver().LetAllHear();
  EXPECT_TRUE(started.driver().exited);
  EXPECT_TRUE(absl::IsInvalidArgument(started.driver().exit_status));
  EXPECT_THAT(std::string(started.driver().exit_status.message()),
              HasSubstr("checkpoint '/c/8' has other job-wide settings, which "
                        "an earlier version did not write down"));
}

class CoordinatorEverySecondsTest : public CoordinatorRetireTest {
 protected:
  static Coordinator::Options EveryTenSeconds() {
    Coordinator::Options options = JobOptions();
    options.job.mutable_checkpoint()->set_every_seconds(10);
    return options;
  }
  CoordinatorEverySecondsTest() : CoordinatorRetireTest(EveryTenSeconds()) {}

  void Pass(int seconds) {
    for (; seconds > 0; --seconds) {
      driver().Advance(absl::Seconds(1));
      CatchUp();
    }
  }
};

TEST_F(CoordinatorEverySecondsTest, ACheckpointIsDueEveryTenSeconds) {
  chief_.beat.mutable_header()->set_sequence(1);
  started_.Beat(&chief_);
  Pass(9);
  EXPECT_FALSE(driver().TakeIo<v1::PrepareCheckpoint>().has_value());
  Pass(2);
  EXPECT_TRUE(driver().TakeIo<v1::PrepareCheckpoint>().has_value());
}

TEST_F(CoordinatorEverySecondsTest, WithoutAStepThereIsNothingToSave) {
  Pass(30);
  EXPECT_FALSE(driver().TakeIo<v1::PrepareCheckpoint>().has_value());
  chief_.beat.mutable_header()->set_sequence(1);
  started_.Beat(&chief_);
  Pass(1);
  EXPECT_TRUE(driver().TakeIo<v1::PrepareCheckpoint>().has_value());
}

}  // namespace
}  // namespace paramd
