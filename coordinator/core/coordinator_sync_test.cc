// Sync mode: who contributes, what is decided, and the way back.
#include <vector>

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
using testing::StartedCoordinator;

Coordinator::Options SyncOptions(uint32_t backup_workers = 0) {
  Coordinator::Options options = JobOptions();
  options.job.set_staleness("sync");
  options.job.set_backup_workers(backup_workers);
  return options;
}

class CoordinatorSyncTest : public ::testing::Test {
 protected:
  explicit CoordinatorSyncTest(uint32_t backup_workers = 0)
      : started_(SyncOptions(backup_workers)) {
    started_.Run();
    started_.Serve();
  }
  CoreDriver& driver() { return started_.driver(); }
  // Both join, and are heard once.
  void JoinBoth() {
    for (const uint32_t worker : {0, 1}) {
      workers_[worker] = started_.Join(worker);
    }
    for (auto& worker : workers_) started_.Beat(&worker);
  }
  v1::Configuration Told() {
    started_.Serve();
    return started_.configuration();
  }
  // Answers what a server is asked to decide; what it was told.
  v1::DecideRequest Decide(uint32_t server, uint64_t step,
                           const std::vector<uint32_t>& complete) {
    const auto sent = driver().TakeSend<v1::DecideRequest>(PeerId::Ps(server));
    EXPECT_TRUE(sent.has_value());
    if (!sent.has_value()) return {};
    v1::DecideReply reply;
    reply.set_step(step);
    *reply.mutable_contributors() = Told().contributors().version();
    reply.mutable_complete()->Assign(complete.begin(), complete.end());
    driver().Reply(*sent, reply);
    return static_cast<const v1::DecideRequest&>(*sent->head);
  }
  void Begin() {
    JoinBoth();
    ASSERT_TRUE(started_.Append().has_configuration());
    started_.Serve();
  }

  StartedCoordinator started_;
  StartedCoordinator::Worker workers_[2];
};

TEST_F(CoordinatorSyncTest, NobodyBeginsBeforeAllWereHeard) {
  StartedCoordinator::Worker first = started_.Join(0);
  started_.Beat(&first);
  StartedCoordinator::Worker second = started_.Join(1);
  EXPECT_FALSE(driver().TakeIo<v1::AppendLog>().has_value());
  started_.Beat(&second);
  EXPECT_TRUE(started_.Append().has_configuration());
}

TEST_F(CoordinatorSyncTest, WhoContributesIsLoggedBeforeAnybodyIsTold) {
  JoinBoth();
  EXPECT_FALSE(Told().has_contributors());
  const v1::LogEntry entry = started_.Append();
  const v1::Contributors& logged = entry.configuration().contributors();
  EXPECT_THAT(logged.workers(), ElementsAre(0, 1));
  EXPECT_EQ(logged.first_step(), 1u);
  const v1::Configuration told = Told();
  ASSERT_EQ(told.workers_size(), 2);
  for (const v1::WorkerMember& session : told.workers()) {
    EXPECT_TRUE(GivenBefore(session.generation(), logged.version()));
  }
  // It comes again and again, and nothing moves.
  EXPECT_FALSE(entry.configuration().has_layout());
  EXPECT_EQ(entry.configuration().workers_size(), 0);
  EXPECT_THAT(told.contributors().workers(), ElementsAre(0, 1));
}

TEST_F(CoordinatorSyncTest, NoStepIsDecidedOnceAnOperatorStopsTheJob) {
  Begin();
  driver().Begin(PeerId{}, v1::StopJobRequest());
  EXPECT_EQ(Decide(0, 0, {0, 1}).step(), 0u);
  EXPECT_EQ(Decide(1, 0, {0, 1}).step(), 0u);
  driver().Advance(absl::Seconds(1));
  while (const auto sent = driver().TakeSend<v1::DecideRequest>()) {
    EXPECT_EQ(static_cast<const v1::DecideRequest&>(*sent->head).step(), 0u);
  }
}

TEST_F(CoordinatorSyncTest, AStepIsToldAtOnceWhenEveryServerHasAllOfIt) {
  Begin();
  EXPECT_EQ(Decide(0, 0, {0, 1}).step(), 0u);
  EXPECT_EQ(Decide(1, 0, {1}).step(), 0u);
  // The one that has everything is not asked again; the other one is.
  EXPECT_FALSE(driver().TakeSend<v1::DecideRequest>(PeerId::Ps(0)).has_value());
  const v1::DecideRequest asked = Decide(1, 0, {0, 1});
  EXPECT_THAT(asked.known_complete(), ElementsAre(1));
  for (const uint32_t server : {0, 1}) {
    const v1::DecideRequest told = Decide(server, 1, {});
    EXPECT_EQ(told.step(), 1u);
    EXPECT_THAT(told.workers(), ElementsAre(0, 1));
    EXPECT_EQ(told.examples(), 4u);
  }
}

TEST_F(CoordinatorSyncTest, WhoJoinsWhileAStepIsHalfAppliedWaitsForIt) {
  Begin();
  Decide(0, 0, {0, 1});
  Decide(1, 0, {0, 1});
  Decide(0, 1, {});
  // Worker 1 is replaced: its lease runs out while ps-1 has not applied step 1.
  const CallId again = started_.BeginJoin(1, 900);
  for (int i = 0; i < 11; ++i) {
    driver().Advance(absl::Seconds(1));
    started_.Serve();
  }
  EXPECT_FALSE(driver().TakeIo<v1::AppendLog>().has_value());
  ASSERT_TRUE(driver().answered(again));
  Decide(1, 1, {});
  EXPECT_TRUE(started_.Append().has_fence());
}

TEST_F(CoordinatorSyncTest, ALostServerTakesAllBackToTheCheckpoint) {
  Begin();
  Decide(0, 0, {0, 1});
  Decide(1, 0, {0, 1});
  Decide(0, 1, {});
  Decide(1, 1, {});
  const v1::Configuration before = Told();
  started_.Restart(1);
  driver().Advance(absl::Seconds(1));
  started_.Serve();
  const v1::LogEntry entry = started_.Append();
  const v1::Configuration& logged = entry.configuration();
  EXPECT_EQ(logged.workers_size(), 0);
  EXPECT_FALSE(logged.has_contributors());
  for (const int server : {0, 1}) {
    EXPECT_TRUE(logged.servers(server).generation() >
                before.servers(server).generation());
  }
  EXPECT_TRUE(driver().HasNote("all servers go back to step 0"));
  started_.Serve();
  // The workers' sessions are gone: they join again and begin anew.
  v1::HeartbeatRequest beat;
  *beat.mutable_header()->mutable_generation() = before.workers(0).generation();
  beat.set_number(1);
  const absl::Status status = driver().Call(PeerId::Worker(0), beat).status;
  EXPECT_EQ(RefusalOf(status).entity(), "session");
  JoinBoth();
  EXPECT_EQ(started_.Append().configuration().contributors().first_step(), 1u);
}

TEST_F(CoordinatorSyncTest, ARewindHasAsLongAsAStart) {
  Begin();
  driver().StandStill(absl::Minutes(2));  // Longer than a start may take.
  started_.Restart(1);
  driver().Advance(absl::Seconds(1));
  started_.Serve();
  EXPECT_TRUE(driver().HasNote("all servers go back to step 0"));
  driver().Advance(absl::Seconds(59));
  EXPECT_FALSE(driver().exited);
  driver().Advance(absl::Seconds(2));
  EXPECT_TRUE(absl::IsDeadlineExceeded(driver().exit_status));
}

TEST_F(CoordinatorSyncTest, AServerLostWhileARewindIsLoggedIsFilledToo) {
  Begin();
  started_.Restart(1);
  driver().Advance(absl::Seconds(1));
  const auto asked = driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(0));
  ASSERT_TRUE(asked.has_value());
  started_.Serve();
  const auto rewind = driver().TakeIo<v1::AppendLog>();
  ASSERT_TRUE(rewind.has_value());
  driver().Fail(*asked, absl::UnavailableError("connection reset"));
  started_.Restart(0);
  driver().Advance(absl::Seconds(1));
  started_.Serve();
  driver().End(rewind->first, absl::OkStatus());
  EXPECT_EQ(Told().state(), v1::RUNNING);
}

TEST_F(CoordinatorSyncTest, Promise5_APauseOfTheChiefIsNoTimeOfAStep) {
  Begin();
  Decide(0, 0, {1});
  Decide(1, 0, {1});
  driver().StandStill(absl::Minutes(30));
  driver().Tick();
  EXPECT_FALSE(driver().HasNote("has not contributed"));
  EXPECT_TRUE(driver().ios.empty());
}

TEST_F(CoordinatorSyncTest, BackupWorkersMustLeaveSomebody) {
  StartedCoordinator all(SyncOptions(/*backup_workers=*/2));
  all.ReadLog();
  all.Append();
  all.Serve();
  all.FindCheckpoint();
  all.driver().LetAllHear();
  EXPECT_TRUE(all.driver().exited);
  EXPECT_THAT(all.driver().exit_status.message(),
              HasSubstr("backup_workers is 2 of 2 workers"));
}

class CoordinatorBackupTest : public CoordinatorSyncTest {
 protected:
  CoordinatorBackupTest() : CoordinatorSyncTest(/*backup_workers=*/1) {}
};

TEST_F(CoordinatorBackupTest, WhoIsLeftOutOfAStepHearsOfItAtOnce) {
  Begin();
  for (auto& worker : workers_) started_.CatchUp(&worker);
  Decide(0, 0, {0});
  Decide(1, 0, {0});
  EXPECT_FALSE(started_.TakeNews(&workers_[0]));
  ASSERT_TRUE(started_.TakeNews(&workers_[1]));
  EXPECT_EQ(started_.last_reply().left_out_step(), 1u);
  // Once.
  started_.CatchUp(&workers_[1]);
  EXPECT_NE(workers_[1].parked, 0u);
}

TEST_F(CoordinatorSyncTest, ASlowStepIsToldByNameAndAQuickOneIsNot) {
  Begin();
  Decide(0, 0, {0});
  Decide(1, 0, {0});
  EXPECT_EQ(started_.core().overdue(driver().now()), "");
  EXPECT_EQ(started_.core().overdue(driver().now() + absl::Seconds(4)),
            "worker-1 generation 1.4 to contribute to step 1");
}

}  // namespace
}  // namespace paramd
