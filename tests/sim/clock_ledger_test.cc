#include "tests/sim/clock_ledger.h"

#include <map>

#include "gtest/gtest.h"

#include "proto/paramd/v1/data.pb.h"

namespace paramd {
namespace {

class ClockLedgerTest : public ::testing::Test {
 protected:
  absl::Status Tell(uint32_t worker, uint64_t clock, absl::Duration at) {
    v1::TellClockRequest told;
    told.mutable_header()->set_worker(worker);
    told.mutable_header()->set_sequence(clock - start_[worker]);
    told.set_clock(clock);
    if (clock > start_[worker]) {
      EXPECT_TRUE(Push(worker, clock - start_[worker], clock - 1).ok());
    }
    return ledger_.See(PeerId::Worker(worker), told, at);
  }
  absl::Status Push(uint32_t worker, uint64_t number, uint64_t clock) {
    v1::PushRequest push;
    push.mutable_header()->set_worker(worker);
    push.mutable_header()->set_sequence(number);
    push.set_clock(clock);
    return ledger_.See(PeerId::Worker(worker), push, absl::ZeroDuration());
  }
  absl::Status Pull(uint32_t worker, uint64_t clock) {
    v1::PullRequest pull;
    pull.mutable_header()->set_worker(worker);
    pull.set_clock(clock);
    return ledger_.See(PeerId::Worker(worker), pull, absl::ZeroDuration());
  }
  absl::Status Beat(uint32_t worker, uint64_t pushes, uint64_t clock) {
    v1::HeartbeatRequest beat;
    beat.mutable_header()->set_worker(worker);
    beat.mutable_header()->set_sequence(pushes);
    beat.set_clock(clock);
    return ledger_.See(PeerId::Worker(worker), beat, absl::ZeroDuration());
  }
  absl::Status Begin(uint32_t worker, uint64_t start, absl::Duration at) {
    v1::WorkerMember* const member =
        configure_.mutable_configuration()->add_workers();
    member->set_index(worker);
    member->set_start_clock(start);
    start_[worker] = start;
    return ledger_.See(PeerId::Coordinator(), configure_, at);
  }

  v1::ConfigureRequest configure_;
  std::map<uint32_t, uint64_t> start_;
  ClockLedger ledger_{absl::Seconds(10)};
};

TEST_F(ClockLedgerTest, AClockMayRiseAndNotFall) {
  EXPECT_TRUE(Tell(0, 4, absl::Seconds(1)).ok());
  EXPECT_TRUE(Tell(0, 4, absl::Seconds(2)).ok());
  EXPECT_TRUE(Tell(0, 5, absl::Seconds(3)).ok());
  EXPECT_EQ(Tell(0, 4, absl::Seconds(4)).message(),
            "worker-0 as generation 0.0 tells clock 4 after 5");
}

TEST_F(ClockLedgerTest, AJoinerMayNotBeginBelowAllOthers) {
  ASSERT_TRUE(Begin(0, 0, absl::Seconds(0)).ok());
  ASSERT_TRUE(Tell(0, 4, absl::Seconds(1)).ok());
  ASSERT_TRUE(Tell(0, 9, absl::Seconds(20)).ok());
  EXPECT_TRUE(Begin(1, 4, absl::Seconds(21)).ok())
      << "what is known may be old";
  ASSERT_TRUE(Tell(1, 8, absl::Seconds(22)).ok());
  EXPECT_EQ(Begin(2, 7, absl::Seconds(40)).message(),
            "worker-2 as generation 0.0 begins at clock 7; the others were at "
            "8 10s before");
}

TEST_F(ClockLedgerTest, OfOneThatTellsNothingNothingIsKnown) {
  ASSERT_TRUE(Begin(0, 0, absl::Seconds(0)).ok());
  ASSERT_TRUE(Tell(0, 9, absl::Seconds(1)).ok());
  ASSERT_TRUE(Begin(1, 0, absl::Seconds(2)).ok());
  EXPECT_TRUE(Begin(2, 1, absl::Seconds(40)).ok());
}

TEST_F(ClockLedgerTest, OfOthersThatAreNewNothingIsKnown) {
  ASSERT_TRUE(Begin(0, 0, absl::Seconds(0)).ok());
  ASSERT_TRUE(Tell(0, 40, absl::Seconds(15)).ok());
  EXPECT_TRUE(Begin(1, 0, absl::Seconds(20)).ok());
}

TEST_F(ClockLedgerTest, AClockIsTheStartClockAndThePushesAcknowledged) {
  ASSERT_TRUE(Begin(0, 5, absl::ZeroDuration()).ok());
  EXPECT_TRUE(Pull(0, 5).ok());
  EXPECT_TRUE(Push(0, 1, 5).ok());
  EXPECT_TRUE(Beat(0, 0, 5).ok());
  EXPECT_TRUE(Beat(0, 1, 6).ok());
  EXPECT_TRUE(Pull(0, 6).ok());
  EXPECT_TRUE(Push(0, 2, 6).ok());
  EXPECT_TRUE(Push(0, 1, 5).ok()) << "sent again";
  EXPECT_EQ(Pull(0, 8).message(),
            "worker-0 as generation 0.0 is at clock 8; it began at 5 and has "
            "made 1 to 2 pushes");
  EXPECT_EQ(Push(0, 3, 8).message(),
            "worker-0 as generation 0.0 is at clock 8; it began at 5 and has "
            "made 2 to 2 pushes");
  EXPECT_EQ(Beat(0, 2, 8).message(),
            "worker-0 as generation 0.0 tells clock 8; it began at 5 and holds "
            "2 pushes acknowledged");
  EXPECT_EQ(Beat(0, 4, 9).message(),
            "worker-0 as generation 0.0 holds 4 pushes acknowledged, and has "
            "sent 3");
}

TEST_F(ClockLedgerTest, AStartClockMayRise) {
  ASSERT_TRUE(Begin(0, 5, absl::ZeroDuration()).ok());
  v1::Configuration later = configure_.configuration();
  later.mutable_version()->set_counter(7);
  later.mutable_workers(0)->set_start_clock(9);
  ledger_.Told(later);
  EXPECT_TRUE(Beat(0, 0, 5).ok()) << "of the configuration that it has";
  EXPECT_FALSE(Beat(0, 0, 9).ok());
  EXPECT_TRUE(Push(0, 1, 9).ok());
}

}  // namespace
}  // namespace paramd
