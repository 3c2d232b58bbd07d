#include "worker/core/clock_teller.h"

#include "gtest/gtest.h"

#include "proto/paramd/v1/control.pb.h"

namespace paramd {
namespace {

Time At(int64_t milliseconds) {
  return Time::FromNanoseconds(milliseconds * 1'000'000);
}

class ClockTellerTest : public ::testing::Test {
 protected:
  ClockTellerTest() {
    configuration_.add_servers()->set_index(0);
    configuration_.add_servers()->set_index(1);
    SetMode(v1::Consistency::BOUNDED);
    teller_.BeginSession();
  }

  void SetMode(v1::Consistency::Mode mode) {
    configuration_.mutable_consistency()->set_mode(mode);
    teller_.Configure(configuration_);
  }
  // What was told, if anything was due.
  std::vector<v1::TellClockRequest> Advance(const ClockTeller::State& state,
                                            Time now) {
    std::vector<v1::TellClockRequest> told;
    if (!teller_.IsDue(state, now)) return told;
    v1::Header header;
    header.set_worker(3);
    Outbox out;
    teller_.Tell(state, header, now, &next_call_, &out);
    for (size_t i = 0; i < out.sends.size(); ++i) {
      EXPECT_EQ(out.sends[i].to, PeerId::Ps(i));
      told.push_back(
          static_cast<const v1::TellClockRequest&>(*out.sends[i].head));
    }
    return told;
  }

  v1::Configuration configuration_;
  ClockTeller teller_{absl::Milliseconds(1000)};
  CallId next_call_ = 1;
};

TEST_F(ClockTellerTest, EveryServerIsToldEveryHeartbeat) {
  const auto first = Advance({.clock = 4}, At(0));
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[1].clock(), 4u);
  EXPECT_EQ(first[1].header().worker(), 3u);
  EXPECT_FALSE(first[1].no_input());
  EXPECT_EQ(teller_.next_tick(), At(1000));
  EXPECT_TRUE(Advance({.clock = 5}, At(999)).empty());
  const auto second = Advance({.clock = 6}, At(1000));
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[0].clock(), 6u);
  EXPECT_EQ(second[0].number(), first[0].number() + 1);
  EXPECT_EQ(next_call_, 5u);
}

TEST_F(ClockTellerTest, WhetherThereIsInputIsToldAtOnce) {
  Advance({.clock = 4}, At(0));
  const auto told = Advance({.clock = 4, .no_input = true}, At(10));
  ASSERT_EQ(told.size(), 2u);
  EXPECT_TRUE(told[0].no_input());
  EXPECT_TRUE(Advance({.clock = 4, .no_input = true}, At(20)).empty());
  EXPECT_FALSE(Advance({.clock = 4, .no_input = false}, At(30)).empty());
}

TEST_F(ClockTellerTest, InTheOtherModesNothingIsSent) {
  for (const auto mode : {v1::Consistency::ASYNC, v1::Consistency::SYNC,
                          v1::Consistency::MODE_UNSPECIFIED}) {
    SetMode(mode);
    EXPECT_TRUE(Advance({.clock = 4}, At(5000)).empty());
    EXPECT_TRUE(Advance({.clock = 4, .no_input = true}, At(5000)).empty());
    EXPECT_EQ(teller_.next_tick(), Time::Never());
  }
}

TEST_F(ClockTellerTest, AModeThatBeginsToBoundIsToldAtOnce) {
  SetMode(v1::Consistency::ASYNC);
  Advance({}, At(0));
  SetMode(v1::Consistency::BOUNDED);
  EXPECT_EQ(Advance({.clock = 9}, At(1)).size(), 2u);
}

TEST_F(ClockTellerTest, EachSessionCountsFromOne) {
  Advance({}, At(0));
  Advance({}, At(1000));
  teller_.BeginSession();
  const auto told = Advance({}, At(1100));
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].number(), 1u);
}

}  // namespace
}  // namespace paramd
