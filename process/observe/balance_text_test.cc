#include "process/observe/balance_text.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(BalanceTextTest, WhereNothingWasMovedNothingIsSaid) {
  EXPECT_EQ(MovesText({}), "");
  EXPECT_EQ(MovesNews({}, {}), "");
}

TEST(BalanceTextTest, AMoveUnderWaySaysWhyAndWhatItWaitsFor) {
  v1::Balance balance;
  balance.mutable_moving()->set_what("server 3 from ps-0 to ps-2");
  balance.mutable_moving()->set_why("ps-0 spends most");
  EXPECT_EQ(MovesText(balance),
            "moves server 3 from ps-0 to ps-2: ps-0 spends most\n");
  balance.set_waiting_for("ps-2 to be there");
  EXPECT_EQ(MovesText(balance),
            "moves server 3 from ps-0 to ps-2: ps-0 spends most; waits for "
            "ps-2 to be there\n");
}

TEST(BalanceTextTest, TheNewestThreeAreSaidTheNewestFirst) {
  v1::Balance balance;
  for (int i = 0; i < 4; ++i) {
    v1::Balance::Moved* const moved = balance.add_moved();
    moved->set_what(i == 2 ? "server 2 from ps-0 to ps-1" : "server 9");
    moved->set_why("hot");
    if (i > 1) moved->set_ago_ms(static_cast<uint64_t>(5000 - 1000 * i));
  }
  balance.mutable_moved(2)->set_failure("ps-1 is not there");
  EXPECT_EQ(MovesText(balance),
            "2.0 s ago moved server 9: hot\n"
            "3.0 s ago gave up to move server 2 from ps-0 to ps-1: ps-1 is not "
            "there\n"
            "with an earlier chief moved server 9: hot\n");
}

TEST(BalanceTextTest, AServerThatIsTooHotIsSaidAndIsNewsOnce) {
  v1::Balance was;
  v1::Balance is;
  is.set_hot("ps-0 is hot");
  EXPECT_EQ(MovesText(is), "ps-0 is hot\n");
  EXPECT_EQ(MovesNews(was, is), "ps-0 is hot");
  EXPECT_EQ(MovesNews(is, is), "");
}

TEST(BalanceTextTest, AMoveThatHasEndedIsNewsOnce) {
  v1::Balance was;
  v1::Balance is;
  is.add_moved()->set_what("server 3 from ps-0 to ps-2");
  is.mutable_moved(0)->set_why("hot");
  EXPECT_EQ(MovesNews(was, is), "") << "with an earlier chief";
  is.set_moves(1);
  EXPECT_EQ(MovesNews(was, is), "moved server 3 from ps-0 to ps-2: hot");
  EXPECT_EQ(MovesNews(is, is), "");
}

}  // namespace
}  // namespace paramd
