// A new coordinator and the servers of the one before it.
#include <cstdint>
#include <memory>

#include "gtest/gtest.h"

#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using testing::CoreDriver;
using testing::JobOptions;
using testing::Pair;
using testing::StartedCoordinator;

// Coordinator 2 of a job whose two servers coordinator 1 has filled with initial
// values. Of the 8 examples of epoch 1 half are used, by two pushes of worker 0.
class CoordinatorTakeOverTest : public ::testing::Test {
 protected:
  CoordinatorTakeOverTest() {
    StartedCoordinator first(JobOptions());
    first.Run();
    before_ = first.configuration();
    log_.add_entries()->set_term(1);
    *log_.add_entries()->mutable_configuration() = before_;
    for (v1::LogEntry& entry : *log_.mutable_entries()) {
      entry.set_number(log_.entries_size());
      entry.set_run_id("run");
      entry.set_job_digest("digest");
    }
  }

  void Begin(const Coordinator::Options& options = JobOptions()) {
    second_ = std::make_unique<StartedCoordinator>(options);
    second_->ReadLog(log_);
    second_->Append();
    for (uint32_t s = 0; s < 2; ++s) {
      v1::RecallReply& told = second_->recalled(s);
      told.set_filled(true);
      *told.mutable_generation() = before_.servers(s).generation();
      *told.mutable_configuration() = before_;
      told.mutable_input_left()->set_next_epoch(1);
      v1::SavedInput::Range* const used = told.add_input_used();
      used->set_epoch(1);
      used->set_end(4);
      v1::SavedSession* const session = told.add_sessions();
      *session->mutable_generation() = Pair(1, 7);
      session->set_sequence(2);
      told.set_pushes(2);
    }
  }
  CoreDriver& driver() { return second_->driver(); }

  v1::ReadLogResult log_;
  v1::Configuration before_;
  std::unique_ptr<StartedCoordinator> second_;
};

TEST_F(CoordinatorTakeOverTest, Promise5_ServersKeepWhatTheyHold) {
  Begin();
  second_->Serve();
  second_->FindCheckpoint();
  const v1::LogEntry logged = second_->Append();
  const v1::Configuration& after = logged.configuration();
  EXPECT_EQ(after.version().term(), 2u);
  for (int s = 0; s < 2; ++s) {
    EXPECT_EQ(after.servers(s).generation(), before_.servers(s).generation());
    EXPECT_EQ(after.servers(s).incarnation(), before_.servers(s).incarnation());
  }
  EXPECT_EQ(after.workers_size(), 0);
  EXPECT_TRUE(driver().HasNote(
      "the servers keep what they hold; taking over at step 2"));
  second_->Serve();
  EXPECT_TRUE(driver().HasNote("all 2 servers are filled"));

  // The rest of the input is handed out.
  EXPECT_EQ(logged.input_left().next_offset(), 4u);
  StartedCoordinator::Worker chief = second_->Join(0);
  const v1::PortionReply reply = second_->NextPortion(&chief, 0);
  EXPECT_EQ(reply.portion().epoch(), 1u);
  EXPECT_EQ(reply.portion().begin(), 4u);
  EXPECT_EQ(reply.portion().end(), 8u);
}

TEST_F(CoordinatorTakeOverTest, WhatIsUsedIsSaidToServers) {
  Begin();
  second_->Serve();
  second_->FindCheckpoint();
  second_->Append();
  const auto sent = driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(1));
  ASSERT_TRUE(sent.has_value());
  const auto& told = static_cast<const v1::ConfigureRequest&>(*sent->head);
  EXPECT_EQ(told.input_left().next_epoch(), 1u);
  EXPECT_EQ(told.input_left().next_offset(), 4u);
}

TEST_F(CoordinatorTakeOverTest, OneThatCameBackEmptyMakesAllRestore) {
  Begin();
  second_->recalled(1) = v1::RecallReply();
  second_->Serve();
  v1::FindCheckpointResult found;
  found.set_path("/c");
  *found.mutable_manifest()->mutable_snapshot() = Pair(1, 3);
  second_->FindCheckpoint(found);
  const v1::LogEntry logged = second_->Append();
  EXPECT_FALSE(logged.has_input_left());
  for (const v1::ServerMember& server : logged.configuration().servers()) {
    EXPECT_EQ(server.generation().term(), 2u);
    EXPECT_EQ(server.restore_directory(), "/c");
  }
  EXPECT_TRUE(
      driver().HasNote("going on from checkpoint /c (ps-1 is empty)"));
}

TEST_F(CoordinatorTakeOverTest, InSyncModeAllGoBackToOneStep) {
  log_.mutable_entries(1)->mutable_configuration()->mutable_consistency()
      ->set_mode(v1::Consistency::SYNC);
  Coordinator::Options options = JobOptions();
  options.job.set_staleness("sync");
  Begin(options);
  second_->Serve();
  second_->FindCheckpoint();
  const v1::LogEntry logged = second_->Append();
  EXPECT_FALSE(logged.has_input_left());
  EXPECT_EQ(logged.configuration().servers(0).generation().term(), 2u);
}

TEST_F(CoordinatorTakeOverTest, Promise1_WhatAServerLosesLaterIsSaid) {
  Begin();
  second_->Serve();
  second_->FindCheckpoint();
  second_->Append();
  second_->Serve();
  second_->Restart(1);
  second_->recalled(1) = v1::RecallReply();
  driver().Advance(absl::Seconds(1));
  second_->Serve();
  // Not by a number that a start gives.
  const v1::ServerMember restored = second_->configuration().servers(1);
  EXPECT_GT(restored.generation(), Pair(2, 2));
  EXPECT_EQ(second_->configuration().servers(0).generation(),
            before_.servers(0).generation());
  EXPECT_TRUE(driver().HasNote(
      "lost: pushes 1 to 2 of worker-0 generation 1.7, which an earlier life of "
      "ps-1 had acknowledged"));
}

}  // namespace
}  // namespace paramd
