#include "net/operator_calls.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/refusal.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Method& MethodOfCall(const google::protobuf::Message& request) {
  return *MethodTable::Get().OfRequest(request.GetDescriptor());
}

v1::SetRequest SetStaleness(const std::string& value) {
  v1::SetRequest request;
  request.set_key("staleness");
  request.set_value(value);
  return request;
}

v1::Origin By(const std::string& who) {
  v1::Origin origin;
  origin.set_who(who);
  origin.set_address("10.0.0.7:41234");
  return origin;
}

class OperatorCallsTest : public ::testing::Test {
 protected:
  uint64_t Came(const google::protobuf::Message& request,
                const std::string& who = "operator/0") {
    return calls_.Came(By(who), MethodOfCall(request), request);
  }
  std::vector<uint64_t> Numbers() const {
    v1::StatusReply status;
    calls_.FillStatus(&status);
    std::vector<uint64_t> numbers;
    for (const v1::OperatorCall& call : status.operator_calls()) {
      numbers.push_back(call.number());
    }
    return numbers;
  }

  std::vector<v1::OperatorCall> kept_;
  OperatorCalls calls_{
      [this](const v1::OperatorCall& call) { kept_.push_back(call); }};
};

TEST_F(OperatorCallsTest, EachIsKeptWithWhoItWasAndTheNewestAreInTheStatus) {
  for (int i = 0; i < 20; ++i) Came(SetStaleness(std::to_string(i)));
  EXPECT_EQ(kept_.size(), 20u);
  EXPECT_EQ(kept_[0].origin().who(), "operator/0");
  EXPECT_EQ(kept_[0].origin().address(), "10.0.0.7:41234");
  EXPECT_EQ(kept_[0].call(), "Set");
  EXPECT_EQ(kept_[0].asks(), "key: \"staleness\" value: \"0\"");
  EXPECT_EQ(Numbers().size(), OperatorCalls::kMost);
  EXPECT_EQ(Numbers().back(), 20u);
}

TEST_F(OperatorCallsTest, WhatIsRefusedIsKeptWithTheSentence) {
  const uint64_t number = Came(SetStaleness("fast"));
  calls_.Refused(number, Refuse(v1::Refusal::INVALID, "staleness", "no"));
  ASSERT_EQ(kept_.size(), 2u);
  EXPECT_EQ(kept_[1].number(), number);
  EXPECT_EQ(kept_[1].refused(), "no");
  EXPECT_THAT(Numbers(), ElementsAre(number));
}

TEST_F(OperatorCallsTest, WhoWaitsAndAsksAgainHasAskedOnce) {
  const uint64_t first = Came(SetStaleness("8"));
  calls_.Refused(first, RefuseForNow(v1::Refusal::RETRY, "w",
                                     absl::Milliseconds(1), "waiting for w"));
  EXPECT_EQ(Came(SetStaleness("8")), first);
  EXPECT_NE(Came(SetStaleness("9")), first);
  v1::StopJobRequest stop;
  stop.set_nonce(7);
  Came(stop);
  Came(stop);
  v1::CheckpointRequest checkpoint;
  Came(checkpoint);
  checkpoint.mutable_snapshot()->set_term(1);
  Came(checkpoint);
  v1::DrainRequest drain;
  drain.set_nonce(9);
  Came(drain);
  Came(drain);
  v1::TraceRequest trace;
  trace.set_nonce(11);
  Came(trace);
  trace.set_have(4000);
  Came(trace);
  EXPECT_EQ(kept_.size(), 6u);
  stop.set_nonce(8);
  Came(stop);
  EXPECT_EQ(kept_.size(), 7u) << "somebody else";
}

TEST_F(OperatorCallsTest, WhoIsRefusedWhileItWaitsLeavesOtherCallsAsTheyWere) {
  calls_.Refused(Came(SetStaleness("8")),
                 RefuseForNow(v1::Refusal::RETRY, "w", absl::Milliseconds(1),
                              "waiting for w"));
  v1::TraceRequest trace;
  trace.set_nonce(11);
  EXPECT_EQ(Came(trace), 2u);
  EXPECT_EQ(Came(trace), 0u);
  calls_.Refused(0, Refuse(v1::Refusal::JOB_FINISHED, "w", "it has ended"));
  EXPECT_EQ(kept_.size(), 2u);
  // The other one is asked again, and refused for good.
  EXPECT_EQ(Came(SetStaleness("8")), 1u);
  calls_.Refused(1, Refuse(v1::Refusal::INVALID, "staleness", "no"));
  ASSERT_EQ(kept_.size(), 3u);
  EXPECT_EQ(kept_[2].number(), 1u);
}

TEST_F(OperatorCallsTest, WhatWasDoneAndIsAskedAgainIsKeptAgain) {
  calls_.Refused(Came(SetStaleness("8")),
                 RefuseForNow(v1::Refusal::RETRY, "w", absl::Milliseconds(1),
                              "waiting for w"));
  Came(SetStaleness("8"));  // It is done.
  Came(SetStaleness("8"));
  EXPECT_EQ(kept_.size(), 2u);
}

TEST_F(OperatorCallsTest, NobodyCallsUnseen) {
  // Without a nonce, or a checkpoint that somebody could wait for.
  Came(v1::StopJobRequest());
  v1::CheckpointRequest checkpoint;
  checkpoint.mutable_snapshot();
  Came(checkpoint);
  EXPECT_EQ(kept_.size(), 2u);
  // With the nonce of another call.
  v1::StopJobRequest stop;
  stop.set_nonce(7);
  Came(stop);
  stop.set_now(true);
  Came(stop);
  EXPECT_EQ(kept_.size(), 4u);
}

TEST_F(OperatorCallsTest, OfTwoWhoWaitForTheSameEachHasAskedOnce) {
  v1::StopJobRequest one;
  one.set_nonce(7);
  v1::StopJobRequest other;
  other.set_nonce(8);
  for (int i = 0; i < 5; ++i) {
    Came(one);
    Came(other);
  }
  EXPECT_EQ(kept_.size(), 2u);
}

TEST_F(OperatorCallsTest, OfAttemptsThe1st2nd4th8thAreKept) {
  const absl::Status refused =
      Refuse(v1::Refusal::NOT_ALLOWED, "Set", "Set is for operator");
  for (int i = 0; i < 100; ++i) {
    calls_.Attempted(By("reader/0"), MethodOfCall(v1::SetRequest()), refused);
  }
  ASSERT_EQ(kept_.size(), 7u);
  EXPECT_EQ(kept_[0].refused(), "Set is for operator");
  EXPECT_THAT(kept_[6].refused(), HasSubstr("(attempt 64)"));
}

TEST_F(OperatorCallsTest, WhoItIsIsSaidByItsCertificateOrItsSocket) {
  Caller caller;
  caller.address = "10.0.0.7:41234";
  caller.role = v1::ROLE_WORKER;
  EXPECT_EQ(OperatorCalls::OriginOf(caller, "").who(),
            "worker by its own word");
  caller.name = "operator/0";
  EXPECT_EQ(OperatorCalls::OriginOf(caller, "").who(), "operator/0");
  caller.name.clear();
  caller.address = "unix:";
  const v1::Origin origin = OperatorCalls::OriginOf(caller, "uid 1000");
  EXPECT_EQ(origin.who(), "uid 1000");
  EXPECT_EQ(origin.address(), "the Unix socket");
  EXPECT_GT(origin.unix_ms(), 0u);
}

TEST_F(OperatorCallsTest, AnOriginIsTheProcesssToSay) {
  v1::SetRequest request = SetStaleness("8");
  request.mutable_origin()->set_who("somebody else");
  SetOrigin(By("operator/0"), &request);
  EXPECT_EQ(request.origin().who(), "operator/0");
  v1::CheckpointRequest has_none;
  SetOrigin(By("operator/0"), &has_none);
}

// What only operators may do is kept, whatever it is.
TEST_F(OperatorCallsTest, EveryMethodOfOperatorsIsOne) {
  int found = 0;
  for (const Method& method : MethodTable::Get().methods()) {
    found += OperatorCalls::AreFor(method) ? 1 : 0;
  }
  EXPECT_EQ(found, 8)
      << "Stop, Set, Checkpoint, StopJob, Drain, Scale, Profile, Trace";
}

}  // namespace
}  // namespace paramd
