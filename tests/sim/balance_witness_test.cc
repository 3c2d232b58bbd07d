#include "tests/sim/balance_witness.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

constexpr char kMovesTwo[] =
    "rebalance moves the backup of server 2 from ps-0 to ps-1: why";
constexpr char kMovesOne[] = "rebalance moves server 1 from ps-0 to ps-1: why";

class BalanceWitnessTest : public ::testing::Test {
 protected:
  std::string Noted(absl::string_view note, int seconds) {
    return std::string(witness_.Noted(note, absl::Seconds(seconds)).message());
  }
  BalanceWitness witness_{absl::Seconds(20)};
};

TEST_F(BalanceWitnessTest, OneAfterTheOtherIsAsItShouldBe) {
  EXPECT_EQ(Noted(kMovesTwo, 1), "");
  EXPECT_EQ(Noted("rebalance has moved the backup of server 2", 2), "");
  EXPECT_EQ(Noted(kMovesOne, 3), "");
  EXPECT_EQ(Noted("rebalance gives up to move server 1: gone", 4), "");
  EXPECT_EQ(Noted(kMovesTwo, 21), "");
  EXPECT_EQ(witness_.begun(), 3u);
  EXPECT_EQ(witness_.done(), 1u);
}

TEST_F(BalanceWitnessTest, OneThatHasNotRestedIsSeen) {
  EXPECT_EQ(Noted(kMovesTwo, 1), "");
  EXPECT_EQ(Noted("rebalance has moved the backup of server 2", 2), "");
  EXPECT_THAT(Noted(kMovesTwo, 20),
              HasSubstr("server 2 is moved again after 19s"));
}

TEST_F(BalanceWitnessTest, TwoAtATimeAreSeen) {
  EXPECT_EQ(Noted(kMovesTwo, 1), "");
  EXPECT_EQ(Noted(kMovesOne, 2), "server 1 is moved while server 2 is");
}

TEST_F(BalanceWitnessTest, ScalingEndsAMoveAndAChiefThatDiesSaysNothing) {
  EXPECT_EQ(Noted(kMovesTwo, 1), "");
  EXPECT_EQ(Noted("an operator (me) scales the job from 3 to 2 ps", 2), "");
  EXPECT_EQ(Noted(kMovesOne, 3), "");
  witness_.ChiefIsDown();
  EXPECT_EQ(Noted("rebalance moves server 0 from ps-0 to ps-1: why", 4), "");
}

}  // namespace
}  // namespace paramd
