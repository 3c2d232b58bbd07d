#include "server/core/departure.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/paramd/v1/data.pb.h"
#include "server/core/testing/shard_bench.h"

namespace paramd {
namespace {

using ::paramd::testing::ShardBench;
using ::testing::HasSubstr;

class DepartureTest : public ::testing::Test {
 protected:
  DepartureTest() { departure_.Hear(bench_.now); }

  void Drain() {
    bench_.Do([&](ShardTurn* turn) { departure_.Drain(turn); });
  }
  void Finish(bool everybody_knows) {
    v1::FinishRequest request;
    request.set_everybody_knows(everybody_knows);
    bench_.Do([&](ShardTurn* turn) { departure_.OnFinish(request, turn); });
  }
  // The server has told so much.
  void Tell(uint64_t number, bool leaving = false) {
    v1::ReplicateRequest told;
    told.set_number(number);
    told.set_leaving(leaving);
    departure_.HearServer(told);
  }
  // Whether it has gone when it is asked the next time it wants to be.
  bool GoesNext() {
    bench_.now = departure_.next_tick();
    bench_.Do([&](ShardTurn* turn) {
      if (!departure_.GivesUp(turn)) departure_.Advance(turn);
    });
    return bench_.out.exited;
  }

  ShardBench bench_;
  WatchedPlace watched_{bench_.view};
  Departure departure_{bench_.view, watched_};
};

TEST_F(DepartureTest, WithoutACoordinatorTheProcessEndsWithAnError) {
  EXPECT_EQ(departure_.WaitsToBeCalled(bench_.now), "");
  bench_.now = bench_.now + absl::Seconds(5);
  EXPECT_EQ(departure_.WaitsToBeCalled(bench_.now),
            "the coordinator to call again");
  EXPECT_TRUE(GoesNext());
  EXPECT_TRUE(absl::IsUnavailable(bench_.out.exit_status));
}

TEST_F(DepartureTest, Promise5_OneThatStoodStillDoesNotBlameTheCoordinator) {
  bench_.now = departure_.next_tick() + absl::Seconds(6);
  bench_.Do([&](ShardTurn* turn) { EXPECT_FALSE(departure_.GivesUp(turn)); });
  EXPECT_FALSE(bench_.out.exited);
  EXPECT_GT(departure_.next_tick(), bench_.now);
  EXPECT_TRUE(GoesNext()) << "it has had time to call";
  EXPECT_TRUE(absl::IsUnavailable(bench_.out.exit_status));
}

TEST_F(DepartureTest, OneThatHoldsNothingLeavesAtOnce) {
  bench_.fill_state = FillState::kFilling;
  Drain();
  EXPECT_TRUE(bench_.out.exited);
  EXPECT_TRUE(bench_.out.notes.empty());
}

TEST_F(DepartureTest, OneThatIsWatchedWaitsToBeLetGo) {
  bench_.Do([&](ShardTurn* turn) {
    watched_.Keep(1, v1::WatchRequest(), turn);
    departure_.LetGo(turn);
  });
  EXPECT_FALSE(bench_.out.exited) << "it does not drain";
  Drain();
  EXPECT_FALSE(bench_.out.exited);
  EXPECT_EQ(departure_.WaitsToBeSaved(),
            "the coordinator to let this place of ps-0 go");
  EXPECT_FALSE(departure_.let_go());
  bench_.Do([&](ShardTurn* turn) { departure_.LetGo(turn); });
  EXPECT_TRUE(bench_.out.exited);
  EXPECT_TRUE(departure_.let_go());
}

TEST_F(DepartureTest, OneThatWasToldToLeaveIsMissedUnlessItIsLetGo) {
  const auto is_told = [&](ShardTurn* turn) { departure_.DrainAsTold(turn); };
  bench_.Do(
      [&](ShardTurn* turn) { watched_.Keep(1, v1::WatchRequest(), turn); });
  EXPECT_FALSE(departure_.is_missed());
  bench_.Do(is_told);
  EXPECT_TRUE(departure_.draining());
  EXPECT_TRUE(departure_.is_missed()) << "it is the server";
  bench_.fill_state = FillState::kBackup;
  EXPECT_TRUE(departure_.is_missed()) << "its server may be gone";
  Tell(1, /*leaving=*/true);
  EXPECT_FALSE(departure_.is_missed()) << "somebody else is the server";
  bench_.fill_state = FillState::kFilled;
  bench_.Do([&](ShardTurn* turn) { departure_.LetGo(turn); });
  EXPECT_FALSE(departure_.is_missed());
}

TEST_F(DepartureTest, OneThatWasSignalledIsNotMissedIfItIsToldToLeaveToo) {
  bench_.Do(
      [&](ShardTurn* turn) { watched_.Keep(1, v1::WatchRequest(), turn); });
  Drain();
  bench_.Do([&](ShardTurn* turn) { departure_.DrainAsTold(turn); });
  EXPECT_FALSE(departure_.is_missed()) << "its supervisor knows";
}

// What follows is of a backup that nobody lets go.
class DepartingBackupTest : public DepartureTest {
 protected:
  DepartingBackupTest() {
    bench_.fill_state = FillState::kBackup;
    bench_.Do(
        [&](ShardTurn* turn) { watched_.Keep(1, v1::WatchRequest(), turn); });
  }
  // As soon as nobody watches it.
  void ExpectLeavesSoon() {
    EXPECT_EQ(departure_.next_tick(), watched_.watched_until());
    EXPECT_TRUE(GoesNext());
    EXPECT_TRUE(bench_.out.exit_status.ok());
    EXPECT_TRUE(bench_.out.notes.empty());
  }
  Time AfterALease() const {
    return bench_.now + bench_.view.settings().lease + absl::Milliseconds(1);
  }
};

TEST_F(DepartingBackupTest, Promise1_ItMayBeTheLastAndWaitsAsAServerWould) {
  Tell(20);
  Drain();
  EXPECT_FALSE(bench_.out.exited);
  EXPECT_EQ(departure_.next_tick(), AfterALease());
  EXPECT_TRUE(GoesNext());
  EXPECT_TRUE(bench_.out.exit_status.ok());
  ASSERT_EQ(bench_.out.notes.size(), 1u);
  EXPECT_THAT(bench_.out.notes[0].sentence,
              HasSubstr("has said whether ps-0 is there; if it is not, what "
                        "came after the last checkpoint is lost"));
}

TEST_F(DepartingBackupTest, Promise1_ItWaitsThoughNobodyWatchesItWhenItDrains) {
  bench_.now = watched_.watched_until();
  departure_.Hear(bench_.now);
  Drain();
  EXPECT_FALSE(bench_.out.exited);
  EXPECT_TRUE(departure_.draining());
  EXPECT_EQ(departure_.next_tick(), AfterALease());
}

TEST_F(DepartingBackupTest, ItGoesOnceItsServerHasAnsweredWhatWasSaidSince) {
  Tell(20);
  Drain();
  // All of that may have been under way.
  for (uint64_t number = 21; number <= 28; ++number) {
    Tell(number);
    EXPECT_EQ(departure_.next_tick(), AfterALease());
  }
  Tell(29);
  ExpectLeavesSoon();
}

TEST_F(DepartingBackupTest, ItGoesWithAServerThatLeavesInGoodOrder) {
  Tell(20, /*leaving=*/true);
  Drain();
  ExpectLeavesSoon();
}

// Which asks who is there, and may wait for this very process.
TEST_F(DepartingBackupTest, Promise4_ItIsOfNoUseToAnotherCoordinator) {
  Tell(20);
  bench_.term = 2;
  Drain();
  ExpectLeavesSoon();
}

TEST_F(DepartingBackupTest, WhatAnEarlierServerSaidCountsNoMore) {
  Tell(20, /*leaving=*/true);
  Tell(1);
  Drain();
  EXPECT_EQ(departure_.next_tick(), AfterALease());
}

TEST_F(DepartureTest, OneThatHoldsPushesWaitsToBeSaved) {
  Drain();
  EXPECT_FALSE(bench_.out.exited);
  EXPECT_TRUE(departure_.draining());
  EXPECT_EQ(departure_.WaitsToBeSaved(),
            "the coordinator to save ps-0 generation 1.1");
}

TEST_F(DepartureTest, WhereNobodyCallsItLeavesWithoutACheckpoint) {
  Drain();
  EXPECT_TRUE(GoesNext());
  EXPECT_TRUE(bench_.out.exit_status.ok());
  ASSERT_EQ(bench_.out.notes.size(), 1u);
  EXPECT_THAT(bench_.out.notes[0].sentence,
              HasSubstr("leaves without a checkpoint"));
}

TEST_F(DepartureTest, AFinishedOneStaysForThoseWhoHaveNotHeard) {
  bench_.configuration.mutable_server_settings()->set_finish_timeout_ms(3000);
  Finish(/*everybody_knows=*/false);
  EXPECT_TRUE(departure_.finished());
  EXPECT_FALSE(bench_.out.exited);
  const Time finished = bench_.now;
  EXPECT_TRUE(GoesNext());
  EXPECT_EQ(bench_.now, finished + absl::Seconds(3));
  EXPECT_EQ(departure_.next_tick(), Time::Never());
}

TEST_F(DepartureTest, OfAFailedJobItEndsWithTheReasonAndCode) {
  v1::FinishRequest request;
  request.mutable_finished()->set_exit_code(1);
  request.mutable_finished()->set_reason("the loss is nan");
  bench_.Do([&](ShardTurn* turn) { departure_.OnFinish(request, turn); });
  EXPECT_FALSE(bench_.out.exited);
  // The chief is gone, and said that it would be.
  EXPECT_TRUE(GoesNext());
  EXPECT_EQ(bench_.out.exit_status,
            absl::FailedPreconditionError("the loss is nan"));
}

TEST_F(DepartureTest, WhenEverybodyKnowsItLeaves) {
  Finish(/*everybody_knows=*/true);
  EXPECT_TRUE(bench_.out.exited);
  Drain();
  EXPECT_FALSE(departure_.draining()) << "it is on its way out";
}

}  // namespace
}  // namespace paramd
