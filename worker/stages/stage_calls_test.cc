#include "worker/stages/stage_calls.h"

#include <memory>
#include <utility>

#include "gtest/gtest.h"

#include "coordinator/core/testing/core_driver.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/stage.pb.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

// A worker that ends when it is told to, and hears of nothing else.
class EndingCore : public Core {
 public:
  void EndWith(absl::Status status) {
    status_ = std::move(status);
    next_ = Time();
  }

  void Start(Time, Outbox*) override {}
  void Receive(Message, Time, Outbox*) override {}
  void Completed(IoResult, Time, Outbox*) override {}
  void Tick(Time, Outbox* out) override {
    next_ = Time::Never();
    out->Exit(status_);
  }
  Time next_tick() const override { return next_; }

 private:
  Time next_ = Time::Never();
  absl::Status status_;
};

class StartedCore : public EndingCore {
 public:
  void Start(Time, Outbox*) override { is_started = true; }

  bool is_started = false;
};

class StageCallsTest : public ::testing::Test {
 protected:
  StageCallsTest()
      : calls_({.index = 1, .incarnation = 7, .first = 2, .count = 2}),
        driver_(calls_.Around(&core_, [] {})) {
    driver_.Start();
    driver_.Tick();
    for (const uint32_t stage : {2, 3}) {
      const auto greeting =
          driver_.TakeSend<v1::GreetStageRequest>(PeerId::Stage(stage));
      EXPECT_TRUE(greeting.has_value());
      if (stage == 2) driver_.Reply(*greeting, v1::GreetStageReply());
      if (stage == 3) greeting_ = greeting->call;
    }
  }

  // Of stage 3.
  void RefuseGreeting(absl::Status status) {
    Outbox::SendItem sent;
    sent.to = PeerId::Stage(3);
    sent.call = greeting_;
    driver_.Fail(sent, std::move(status));
  }
  StageCalls::Request Request() {
    return {PeerId::Stage(2),
            std::make_unique<v1::FetchStageResultRequest>(),
            {},
            absl::Seconds(1)};
  }

  EndingCore core_;
  StageCalls calls_;
  testing::CoreDriver driver_;
  CallId greeting_ = 0;
};

TEST_F(StageCallsTest, Promise7_StagesHearOfTheEndBeforeTheWorkerEnds) {
  core_.EndWith(absl::OkStatus());
  driver_.Tick();
  EXPECT_FALSE(driver_.exited);
  for (const uint32_t stage : {2, 3}) {
    const auto release =
        driver_.TakeSend<v1::ReleaseStageRequest>(PeerId::Stage(stage));
    ASSERT_TRUE(release.has_value());
    EXPECT_FALSE(driver_.exited);
    if (stage == 2) driver_.Reply(*release, v1::ReleaseStageReply());
    if (stage == 3) driver_.Fail(*release, absl::UnavailableError("gone"));
  }
  EXPECT_TRUE(driver_.exited);
  EXPECT_TRUE(driver_.exit_status.ok());
  EXPECT_TRUE(driver_.HasWarning("a stage was not told"));
}

TEST_F(StageCallsTest, AWorkerThatIsStartedAgainLeavesItsStagesWaiting) {
  core_.EndWith(absl::UnavailableError("a ps is lost"));
  driver_.Tick();
  EXPECT_TRUE(driver_.exited);
  EXPECT_EQ(driver_.exit_status.message(), "a ps is lost");
  EXPECT_FALSE(driver_.TakeSend<v1::ReleaseStageRequest>().has_value());
}

TEST_F(StageCallsTest, AJobThatFailsBesideTheWorkerFailsItsStages) {
  driver_.FailBeside(absl::InvalidArgumentError("no such directory"));
  const auto release = driver_.TakeSend<v1::ReleaseStageRequest>();
  ASSERT_TRUE(release.has_value());
  EXPECT_EQ(static_cast<const v1::ReleaseStageRequest&>(*release->head)
                .finished()
                .exit_code(),
            2);
}

TEST_F(StageCallsTest, ACallGoesOutWithTheNextTickAndItsAnswerComesBack) {
  absl::Status answered = absl::UnknownError("none");
  calls_.Call(Request(), [&](StageCalls::Answer answer) {
    answered = answer.status;
    EXPECT_NE(answer.head, nullptr);
  });
  EXPECT_EQ(calls_.next_tick(), Time());
  driver_.Tick();
  const auto sent = driver_.TakeSend<v1::FetchStageResultRequest>();
  ASSERT_TRUE(sent.has_value());
  driver_.Reply(*sent, v1::FetchStageResultReply());
  EXPECT_TRUE(answered.ok());
}

TEST_F(StageCallsTest, AfterTheEndCallsAreCancelled) {
  absl::Status open, late;
  calls_.Call(Request(),
              [&](StageCalls::Answer answer) { open = answer.status; });
  core_.EndWith(absl::OkStatus());
  driver_.Tick();
  EXPECT_EQ(open.code(), absl::StatusCode::kCancelled);
  calls_.Call(Request(),
              [&](StageCalls::Answer answer) { late = answer.status; });
  EXPECT_EQ(late.code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(calls_.Pause(absl::Hours(1)));
}

TEST_F(StageCallsTest, AStageThatIsNotThereIsGreetedAgain) {
  RefuseGreeting(absl::UnavailableError("refused"));
  driver_.Advance(absl::Seconds(2));
  EXPECT_TRUE(
      driver_.TakeSend<v1::GreetStageRequest>(PeerId::Stage(3)).has_value());
  EXPECT_FALSE(
      driver_.TakeSend<v1::GreetStageRequest>(PeerId::Stage(2)).has_value());
}

TEST_F(StageCallsTest, AStageHearsOfALivingWorkerThatAsksForNothing) {
  for (int i = 0; i < 3; ++i) {
    driver_.Advance(StageCalls::kGreetEvery);
    const auto greeting =
        driver_.TakeSend<v1::GreetStageRequest>(PeerId::Stage(2));
    ASSERT_TRUE(greeting.has_value());
    driver_.Reply(*greeting, v1::GreetStageReply());
  }
}

TEST_F(StageCallsTest, AfterAFailureBesideItTheWorkerIsNotStarted) {
  StartedCore core;
  StageCalls calls({.index = 0, .incarnation = 7, .first = 0, .count = 1});
  testing::CoreDriver driver(calls.Around(&core, [] {}));
  driver.FailBeside(absl::InvalidArgumentError("no such directory"));
  driver.Start();
  EXPECT_FALSE(core.is_started);
  driver.Reply(*driver.TakeSend<v1::ReleaseStageRequest>(),
               v1::ReleaseStageReply());
  EXPECT_TRUE(driver.exited);
}

TEST_F(StageCallsTest, AStageOfAnotherJobEndsTheWorker) {
  RefuseGreeting(
      Refuse(v1::Refusal::OTHER_JOB, "job_name", "another job answers"));
  const auto release = driver_.TakeSend<v1::ReleaseStageRequest>();
  ASSERT_TRUE(release.has_value());
  driver_.Fail(*release, absl::UnavailableError("another job"));
  driver_.Fail(*driver_.TakeSend<v1::ReleaseStageRequest>(),
               absl::UnavailableError("another job"));
  EXPECT_TRUE(driver_.exited);
  EXPECT_EQ(driver_.exit_status,
            absl::InvalidArgumentError("another job answers"));
}

TEST_F(StageCallsTest, Promise4_WhomALaneWaitsForIsSaid) {
  EXPECT_EQ(calls_.overdue(driver_.now()), "");
  calls_.SetWaiting(1, "stage-2: refused");
  EXPECT_EQ(calls_.overdue(driver_.now()), "stage-2: refused");
  calls_.SetWaiting(1, "");
  EXPECT_EQ(calls_.overdue(driver_.now()), "");
}

TEST_F(StageCallsTest, Promise4_AStageThatComputesForLongIsSaid) {
  const auto answer = [&](v1::ComputeStageReply::State state) {
    calls_.Call(Request(), [](const StageCalls::Answer&) {});
    driver_.Tick();
    v1::ComputeStageReply reply;
    reply.set_state(state);
    driver_.Reply(*driver_.TakeSend<v1::FetchStageResultRequest>(), reply);
  };
  answer(v1::ComputeStageReply::TAKEN);
  EXPECT_EQ(calls_.overdue(driver_.now()), "");
  driver_.StandStill(absl::Seconds(31));
  // Who asked may have lost interest.
  EXPECT_EQ(calls_.overdue(driver_.now()), "");
  answer(v1::ComputeStageReply::TAKEN);
  EXPECT_EQ(calls_.overdue(driver_.now()), "stage-2 to compute an operation");
  answer(v1::ComputeStageReply::DONE);
  EXPECT_EQ(calls_.overdue(driver_.now()), "");
}

TEST_F(StageCallsTest, CallsSayWhichSessionTheWorkerHas) {
  v1::JoinReply joined;
  joined.mutable_generation()->set_term(2);
  joined.mutable_generation()->set_counter(5);
  Outbox::SendItem sent;
  sent.to = PeerId::Coordinator();
  sent.call = 3;
  driver_.Reply(sent, joined);
  EXPECT_EQ(calls_.generation().counter(), 5u);
}

}  // namespace
}  // namespace paramd
