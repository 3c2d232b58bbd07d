// Clocks, and a mode that is changed while the job runs.
#include <map>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/core/coordinator.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using testing::CoreDriver;
using testing::JobOptions;
using testing::StartedCoordinator;

Coordinator::Options ThreeWorkers(const std::string& staleness) {
  Coordinator::Options options = JobOptions();
  options.workers = 3;
  options.job.set_staleness(staleness);
  return options;
}

v1::SetRequest Staleness(const std::string& value) {
  v1::SetRequest set;
  set.set_key("staleness");
  set.set_value(value);
  return set;
}

class CoordinatorConsistencyTest : public ::testing::Test {
 protected:
  CoordinatorConsistencyTest() { started_.Run(); }

  CoreDriver& driver() { return started_.driver(); }
  StartedCoordinator::Worker JoinAt(uint32_t index, uint64_t pushes) {
    StartedCoordinator::Worker worker = started_.Join(index);
    worker.beat.mutable_header()->set_sequence(pushes);
    started_.CatchUp(&worker);
    started_.Beat(&worker);
    return worker;
  }
  // By worker.
  std::map<uint32_t, uint64_t> StartClocks() {
    const v1::Configuration configuration = started_.configuration();
    std::map<uint32_t, uint64_t> clocks;
    for (const auto& member : configuration.workers()) {
      clocks[member.index()] = member.start_clock();
    }
    return clocks;
  }
  std::string Mode() {
    v1::StatusReply status;
    started_.core().FillStatus(&status);
    return status.job().staleness();
  }

  StartedCoordinator started_{ThreeWorkers("4")};
};

// ---- clocks -----------------------------------------------------------------

TEST_F(CoordinatorConsistencyTest, AJoinerBeginsAtTheLowestLiveClock) {
  StartedCoordinator::Worker fast = JoinAt(0, 0);
  fast.beat.mutable_header()->set_sequence(9);
  JoinAt(1, 7);
  started_.Beat(&fast);
  const CallId call = started_.BeginJoin(2, 202);
  started_.Serve();
  const CoreDriver::Answer answer = driver().Take(call);
  ASSERT_TRUE(answer.status.ok());
  EXPECT_EQ(static_cast<const v1::JoinReply&>(*answer.head).start_clock(), 7u);
  EXPECT_EQ(StartClocks(),
            (std::map<uint32_t, uint64_t>{{0, 0}, {1, 0}, {2, 7}}));
}

TEST_F(CoordinatorConsistencyTest, AClockIsTheStartClockAndThePushes) {
  JoinAt(0, 9);
  JoinAt(1, 2);  // At 9 + 2.
  JoinAt(2, 0);
  EXPECT_EQ(StartClocks().at(2), 9u);
}

TEST_F(CoordinatorConsistencyTest, WhoHasNoInputIsNotTheLowest) {
  StartedCoordinator::Worker idle = JoinAt(0, 9);
  JoinAt(1, 6);
  EXPECT_EQ(StartClocks().at(1), 9u);
  idle.beat.set_no_input(true);
  started_.Beat(&idle);
  JoinAt(2, 0);
  EXPECT_EQ(StartClocks().at(2), 15u);
}

TEST_F(CoordinatorConsistencyTest, WithNobodyLiveAJoinerBeginsAtTheHighest) {
  StartedCoordinator::Worker first = JoinAt(0, 9);
  first.beat.set_leaving(true);
  started_.Beat(&first);
  started_.Append();  // Its fence.
  started_.Serve();
  JoinAt(1, 0);
  EXPECT_EQ(StartClocks(), (std::map<uint32_t, uint64_t>{{1, 9}}));
}

// ---- changing the mode ------------------------------------------------------

TEST_F(CoordinatorConsistencyTest, NobodyIsToldAModeBeforeItIsLogged) {
  StartedCoordinator::Worker worker = JoinAt(0, 9);
  const v1::ConfigurationVersion before = started_.configuration().version();
  const CallId set = driver().Begin(PeerId{}, Staleness("16"));
  EXPECT_FALSE(driver().answered(set));
  EXPECT_EQ(started_.configuration().consistency().bound(), 4u);
  EXPECT_EQ(started_.configuration().version(), before);
  const v1::LogEntry entry = started_.Append();
  EXPECT_EQ(entry.configuration().consistency().bound(), 16u);
  EXPECT_FALSE(entry.configuration().has_layout()) << "nothing moves";
  EXPECT_EQ(entry.configuration().workers_size(), 0);
  EXPECT_EQ(entry.configuration().servers_size(), 2);
  const CoreDriver::Answer answer = driver().Take(set);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  const auto& reply = static_cast<const v1::SetReply&>(*answer.head);
  EXPECT_TRUE(reply.configuration() > before);
  EXPECT_EQ(reply.configuration(), started_.configuration().version());
  EXPECT_EQ(started_.configuration().consistency().bound(), 16u);
  EXPECT_EQ(Mode(), "16");
  // At once: by the parked heartbeat and by a call to each server.
  EXPECT_TRUE(started_.TakeNews(&worker));
  EXPECT_EQ(started_.last_reply().configuration().consistency().bound(), 16u);
  EXPECT_TRUE(driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(0)));
  EXPECT_TRUE(driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(1)));
  EXPECT_TRUE(driver().HasNote("an operator changed staleness from 4 to 16"));
}

TEST_F(CoordinatorConsistencyTest, ASmallerBoundLeavesTheClocks) {
  JoinAt(0, 9);
  JoinAt(1, 7);
  driver().Begin(PeerId{}, Staleness("0"));
  started_.Append();
  EXPECT_EQ(StartClocks(), (std::map<uint32_t, uint64_t>{{0, 0}, {1, 9}}));
}

TEST_F(CoordinatorConsistencyTest, FromAsyncOnNobodyHasABacklog) {
  StartedCoordinator started(ThreeWorkers("async"));
  started.Run();
  auto fast = started.Join(0);
  auto slow = started.Join(1);
  fast.beat.mutable_header()->set_sequence(1000);
  slow.beat.mutable_header()->set_sequence(10);
  started.CatchUp(&fast);
  started.CatchUp(&slow);
  started.driver().Begin(PeerId{}, Staleness("8"));
  started.Append();
  const v1::Configuration configuration = started.configuration();
  EXPECT_EQ(configuration.workers(0).start_clock(), 0u);
  EXPECT_EQ(configuration.workers(1).start_clock(), 990u);
}

TEST_F(CoordinatorConsistencyTest, TheSameModeAgainIsAnsweredAndNotLogged) {
  const v1::ConfigurationVersion before = started_.configuration().version();
  const auto answer = driver().Call(PeerId{}, Staleness("4"));
  ASSERT_TRUE(answer.status.ok());
  EXPECT_EQ(static_cast<const v1::SetReply&>(*answer.head).configuration(),
            before);
  EXPECT_FALSE(driver().TakeIo<v1::AppendLog>().has_value());
}

TEST_F(CoordinatorConsistencyTest, WhatMakesNoSenseIsRefusedAndNotLogged) {
  const absl::Status refused =
      driver().Call(PeerId{}, Staleness("fast")).status;
  EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::INVALID);
  EXPECT_FALSE(driver().TakeIo<v1::AppendLog>().has_value());
  EXPECT_EQ(Mode(), "4");
}

TEST_F(CoordinatorConsistencyTest, Promise4_OneSettingAtATimeByName) {
  const CallId first = driver().Begin(PeerId{}, Staleness("16"));
  const absl::Status second = driver().Call(PeerId{}, Staleness("2")).status;
  EXPECT_EQ(RefusalOf(second).reason(), v1::Refusal::RETRY);
  EXPECT_EQ(RefusalOf(second).waiting_for(),
            "staleness to change from 4 to 16");
  EXPECT_EQ(second.message(),
            "waiting for staleness to change from 4 to 16: the configuration "
            "log");
  started_.Append();
  EXPECT_TRUE(driver().Take(first).status.ok());
  EXPECT_EQ(Mode(), "16");
}

TEST_F(CoordinatorConsistencyTest, OneEntryIsAppendedAtATime) {
  StartedCoordinator::Worker leaving = JoinAt(1, 0);
  const CallId set = driver().Begin(PeerId{}, Staleness("16"));
  leaving.beat.set_leaving(true);
  started_.Beat(&leaving);
  const v1::LogEntry first = started_.Append();
  EXPECT_TRUE(first.has_configuration());
  EXPECT_TRUE(driver().answered(set));
  const v1::LogEntry second = started_.Append();
  EXPECT_TRUE(second.has_fence());
  EXPECT_EQ(second.number(), first.number() + 1);
  EXPECT_FALSE(driver().TakeIo<v1::AppendLog>().has_value());
}

TEST_F(CoordinatorConsistencyTest, TheNextEntryWaitsForTheOneBefore) {
  StartedCoordinator::Worker leaving = JoinAt(1, 0);
  driver().Begin(PeerId{}, Staleness("16"));
  leaving.beat.set_leaving(true);
  started_.Beat(&leaving);
  const auto first = driver().TakeIo<v1::AppendLog>();
  ASSERT_TRUE(first.has_value());
  EXPECT_FALSE(driver().TakeIo<v1::AppendLog>().has_value());
  driver().End(first->first, absl::OkStatus());
  EXPECT_TRUE(driver().TakeIo<v1::AppendLog>().has_value());
}

TEST_F(CoordinatorConsistencyTest, ACoordinatorWithoutItsLogEnds) {
  driver().Begin(PeerId{}, Staleness("16"));
  const auto append = driver().TakeIo<v1::AppendLog>();
  ASSERT_TRUE(append.has_value());
  driver().End(append->first, absl::AbortedError("taken"));
  EXPECT_TRUE(driver().exited);
  EXPECT_TRUE(absl::IsAlreadyExists(driver().exit_status));
}

TEST(CoordinatorModeTest, BeforeTheJobRunsASettingIsToBeAskedAgain) {
  StartedCoordinator started(JobOptions());
  const absl::Status refused =
      started.driver().Call(PeerId{}, Staleness("16")).status;
  EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::RETRY);
  EXPECT_EQ(refused.message(), "waiting for the configuration log");
}

TEST(CoordinatorModeTest, ANewCoordinatorGoesOnInTheModeThatWasSet) {
  StartedCoordinator started(JobOptions());
  v1::ReadLogResult log;
  uint64_t number = 0;
  for (const uint64_t bound : {4, 16}) {
    v1::LogEntry& entry = *log.add_entries();
    entry.set_number(++number);
    entry.set_run_id("run");
    entry.set_job_digest("digest");
    v1::Configuration* const logged = entry.mutable_configuration();
    logged->mutable_version()->set_term(1);
    logged->mutable_consistency()->set_mode(v1::Consistency::BOUNDED);
    logged->mutable_consistency()->set_bound(bound);
  }
  started.ReadLog(log);
  started.Append();
  started.Serve();
  started.FindCheckpoint();
  EXPECT_EQ(started.Append().configuration().consistency().bound(), 16u);
}

}  // namespace
}  // namespace paramd
