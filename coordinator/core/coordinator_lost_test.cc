// What was lost with a server, and counts that do not agree.
#include "gtest/gtest.h"

#include "coordinator/core/coordinator.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using testing::CoreDriver;
using testing::JobOptions;
using testing::StartedCoordinator;

Coordinator::Options EveryFiveSteps() {
  Coordinator::Options options = JobOptions();
  options.job.mutable_checkpoint()->set_every_steps(5);
  return options;
}

// Two workers, of which the first has pushed three times when server 1 loses
// its memory; a checkpoint is due at step 5.
class CoordinatorLostTest : public ::testing::Test {
 protected:
  CoordinatorLostTest() : started_(EveryFiveSteps()) {
    started_.Run();
    started_.Serve();
    chief_ = started_.Join(0);
    other_ = started_.Join(1);
    CatchUp();
    Say(3, &chief_);
    started_.Restart(1);
    driver().Advance(absl::Seconds(1));
    CatchUp();
  }
  CoreDriver& driver() { return started_.driver(); }
  void CatchUp() {
    started_.Serve();
    started_.CatchUp(&chief_);
    started_.CatchUp(&other_);
  }
  void Say(uint64_t pushes, StartedCoordinator::Worker* worker) {
    worker->beat.mutable_header()->set_sequence(pushes);
    started_.Beat(worker);
  }
  v1::JobStats Job() {
    v1::StatusReply status;
    started_.core().FillStatus(&status);
    return status.job();
  }
  // Of worker 0's session, as server 1 found it.
  v1::LostPushes Lost(uint64_t from, uint64_t to) {
    v1::LostPushes lost;
    *lost.mutable_generation() = chief_.beat.header().generation();
    lost.set_from(from);
    lost.set_to(to);
    lost.set_server(1);
    *lost.mutable_server_generation() =
        started_.configuration().servers(1).generation();
    return lost;
  }
  v1::Manifest Checkpoint(uint64_t chief, uint64_t other) {
    Say(chief, &chief_);
    Say(other, &other_);
    const auto prepare = driver().TakeIo<v1::PrepareCheckpoint>();
    EXPECT_TRUE(prepare.has_value());
    v1::PrepareCheckpointResult prepared;
    prepared.set_directory("/dir");
    driver().Complete(prepare->first, prepared);
    started_.Cut(&chief_, chief);
    started_.Cut(&other_, other);
    EXPECT_TRUE(started_.Seal(0) && started_.Seal(1));
    EXPECT_TRUE(started_.Write(0) && started_.Write(1));
    const auto commit = driver().TakeIo<v1::CommitCheckpoint>();
    EXPECT_TRUE(commit.has_value());
    v1::CommitCheckpointResult result;
    result.set_path("/checkpoint");
    driver().Complete(commit->first, result);
    return commit->second.manifest();
  }

  StartedCoordinator started_;
  StartedCoordinator::Worker chief_;
  StartedCoordinator::Worker other_;
};

TEST_F(CoordinatorLostTest, WhatAServerFindsLostIsInTheStatus) {
  EXPECT_EQ(Job().pushes_lost(), 0u);
  *started_.file(1).add_lost() = Lost(1, 3);
  driver().Advance(absl::Seconds(1));
  CatchUp();
  EXPECT_EQ(Job().pushes_lost(), 3u);
  EXPECT_EQ(Job().pushes_doubled(), 0u);
}

TEST_F(CoordinatorLostTest, Promise1_TheManifestListsASessionThatPushesNoMore) {
  // The server has heard worker 1, which lost nothing, and not worker 0.
  v1::LostPushes nothing = Lost(1, 0);
  nothing.set_worker(1);
  *nothing.mutable_generation() = other_.beat.header().generation();
  *started_.file(1).add_lost() = nothing;
  started_.file(1).add_slices();
  const v1::Manifest manifest = Checkpoint(3, 2);
  EXPECT_EQ(manifest.files(0).lost_size(), 0);
  ASSERT_EQ(manifest.files(1).lost_size(), 1);
  EXPECT_EQ(manifest.files(1).lost(0).SerializeAsString(),
            Lost(1, 3).SerializeAsString());
  EXPECT_EQ(Job().pushes_lost(), 3u);
  EXPECT_TRUE(driver().HasNote("lost: pushes 1 to 3 of worker-0"));
}

TEST_F(CoordinatorLostTest, ASessionThatIsGoneIsListedWithWhatItHadSaid) {
  const v1::SessionId generation = chief_.beat.header().generation();
  chief_.beat.set_leaving(true);
  Say(3, &chief_);
  started_.Append();
  chief_ = started_.Join(0);
  CatchUp();
  started_.file(1).add_slices();
  const v1::Manifest manifest = Checkpoint(1, 1);
  ASSERT_EQ(manifest.files(1).lost_size(), 2);
  EXPECT_EQ(manifest.files(1).lost(0).worker(), 1u);
  EXPECT_EQ(manifest.files(1).lost(1).generation(), generation);
  EXPECT_EQ(manifest.files(1).lost(1).to(), 3u);
}

TEST_F(CoordinatorLostTest, Promise1_AnApplicationTooManyIsSaidAndCounted) {
  v1::SavedSlice* const slice = started_.file(0).add_slices();
  slice->set_values_tensor("a");
  slice->add_applied()->set_applied(7);
  slice->mutable_applied(0)->set_blocks(1);
  v1::PushRecord* const record = slice->add_records();
  record->set_sequence(5);
  record->set_earlier(4);
  Checkpoint(3, 2);
  EXPECT_EQ(Job().pushes_doubled(), 2u);
  EXPECT_TRUE(driver().HasNote("has taken 7 pushes; by its records it has 5"));
}

}  // namespace
}  // namespace paramd
