// Workers that no list names, from the first call to the last.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/core/coordinator.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using testing::CoreDriver;
using ::testing::ElementsAre;
using testing::JobOptions;
using testing::StartedCoordinator;

Coordinator::Options JobThatTakesTwo(const std::string& staleness) {
  Coordinator::Options options = JobOptions();
  options.job.set_staleness(staleness);
  options.job.set_max_joined_workers(2);
  return options;
}

// Two workers of the list, none of which is there yet, and two that may join.
class CoordinatorEnlistTest : public ::testing::Test {
 protected:
  using Worker = StartedCoordinator::Worker;

  explicit CoordinatorEnlistTest(const std::string& staleness = "async")
      : started_(JobThatTakesTwo(staleness)) {
    started_.JoinBesideTheList();
    started_.Run();
    started_.Serve();
  }
  CoreDriver& driver() { return started_.driver(); }
  CoreDriver::Answer Enlist(uint64_t incarnation) {
    v1::EnlistRequest request;
    request.set_incarnation(incarnation);
    return driver().Call(PeerId::AnyWorker(), request);
  }
  v1::JobStats Job() {
    v1::StatusReply status;
    started_.core().FillStatus(&status);
    return status.job();
  }

  StartedCoordinator started_;
};

TEST_F(CoordinatorEnlistTest, WhoEnlistsJoinsWithThatIndexAndTakesInput) {
  const CoreDriver::Answer answer = Enlist(202);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  const auto& enlisted = static_cast<const v1::EnlistReply&>(*answer.head);
  ASSERT_EQ(enlisted.index(), 2u);
  Worker worker = started_.Join(2);
  EXPECT_TRUE(started_.NextPortion(&worker, 0).has_portion());
}

TEST_F(CoordinatorEnlistTest, TheStatusShowsItWhileItIsThere) {
  EXPECT_EQ(Job().members_size(), 4);
  EXPECT_EQ(Job().max_joined_workers(), 2u);
  Worker worker = started_.Join(3);
  started_.Beat(&worker);
  v1::JobStats job = Job();
  EXPECT_EQ(job.joined_workers(), 1u);
  EXPECT_EQ(job.workers(), 2u);
  ASSERT_EQ(job.members_size(), 5);
  EXPECT_TRUE(job.members(4).joined());
  EXPECT_EQ(job.members(4).task().index(), 3u);
  EXPECT_EQ(job.members(4).state(), v1::Member::ALIVE);
  driver().Advance(absl::Milliseconds(10100));
  started_.Append();  // The fence.
  EXPECT_EQ(Job().members_size(), 4);
  EXPECT_EQ(Job().joined_workers(), 0u);
}

TEST_F(CoordinatorEnlistTest, WhatAKilledOneHadLeftIsHandedOutAfterItsLease) {
  Worker killed = started_.Join(2);
  started_.CatchUp(&killed);
  const v1::Portion portion = started_.NextPortion(&killed, 0).portion();
  Worker other = started_.Join(0);
  for (int second = 0; second < 11; ++second) {
    driver().Advance(absl::Seconds(1));
    started_.Serve();
    started_.CatchUp(&other);
  }
  const v1::LogEntry fence = started_.Append();
  EXPECT_EQ(fence.fence().worker(), 2u);
  EXPECT_EQ(fence.fence().generation(), killed.beat.header().generation());
  started_.Serve();
  const v1::Portion again = started_.NextPortion(&other, 0).portion();
  EXPECT_EQ(again.epoch(), portion.epoch());
  EXPECT_EQ(again.begin(), portion.begin());
  EXPECT_EQ(again.end(), portion.end());
}

TEST_F(CoordinatorEnlistTest, Promise1_ALaterLifeOfAnIndexIsAnotherSession) {
  Worker first = started_.Join(2);
  first.beat.set_leaving(true);
  started_.Beat(&first);
  started_.Append();  // The fence.
  started_.Serve();
  const Worker second = started_.Join(2);
  EXPECT_GT(second.beat.header().generation(),
            first.beat.header().generation());
  const absl::Status late = started_.TakePortion(&first, 1, 0).status;
  EXPECT_EQ(RefusalOf(late).reason(), v1::Refusal::FENCED);
}

TEST_F(CoordinatorEnlistTest, NobodyWaitsForOneThatHasLeft) {
  Worker chief = started_.Join(0);
  Worker other = started_.Join(1);
  Worker joined = started_.Join(2);
  started_.CatchUp(&chief);
  started_.CatchUp(&other);
  joined.beat.set_leaving(true);
  started_.Beat(&joined);
  started_.Append();  // The fence.
  started_.Serve();
  EXPECT_EQ(started_.core().waiting_for(), "");
  EXPECT_EQ(Job().members_size(), 4);
}

TEST_F(CoordinatorEnlistTest, OneOfTheListIsWaitedForHoweverManyHaveJoined) {
  started_.Join(0);
  started_.Join(2);
  started_.Join(3);
  EXPECT_EQ(started_.core().waiting_for(), "worker-1 to join");
}

TEST_F(CoordinatorEnlistTest, AnIndexBehindTheLimitIsRefused) {
  const CallId call = started_.BeginJoin(4, 204);
  const absl::Status status = driver().Take(call).status;
  EXPECT_EQ(RefusalOf(status).reason(), v1::Refusal::INVALID);
  EXPECT_EQ(status.message(),
            "worker-4 is not one of the 2 workers that may join this job "
            "beside those that its cluster names");
}

TEST_F(CoordinatorEnlistTest, WhoseJoinIsRefusedKeepsNoIndex) {
  Enlist(202);
  Enlist(203);
  EXPECT_EQ(RefusalOf(Enlist(204).status).reason(), v1::Refusal::OVER_LIMIT);
  v1::JoinRequest request;
  request.mutable_task()->set_type(v1::WORKER);
  request.mutable_task()->set_index(2);
  request.set_joined(true);
  request.set_incarnation(202);
  request.set_job_digest("another digest");
  const absl::Status status = driver().Call(PeerId::Worker(2), request).status;
  EXPECT_EQ(RefusalOf(status).reason(), v1::Refusal::OTHER_JOB);
  const CoreDriver::Answer answer = Enlist(204);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(static_cast<const v1::EnlistReply&>(*answer.head).index(), 2u);
}

TEST_F(CoordinatorEnlistTest, OneOfTheListDoesNotJoinBesideIt) {
  v1::JoinRequest request;
  request.mutable_task()->set_type(v1::WORKER);
  request.mutable_task()->set_index(1);
  request.set_joined(true);
  request.set_job_digest("digest");
  const absl::Status status = driver().Call(PeerId::Worker(1), request).status;
  EXPECT_EQ(RefusalOf(status).reason(), v1::Refusal::INVALID);
}

TEST_F(CoordinatorEnlistTest, OneThatAsksNoMoreIsForgotten) {
  // No server answers, so it is told of no session.
  started_.BeginJoin(2, 202);
  EXPECT_EQ(Job().members_size(), 5);
  driver().Advance(absl::Seconds(13));
  started_.Append();  // The fence of a session that it was never told of.
  driver().Advance(absl::Milliseconds(200));
  EXPECT_EQ(Job().members_size(), 4);
}

class SyncCoordinatorEnlistTest : public CoordinatorEnlistTest {
 protected:
  SyncCoordinatorEnlistTest() : CoordinatorEnlistTest("sync") {}
};

TEST_F(SyncCoordinatorEnlistTest, TheFirstStepWaitsForTheListAndNotForThem) {
  Worker chief = started_.Join(0);
  Worker joined = started_.Join(2);
  started_.Beat(&chief);
  started_.Beat(&joined);
  EXPECT_FALSE(driver().TakeIo<v1::AppendLog>().has_value());
  Worker other = started_.Join(1);
  started_.Beat(&other);
  const v1::LogEntry entry = started_.Append();
  EXPECT_THAT(entry.configuration().contributors().workers(),
              ElementsAre(0, 1, 2));
}

TEST_F(SyncCoordinatorEnlistTest, ItContributesFromAStepOnAndLeavesAtOne) {
  Worker chief = started_.Join(0);
  Worker other = started_.Join(1);
  started_.Beat(&chief);
  started_.Beat(&other);
  started_.Append();
  started_.Serve();
  Worker joined = started_.Join(2);
  started_.Beat(&joined);
  EXPECT_THAT(started_.Append().configuration().contributors().workers(),
              ElementsAre(0, 1, 2));
  started_.Serve();
  joined.beat.set_leaving(true);
  started_.Beat(&joined);
  EXPECT_TRUE(started_.Append().has_fence());
  EXPECT_THAT(started_.Append().configuration().contributors().workers(),
              ElementsAre(0, 1));
}

}  // namespace
}  // namespace paramd
