#include "tests/sim/clock_ledger.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

class ClockLedgerTest : public ::testing::Test {
 protected:
  absl::Status Tell(uint32_t worker, uint64_t clock, absl::Duration at) {
    v1::TellClockRequest told;
    told.mutable_header()->set_worker(worker);
    told.set_clock(clock);
    return ledger_.See(PeerId::Worker(worker), told, at);
  }
  absl::Status Begin(uint32_t worker, uint64_t start, absl::Duration at) {
    v1::WorkerMember* const member =
        configure_.mutable_configuration()->add_workers();
    member->set_index(worker);
    member->set_start_clock(start);
    return ledger_.See(PeerId::Coordinator(), configure_, at);
  }

  v1::ConfigureRequest configure_;
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

}  // namespace
}  // namespace paramd
