#include "tests/sim/bound_witness.h"

#include <functional>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/refusal.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

// Does what the test says.
class PuppetCore : public Core {
 public:
  void Start(Time, Outbox*) override {}
  void Receive(Message message, Time, Outbox* out) override {
    receive(message, out);
  }
  void Completed(IoResult, Time, Outbox*) override {}
  void Tick(Time, Outbox* out) override { tick(out); }
  Time next_tick() const override { return Time::Never(); }

  std::function<void(const Message&, Outbox*)> receive = [](const Message&,
                                                            Outbox*) {};
  std::function<void(Outbox*)> tick = [](Outbox*) {};
};

// Workers 0 and 1 under a bound of 2, lease 10 s, park timeout 5 s.
class BoundWitnessTest : public ::testing::Test {
 protected:
  BoundWitnessTest() {
    v1::ConfigureRequest configure;
    v1::Configuration* const told = configure.mutable_configuration();
    told->mutable_version()->set_counter(1);
    told->mutable_consistency()->set_mode(v1::Consistency::BOUNDED);
    told->mutable_consistency()->set_bound(2);
    for (uint32_t worker = 0; worker < 2; ++worker) {
      v1::WorkerMember* const member = told->add_workers();
      member->set_index(worker);
      *member->mutable_generation() = GenerationOf(worker);
    }
    core_.receive = [&](const Message& message, Outbox* out) {
      auto reply = std::make_unique<v1::ConfigureReply>();
      *reply->mutable_configuration() = told->version();
      out->Reply(message.call, std::move(reply));
    };
    Send(configure);
  }

  static v1::SessionId GenerationOf(uint32_t worker) {
    v1::SessionId generation;
    generation.set_term(1);
    generation.set_counter(3 + worker);
    return generation;
  }
  static v1::Header HeaderOf(uint32_t worker) {
    v1::Header header;
    header.set_worker(worker);
    *header.mutable_generation() = GenerationOf(worker);
    return header;
  }
  void Send(const google::protobuf::Message& head) {
    Message message;
    message.call = ++call_;
    message.head = &head;
    Outbox out;
    witness_.Receive(std::move(message), now_, &out);
  }
  void Pull(uint32_t worker, uint64_t clock, bool answered) {
    v1::PullRequest pull;
    *pull.mutable_header() = HeaderOf(worker);
    pull.set_clock(clock);
    core_.receive = [&](const Message& message, Outbox* out) {
      if (answered) {
        out->Reply(message.call, std::make_unique<v1::PullReply>());
      }
    };
    Send(pull);
  }
  void Tell(uint32_t worker, uint64_t clock, bool no_input = false) {
    v1::TellClockRequest told;
    *told.mutable_header() = HeaderOf(worker);
    told.set_clock(clock);
    told.set_no_input(no_input);
    told.set_number(++number_);
    core_.receive = [](const Message& message, Outbox* out) {
      out->Reply(message.call, std::make_unique<v1::TellClockReply>());
    };
    Send(told);
  }
  void TickAfter(absl::Duration duration) {
    now_ = now_ + duration;
    Outbox out;
    witness_.Tick(now_, &out);
  }

  Time now_ = Time::FromNanoseconds(1);
  CallId call_ = 0;
  uint64_t number_ = 0;
  std::string failure_;
  PuppetCore core_;
  BoundWitness witness_{
      &core_,
      {absl::Seconds(10), absl::Seconds(5), [this](const absl::Status& status) {
         if (!failure_.empty()) return;
         failure_ = std::string(status.message());
       }}};
};

TEST_F(BoundWitnessTest, WhatIsWithinTheBoundIsFine) {
  Pull(0, 2, /*answered=*/true);
  Pull(0, 3, /*answered=*/false);
  core_.tick = [this](Outbox* out) {
    v1::Refusal wait;
    wait.set_reason(v1::Refusal::WAIT);
    wait.set_waiting_for("worker-1 generation 1.4");
    out->Refuse(call_, Refuse(wait, "wait"));
  };
  TickAfter(absl::Seconds(4));
  EXPECT_EQ(failure_, "");
  EXPECT_EQ(witness_.counts().pulls, 2u);
  EXPECT_EQ(witness_.counts().parked, 1u);
  EXPECT_EQ(witness_.counts().told, 1u);
}

TEST_F(BoundWitnessTest, AReadTooFarAheadIsFound) {
  Pull(0, 3, /*answered=*/true);
  EXPECT_EQ(failure_,
            "a pull at clock 3 was answered to worker-0; the bound is 2, heard "
            "of are worker-0 at 3, worker-1 at 0");
}

TEST_F(BoundWitnessTest, APullThatIsNotLetThroughIsFound) {
  Pull(0, 2, /*answered=*/false);
  EXPECT_THAT(failure_, HasSubstr("may be answered and is not"));
}

TEST_F(BoundWitnessTest, APullThatIsNotFreedByAClockIsFound) {
  Pull(0, 3, /*answered=*/false);
  EXPECT_EQ(failure_, "");
  Tell(1, 1);
  EXPECT_THAT(failure_, HasSubstr("may be answered and is not"));
}

TEST_F(BoundWitnessTest, APullThatIsNotFreedByNoInputIsFound) {
  Pull(0, 3, /*answered=*/false);
  Tell(1, 0, /*no_input=*/true);
  EXPECT_THAT(failure_, HasSubstr("may be answered and is not"));
}

TEST_F(BoundWitnessTest, APullThatIsNotFreedBySilenceIsFound) {
  for (int i = 0; i < 3; ++i) {
    now_ = now_ + absl::Seconds(4);
    Tell(0, 3);
  }
  Pull(0, 3, /*answered=*/false);
  EXPECT_THAT(failure_, HasSubstr("may be answered and is not"));
}

TEST_F(BoundWitnessTest, AWaitWithoutEndIsFound) {
  Pull(0, 3, /*answered=*/false);
  TickAfter(absl::Seconds(4));
  EXPECT_EQ(failure_, "");
  TickAfter(absl::Seconds(2));
  EXPECT_THAT(failure_, HasSubstr("waits for 6s"));
}

TEST_F(BoundWitnessTest, AWaitForTheWrongSessionIsFound) {
  Pull(0, 3, /*answered=*/false);
  core_.tick = [this](Outbox* out) {
    v1::Refusal wait;
    wait.set_reason(v1::Refusal::WAIT);
    wait.set_waiting_for("worker-1 generation 1.3");
    out->Refuse(call_, Refuse(wait, "wait"));
  };
  TickAfter(absl::Seconds(4));
  EXPECT_THAT(failure_, HasSubstr("was told to wait for worker-1 generation"));
}

}  // namespace
}  // namespace paramd
