// A new coordinator and the servers of the one before it.
#include <cstdint>
#include <memory>
#include <string>

#include "gtest/gtest.h"

#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using testing::CoreDriver;
using testing::JobOptions;
using testing::Pair;
using testing::StartedCoordinator;

// Coordinator 2 of a job whose two servers coordinator 1 has filled with
// initial values. Of the 8 examples of epoch 1 half are used, by two pushes of
// worker 0.
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
      "the servers keep what they hold; taking over at step 2, with 0 sessions "
      "that go on"));
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

// Worker 1 has a session too, of two pushes that are in everywhere, and is in
// the middle of its second portion.
class CoordinatorTakeOverSessionsTest : public CoordinatorTakeOverTest {
 protected:
  CoordinatorTakeOverSessionsTest() {
    v1::WorkerMember* const member = before_.add_workers();
    member->set_index(1);
    *member->mutable_generation() = Pair(1, 8);
    member->set_incarnation(201);
    member->set_start_clock(3);
    member->set_host("host");
    member->set_pid(4001);
  }

  void BeginWithSession(const Coordinator::Options& options = JobOptions(),
                        const v1::FindCheckpointResult& found = {}) {
    Begin(options);
    for (uint32_t s = 0; s < 2; ++s) {
      v1::SavedSession* const session = second_->recalled(s).add_sessions();
      session->set_worker(1);
      *session->mutable_generation() = Pair(1, 8);
      session->set_sequence(2);
    }
    second_->Serve();
    second_->FindCheckpoint(found);
    logged_ = second_->Append();
    worker_.index = 1;
    v1::Header* const header = worker_.beat.mutable_header();
    header->set_worker(1);
    *header->mutable_generation() = Pair(1, 8);
    *header->mutable_configuration() = before_.version();
    worker_.beat.set_number(40);
    worker_.portion_number = 5;
  }
  static v1::Portion Held() {
    v1::Portion portion;
    portion.set_id(9);
    portion.set_epoch(1);
    portion.set_begin(6);
    portion.set_end(8);
    return portion;
  }
  // It holds that, nothing of it used.
  void Tell(uint64_t term = 2) {
    v1::HeldInput* const held = worker_.beat.mutable_held();
    held->set_term(term);
    held->set_last_portion(9);
    held->set_answered(5);
    v1::HeldInput::Part* const part = held->add_parts();
    *part->mutable_portion() = Held();
    part->set_used_to(6);
    second_->Beat(&worker_);
    worker_.beat.clear_held();
  }

  v1::LogEntry logged_;
  StartedCoordinator::Worker worker_;
};

TEST_F(CoordinatorTakeOverSessionsTest, Promise5_ASessionGoesOn) {
  BeginWithSession();
  ASSERT_EQ(logged_.configuration().workers_size(), 1);
  EXPECT_EQ(logged_.configuration().workers(0).generation(), Pair(1, 8));
  EXPECT_EQ(logged_.configuration().workers(0).start_clock(), 3u);
  EXPECT_EQ(logged_.configuration().state(), v1::RUNNING);
  EXPECT_TRUE(
      driver().HasNote("taking over at step 4, with 1 sessions that go on"));
  second_->Serve();
  EXPECT_EQ(second_->core().waiting_for(),
            "worker-1 generation 1.8 to say what it holds of the input");

  second_->Beat(&worker_);
  ASSERT_TRUE(second_->TakeNews(&worker_));
  EXPECT_TRUE(second_->last_reply().tell_held());
  EXPECT_EQ(second_->last_reply().term(), 2u);
  EXPECT_FALSE(second_->last_reply().has_configuration()) << "it has not told";
  Tell();
  ASSERT_TRUE(second_->TakeNews(&worker_));
  EXPECT_FALSE(second_->last_reply().tell_held());
  EXPECT_EQ(second_->last_reply().configuration().version().term(), 2u);
  EXPECT_TRUE(driver().HasNote("worker-1 goes on as generation 1.8"));
  v1::StatusReply status;
  second_->core().FillStatus(&status);
  EXPECT_EQ(status.job().global_step(), 4u);
}

// Of worker 1's pushes 3 was given up when some servers had it, and 4 is in at
// some when the coordinator dies. In the checkpoint, which these lives wrote,
// it is at push 1; sessions that have ended count 7 there, worker 0's 2.
TEST_F(CoordinatorTakeOverSessionsTest, APushThatWasGivenUpHalfInCountsOnce) {
  v1::FindCheckpointResult found;
  found.set_path("/c/8");
  v1::Manifest* const manifest = found.mutable_manifest();
  *manifest->mutable_snapshot() = Pair(1, 8);
  manifest->set_global_step(10);
  const uint64_t cuts[] = {2, 1};
  for (uint32_t i = 0; i < 2; ++i) {
    v1::ShardFile* const file = manifest->add_files();
    file->set_server(i);
    *file->mutable_server_generation() = before_.servers(i).generation();
    v1::SavedSession* const session = manifest->add_sessions();
    session->set_worker(i);
    *session->mutable_generation() = Pair(1, 7 + i);
    session->set_sequence(cuts[i]);
  }
  BeginWithSession(JobOptions(), found);
  EXPECT_TRUE(
      driver().HasNote("taking over at step 11, with 1 sessions that go on"));
  second_->Serve();
  v1::StatusReply status;
  second_->core().FillStatus(&status);
  EXPECT_EQ(status.job().global_step(), 11u);
  worker_.beat.mutable_header()->set_sequence(4);
  Tell();
  second_->core().FillStatus(&status);
  EXPECT_EQ(status.job().global_step(), 13u);
}

// Such a server has not heard the session since it was restored by itself.
TEST_F(CoordinatorTakeOverSessionsTest, WhatACheckpointCountsStaysCounted) {
  v1::FindCheckpointResult found;
  found.set_path("/c/8");
  v1::Manifest* const manifest = found.mutable_manifest();
  *manifest->mutable_snapshot() = Pair(1, 8);
  manifest->set_global_step(10);
  for (uint32_t s = 0; s < 2; ++s) {
    v1::ShardFile* const file = manifest->add_files();
    file->set_server(s);
    *file->mutable_server_generation() = before_.servers(s).generation();
  }
  v1::SavedSession* const session = manifest->add_sessions();
  session->set_worker(1);
  *session->mutable_generation() = Pair(1, 8);
  session->set_sequence(6);
  BeginWithSession(JobOptions(), found);
  EXPECT_TRUE(driver().HasNote("taking over at step 12,"))
      << "and two of worker 0";
  second_->Serve();
  worker_.beat.mutable_header()->set_sequence(7);
  Tell();
  v1::StatusReply status;
  second_->core().FillStatus(&status);
  EXPECT_EQ(status.job().global_step(), 13u);
}

TEST_F(CoordinatorTakeOverSessionsTest,
       Promise1_NothingIsHandedOutBeforeAllHaveTold) {
  BeginWithSession();
  second_->Serve();
  const CoreDriver::Answer refused = second_->TakePortion(&worker_, 6, 0);
  EXPECT_EQ(RefusalOf(refused.status).reason(), v1::Refusal::RETRY);
  const CallId join = second_->BeginJoin(0, 300);
  second_->Serve();
  EXPECT_FALSE(driver().answered(join));
  Tell();
  second_->Serve();
  ASSERT_TRUE(driver().answered(join));
  // What it holds is nobody else's: [4, 6) and then epoch 2.
  const v1::PortionReply gap = second_->NextPortion(&worker_, 0);
  EXPECT_EQ(gap.portion().begin(), 4u);
  EXPECT_EQ(gap.portion().end(), 6u);
  EXPECT_GT(gap.portion().id(), 9u);
  EXPECT_EQ(second_->NextPortion(&worker_, 9).portion().epoch(), 2u);
}

TEST_F(CoordinatorTakeOverSessionsTest,
       OneThatIsNotHeardIsFencedAfterItsLease) {
  BeginWithSession();
  second_->Serve();
  driver().Advance(absl::Seconds(9));
  EXPECT_FALSE(driver().HasNote("worker-1 (process 4001 on host) is gone"));
  driver().Advance(absl::Seconds(2));
  EXPECT_TRUE(
      driver().HasNote("worker-1 (process 4001 on host) is gone after 2"));
  EXPECT_TRUE(second_->Append().has_fence());
  second_->Serve();
  StartedCoordinator::Worker chief = second_->Join(0);
  EXPECT_EQ(second_->NextPortion(&chief, 0).portion().begin(), 4u);
}

// It may have asked long before: the session that was taken over has not spoken
// since.
TEST_F(CoordinatorTakeOverSessionsTest,
       Promise5_ANewProcessIsNotSentAwayForADeadOne) {
  Begin();
  second_->BeginJoin(1, 999);
  driver().Advance(absl::Seconds(5));
  second_->Serve();
  second_->FindCheckpoint();
  EXPECT_EQ(second_->Append().configuration().workers_size(), 1);
  const CallId join = second_->BeginJoin(1, 999);
  second_->Serve();
  driver().Advance(absl::Seconds(3));
  ASSERT_TRUE(driver().answered(join));
  const v1::Refusal refusal = RefusalOf(driver().Take(join).status);
  EXPECT_EQ(refusal.reason(), v1::Refusal::NOT_READY);
  EXPECT_EQ(refusal.waiting_for(),
            "the lease of the process 4001 on host that was worker-1 "
            "generation 1.8 before");
}

TEST_F(CoordinatorTakeOverSessionsTest,
       BehindAModeThatServersHaveNotHeardOfSessionsEnd) {
  v1::Consistency* const mode =
      log_.mutable_entries(1)->mutable_configuration()->mutable_consistency();
  mode->set_mode(v1::Consistency::BOUNDED);
  mode->set_bound(8);
  BeginWithSession();
  EXPECT_TRUE(logged_.has_input_left());
  EXPECT_EQ(logged_.configuration().workers_size(), 0);
}

TEST_F(CoordinatorTakeOverSessionsTest,
       OneThatDrainsMeanwhileTakesACheckpointFirst) {
  BeginWithSession();
  second_->Serve();
  driver().Drain();
  EXPECT_FALSE(driver().exited);
  Tell();
  second_->Serve();
  driver().Advance(absl::Seconds(1));
  second_->Serve();
  EXPECT_TRUE(driver().TakeIo<v1::PrepareCheckpoint>().has_value());
}

TEST_F(CoordinatorTakeOverSessionsTest, OneWhoseFenceIsLoggedDoesNotGoOn) {
  v1::LogEntry* const entry = log_.add_entries();
  entry->set_number(3);
  entry->set_run_id("run");
  entry->set_job_digest("digest");
  entry->mutable_fence()->set_worker(1);
  *entry->mutable_fence()->mutable_generation() = Pair(1, 8);
  BeginWithSession();
  EXPECT_EQ(logged_.configuration().workers_size(), 0);
  second_->Serve();
  second_->Beat(&worker_);
  const CoreDriver::Answer answer = driver().Take(worker_.parked);
  EXPECT_EQ(RefusalOf(answer.status).entity(), "session");
}

TEST_F(CoordinatorTakeOverSessionsTest,
       BeforeTheLayoutIsLoggedNobodyIsSentAway) {
  Begin();
  worker_.index = 1;
  worker_.beat.mutable_header()->set_worker(1);
  *worker_.beat.mutable_header()->mutable_generation() = Pair(1, 8);
  second_->Beat(&worker_);
  const CoreDriver::Answer answer = driver().Take(worker_.parked);
  EXPECT_EQ(RefusalOf(answer.status).reason(), v1::Refusal::NOT_READY);
  EXPECT_EQ(RefusalOf(answer.status).entity(), "") << "it keeps its session";
  EXPECT_EQ(RefusalOf(answer.status).waiting_for(),
            "ps-0 to be there, ps-1 to be there");
}

TEST_F(CoordinatorTakeOverSessionsTest, OneThatLeavesDoesSoWhenAllHaveTold) {
  BeginWithSession();
  second_->Serve();
  worker_.beat.set_leaving(true);
  worker_.beat.mutable_cut()->set_sequence(2);
  worker_.beat.mutable_cut()->set_last_portion(9);
  Tell();
  second_->TakeNews(&worker_);
  second_->Beat(&worker_);
  EXPECT_TRUE(driver().HasNote("worker-1 (process 4001 on host) is gone"));
}

// Worker 2 has a session too, which holds nothing.
TEST_F(CoordinatorTakeOverSessionsTest, OneThatLeavesWaitsForTheOthersToTell) {
  Coordinator::Options options = JobOptions();
  options.workers = 3;
  v1::WorkerMember* const member = before_.add_workers();
  member->set_index(2);
  *member->mutable_generation() = Pair(1, 9);
  member->set_incarnation(202);
  BeginWithSession(options);
  second_->Serve();
  worker_.beat.set_leaving(true);
  worker_.beat.mutable_cut()->set_sequence(2);
  worker_.beat.mutable_cut()->set_last_portion(9);
  *worker_.beat.mutable_cut()->add_remaining() = Held();
  worker_.beat.mutable_cut()->mutable_remaining(0)->set_begin(7);
  Tell();
  second_->TakeNews(&worker_);
  second_->Beat(&worker_);
  EXPECT_FALSE(driver().HasNote("worker-1 (process 4001 on host) is gone"));

  StartedCoordinator::Worker other;
  other.index = 2;
  v1::Header* const header = other.beat.mutable_header();
  header->set_worker(2);
  *header->mutable_generation() = Pair(1, 9);
  other.beat.mutable_held()->set_term(2);
  second_->Beat(&other);
  EXPECT_FALSE(driver().HasNote("worker-1 (process 4001 on host) is gone"));
  second_->TakeNews(&worker_);
  second_->Beat(&worker_);
  EXPECT_TRUE(driver().HasNote("worker-1 (process 4001 on host) is gone"));
  second_->Append();
  EXPECT_EQ(second_->NextPortion(&other, 0).portion().begin(), 4u);
  // What it left.
  const v1::Portion left = second_->NextPortion(&other, 1).portion();
  EXPECT_EQ(left.epoch(), 1u);
  EXPECT_EQ(left.begin(), 7u);
  EXPECT_EQ(left.end(), 8u);
}

TEST_F(CoordinatorTakeOverSessionsTest, Promise5_TheThirdCoordinatorAsksAgain) {
  BeginWithSession();
  second_->Serve();
  v1::LogEntry* const term = log_.add_entries();
  term->set_number(3);
  term->set_term(2);
  term->set_run_id("run");
  term->set_job_digest("digest");
  *log_.add_entries() = logged_;
  before_ = logged_.configuration();
  BeginWithSession();
  ASSERT_EQ(logged_.configuration().version().term(), 3u);
  ASSERT_EQ(logged_.configuration().workers_size(), 1);
  EXPECT_EQ(logged_.configuration().workers(0).generation(), Pair(1, 8));
  second_->Serve();
  // What it says to the second one is no answer: it may be told input by that
  // one still.
  Tell(2);
  ASSERT_TRUE(second_->TakeNews(&worker_));
  EXPECT_TRUE(second_->last_reply().tell_held());
  EXPECT_EQ(second_->last_reply().term(), 3u);
  Tell(3);
  EXPECT_TRUE(driver().HasNote("worker-1 goes on as generation 1.8"));
}

TEST_F(CoordinatorTakeOverSessionsTest,
       Promise5_AServerThatIsLostMeanwhileEndsNoSession) {
  BeginWithSession();
  second_->Serve();
  second_->Restart(1);
  second_->recalled(1) = v1::RecallReply();
  driver().Advance(absl::Seconds(1));
  second_->Serve();
  EXPECT_TRUE(
      driver().HasNote("lost: pushes 1 to 2 of worker-0 generation 1.7"));
  EXPECT_FALSE(driver().HasNote("of worker-1 generation 1.8"))
      << "the server hears that itself";
  EXPECT_EQ(second_->core().waiting_for(),
            "worker-1 generation 1.8 to say what it holds of the input");
  Tell();
  EXPECT_TRUE(driver().HasNote("worker-1 goes on as generation 1.8"));
  const v1::Configuration after = second_->configuration();
  EXPECT_EQ(after.servers(0).generation(), before_.servers(0).generation());
  EXPECT_GT(after.servers(1).generation(), before_.servers(1).generation());
  ASSERT_EQ(after.workers_size(), 1);
  EXPECT_EQ(second_->NextPortion(&worker_, 0).portion().begin(), 4u);
}

// A server that was taken over is lost, and finds the checkpoint damaged.
TEST_F(CoordinatorTakeOverSessionsTest,
       BehindACheckpointPassedOverSessionsEnd) {
  v1::FindCheckpointResult found;
  found.set_path("/c/8");
  *found.mutable_manifest()->mutable_snapshot() = Pair(1, 8);
  for (v1::ServerMember& server : *before_.mutable_servers()) {
    server.set_restore_directory("/c/8");
  }
  BeginWithSession(JobOptions(), found);
  Tell();
  EXPECT_TRUE(driver().HasNote("worker-1 goes on as generation 1.8"));
  second_->Restart(1);
  second_->recalled(1) = v1::RecallReply();
  const auto asked = driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(1));
  driver().Fail(*asked, absl::UnavailableError("gone"));
  driver().Advance(absl::Seconds(1));
  const auto recall = driver().TakeSend<v1::RecallRequest>(PeerId::Ps(1));
  ASSERT_TRUE(recall.has_value());
  v1::RecallReply recalled;
  recalled.set_incarnation(second_->incarnation(1));
  driver().Reply(*recall, recalled);
  const auto restore = driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(1));
  ASSERT_TRUE(restore.has_value());
  driver().Fail(*restore, Refuse(v1::Refusal::DAMAGED, "/c/8", "it is torn"));
  EXPECT_TRUE(driver().HasNote("checkpoint /c/8 is passed over"));
  found.set_path("/c/7");
  *found.mutable_manifest()->mutable_snapshot() = Pair(1, 7);
  found.mutable_manifest()->mutable_input()->set_next_epoch(1);
  found.mutable_manifest()->mutable_input()->set_next_offset(2);
  second_->FindCheckpoint(found);
  const v1::Configuration after = second_->Append().configuration();
  EXPECT_EQ(after.workers_size(), 0);
  EXPECT_GT(after.servers(0).generation().term(), 1u);
  driver().Advance(absl::Seconds(1));
  second_->Serve();
  worker_.parked = 0;
  second_->Beat(&worker_);
  EXPECT_EQ(RefusalOf(driver().Take(worker_.parked).status).entity(),
            "session");
  // Nothing that it held is kept for it.
  StartedCoordinator::Worker chief = second_->Join(0);
  EXPECT_EQ(second_->NextPortion(&chief, 0).portion().begin(), 2u);
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
  EXPECT_TRUE(driver().HasNote("going on from checkpoint /c (ps-1 is empty)"));
}

TEST_F(CoordinatorTakeOverTest, InSyncModeAllGoBackToOneStep) {
  log_.mutable_entries(1)
      ->mutable_configuration()
      ->mutable_consistency()
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

// A run that goes on with another last layer (checkpoint.allow_missing) and
// whose coordinator dies before the first checkpoint with that layer.
class OtherVariablesTakeOverTest : public CoordinatorTakeOverTest {
 protected:
  OtherVariablesTakeOverTest() {
    const std::string changed = options_.variables[0].name();
    options_.job.mutable_checkpoint()->set_allow_missing("head," + changed);
    found_.set_path("/run/checkpoints/000000-00000002.step-4");
    v1::Manifest* const manifest = found_.mutable_manifest();
    *manifest->mutable_variables() = {options_.variables.begin(),
                                      options_.variables.end()};
    manifest->mutable_variables(0)->set_name("head");
    *manifest->mutable_snapshot() = Pair(0, 2);
    manifest->set_global_step(4);
    manifest->mutable_input()->set_next_epoch(1);
    manifest->mutable_input()->set_next_offset(2);
    for (int s = 0; s < 2; ++s) {
      // A session of the coordinator that committed it.
      v1::PushRecord* const record =
          manifest->add_files()->add_slices()->add_records();
      record->set_worker(0);
      *record->mutable_generation() = Pair(0, 7);
      record->set_sequence(4);
    }
    found_.mutable_warm_start()->set_path(found_.path());
    *log_.mutable_entries(1)->mutable_configuration()->mutable_warm_start() =
        found_.warm_start();
    before_ = log_.entries(1).configuration();
  }

  void TakeOver() {
    Begin(options_);
    second_->Serve();
    second_->FindCheckpoint(found_);
  }

  Coordinator::Options options_ = JobOptions();
  v1::FindCheckpointResult found_;
};

TEST_F(OtherVariablesTakeOverTest, Promise5_ServersKeepWhatTheyHold) {
  TakeOver();
  const v1::LogEntry logged = second_->Append();
  for (int s = 0; s < 2; ++s) {
    EXPECT_EQ(logged.configuration().servers(s).generation(),
              before_.servers(s).generation());
  }
  EXPECT_TRUE(driver().HasNote(
      "the servers keep what they hold; taking over at step 2"));
  // Not where the checkpoint was: two more pushes are in.
  EXPECT_EQ(logged.input_left().next_offset(), 4u);
}

TEST_F(OtherVariablesTakeOverTest, Promise1_WhatAServerLosesLaterIsSaid) {
  TakeOver();
  second_->Append();
  second_->Serve();
  second_->Restart(1);
  second_->recalled(1) = v1::RecallReply();
  driver().Advance(absl::Seconds(1));
  second_->Serve();
  const v1::Configuration& after = second_->configuration();
  EXPECT_EQ(after.servers(0).generation(), before_.servers(0).generation());
  EXPECT_GT(after.servers(1).generation(), Pair(2, 2));
  EXPECT_EQ(after.servers(1).restore_directory(), "");
  EXPECT_EQ(after.warm_start().path(), found_.path());
  // All that the session pushed since it began; what the checkpoint has of
  // another one says nothing about it.
  EXPECT_TRUE(
      driver().HasNote("lost: pushes 1 to 2 of worker-0 generation 1.7, which "
                       "an earlier life of "
                       "ps-1 had acknowledged"));
}

TEST_F(OtherVariablesTakeOverTest, WhereOneIsEmptyAllBeginWithItsValues) {
  Begin(options_);
  second_->recalled(1) = v1::RecallReply();
  second_->Serve();
  second_->FindCheckpoint(found_);
  const v1::LogEntry logged = second_->Append();
  EXPECT_EQ(logged.configuration().warm_start().path(), found_.path());
  for (const v1::ServerMember& server : logged.configuration().servers()) {
    EXPECT_EQ(server.generation().term(), 2u);
    EXPECT_EQ(server.restore_directory(), "");
  }
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
  EXPECT_TRUE(
      driver().HasNote("lost: pushes 1 to 2 of worker-0 generation 1.7, which "
                       "an earlier life of "
                       "ps-1 had acknowledged"));
}

}  // namespace
}  // namespace paramd
