#include "gtest/gtest.h"

#include "coordinator/core/coordinator.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using testing::JobOptions;
using testing::Pair;
using testing::StartedCoordinator;

v1::Member MemberOf(StartedCoordinator& started, int member) {
  v1::StatusReply status;
  started.core().FillStatus(&status);
  return status.job().members(member);
}

// The servers 0 and 1 come first, then the workers 0 and 1.
TEST(CoordinatorStatusTest, WhoWasNeverHeardIsAwaited) {
  StartedCoordinator started(JobOptions());
  v1::StatusReply status;
  started.core().FillStatus(&status);
  ASSERT_EQ(status.job().members_size(), 4);
  EXPECT_EQ(status.job().members(1).task().type(), v1::PS);
  EXPECT_EQ(status.job().members(1).task().index(), 1u);
  EXPECT_EQ(status.job().members(2).task().type(), v1::WORKER);
  EXPECT_EQ(status.job().members(2).task().index(), 0u);
  for (const v1::Member& member : status.job().members()) {
    EXPECT_EQ(member.state(), v1::Member::AWAITED);
    EXPECT_FALSE(member.has_silent_ms());
  }
}

TEST(CoordinatorStatusTest, AServerIsAliveWhenItIsFilledAndLostWhenItIsSilent) {
  StartedCoordinator started(JobOptions());
  started.ReadLog();
  started.Append();
  started.Serve();
  EXPECT_EQ(MemberOf(started, 1).state(), v1::Member::STARTING);
  started.FindCheckpoint();
  started.Append();
  started.Serve();
  started.driver().Advance(absl::Milliseconds(300));
  const v1::Member alive = MemberOf(started, 1);
  EXPECT_EQ(alive.state(), v1::Member::ALIVE);
  EXPECT_EQ(alive.incarnation(), 101u);
  EXPECT_EQ(alive.generation(), Pair(1, 2));
  EXPECT_EQ(alive.silent_ms(), 300u);
  started.driver().Advance(absl::Seconds(1));
  const auto sent =
      started.driver().TakeSend<v1::ConfigureRequest>(PeerId::Ps(1));
  ASSERT_TRUE(sent.has_value());
  started.driver().Fail(*sent, absl::UnavailableError("gone"));
  const v1::Member lost = MemberOf(started, 1);
  EXPECT_EQ(lost.state(), v1::Member::LOST);
  EXPECT_EQ(lost.silent_ms(), 1300u);
}

TEST(CoordinatorStatusTest, AServerSaysInWhichPlaceItIs) {
  StartedCoordinator without(JobOptions());
  EXPECT_FALSE(MemberOf(without, 1).has_peer());
  CoordinatorOptions options = JobOptions();
  options.places = PlacesOf(/*tasks=*/2, /*shards=*/1);
  StartedCoordinator started(options);
  const v1::Member home = MemberOf(started, 1);
  ASSERT_TRUE(home.has_peer());
  EXPECT_EQ(home.peer(), 2u);
  EXPECT_FALSE(home.has_backup_peer());
}

TEST(CoordinatorStatusTest, AWorkerIsAliveFromItsFirstHeartbeatToItsLease) {
  StartedCoordinator started(JobOptions());
  started.Run();
  started.BeginJoin(1, 201);
  EXPECT_EQ(MemberOf(started, 3).state(), v1::Member::STARTING);
  StartedCoordinator::Worker worker = started.Join(1);
  EXPECT_EQ(MemberOf(started, 3).state(), v1::Member::STARTING);
  worker.beat.set_clock(7);
  worker.beat.mutable_header()->set_sequence(6);
  started.Beat(&worker);
  const v1::Member alive = MemberOf(started, 3);
  EXPECT_EQ(alive.state(), v1::Member::ALIVE);
  EXPECT_EQ(alive.host(), "host");
  EXPECT_EQ(alive.pid(), 4001u);
  EXPECT_EQ(alive.clock(), 7u);
  EXPECT_EQ(alive.pushes(), 6u);
  EXPECT_EQ(alive.silent_ms(), 0u);
  // Its lease is 10 s; nothing is decided about it while no portion is wanted.
  started.driver().Advance(absl::Milliseconds(10100));
  EXPECT_EQ(MemberOf(started, 3).state(), v1::Member::LOST);
  EXPECT_EQ(MemberOf(started, 3).silent_ms(), 10100u);
}

TEST(CoordinatorStatusTest, AWorkerThatWasKilledIsLostUntilAnotherComes) {
  StartedCoordinator started(JobOptions());
  started.Run();
  StartedCoordinator::Worker worker = started.Join(1);
  started.Beat(&worker);
  started.driver().Advance(absl::Milliseconds(10100));
  started.Append();  // The fence: its session is over.
  started.driver().Advance(absl::Seconds(60));
  const v1::Member lost = MemberOf(started, 3);
  EXPECT_EQ(lost.state(), v1::Member::LOST);
  EXPECT_EQ(lost.pid(), 4001u);
  EXPECT_GE(lost.silent_ms(), 70000u);
  started.BeginJoin(1, 202);
  EXPECT_EQ(MemberOf(started, 3).state(), v1::Member::STARTING);
}

TEST(CoordinatorStatusTest, AWorkerThatHasLeftIsAwaited) {
  StartedCoordinator started(JobOptions());
  started.Run();
  StartedCoordinator::Worker worker = started.Join(1);
  worker.beat.set_leaving(true);
  started.Beat(&worker);
  started.Append();
  EXPECT_EQ(MemberOf(started, 3).state(), v1::Member::AWAITED);
}

TEST(CoordinatorStatusTest, AJobIsStartingBeforeAnythingIsKnownOfIt) {
  StartedCoordinator started(JobOptions());
  v1::StatusReply status;
  started.core().FillStatus(&status);
  EXPECT_EQ(status.job().state(), v1::STARTING);
}

}  // namespace
}  // namespace paramd
