#include "coordinator/core/failed_job.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/core/testing/started_coordinator.h"
#include "proto/job_end.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using testing::CoreDriver;
using ::testing::HasSubstr;
using testing::JobOptions;
using testing::StartedCoordinator;

const absl::Status& NoNumber() {
  static const absl::Status* const why = new absl::Status(
      absl::StatusCode::kFailedPrecondition, "the loss is nan");
  return *why;
}

// A running job of two servers and two workers, whose chief's own worker is
// worker 0.
class FailedJobTest : public ::testing::Test {
 protected:
  FailedJobTest() {
    started_.Run();
    started_.Serve();
    chief_ = started_.Join(0);
    other_ = started_.Join(1);
    started_.Serve();
    started_.CatchUp(&chief_);
    started_.CatchUp(&other_);
    started_.Serve();
    driver().sends.clear();
  }
  CoreDriver& driver() { return started_.driver(); }

  // The worker in the coordinator's process fails.
  void Fail() { driver().FailBeside(NoNumber()); }
  // Answers what the servers are told, now and when a worker whose answer was
  // lost would have asked again; how many heard that everybody knows.
  int AnswerFinish() {
    const int now = AnswerFinishNow();
    driver().Advance(absl::Milliseconds(500));
    return now + AnswerFinishNow();
  }
  int AnswerFinishNow() {
    int everybody = 0;
    while (const auto sent = driver().TakeSend<v1::FinishRequest>()) {
      const auto& finish = static_cast<const v1::FinishRequest&>(*sent->head);
      EXPECT_EQ(finish.finished().exit_code(), 1);
      EXPECT_EQ(finish.finished().reason(), "the loss is nan");
      EXPECT_NE(finish.header().server_incarnation(), 0u);
      everybody += finish.everybody_knows();
      driver().Reply(*sent, v1::FinishReply());
    }
    return everybody;
  }

  StartedCoordinator started_{JobOptions()};
  StartedCoordinator::Worker chief_;
  StartedCoordinator::Worker other_;
};

TEST_F(FailedJobTest, Promise7_EverybodyHearsTheReasonBeforeTheChiefEnds) {
  Fail();
  EXPECT_FALSE(driver().exited);
  ASSERT_TRUE(driver().answered(other_.parked));
  const absl::Status told = driver().Take(other_.parked).status;
  EXPECT_EQ(RefusalOf(told).reason(), v1::Refusal::JOB_FINISHED);
  EXPECT_EQ(EndFor(told).message(), "the loss is nan");
  EXPECT_FALSE(EndFor(told).ok());
  EXPECT_EQ(AnswerFinish(), 2) << "nobody else is there";
  EXPECT_TRUE(driver().exited);
  EXPECT_EQ(driver().exit_status, NoNumber());
}

TEST_F(FailedJobTest, AWorkerWhoseAnswerWasLostAsksAgain) {
  Fail();
  EXPECT_EQ(AnswerFinishNow(), 0);
  driver().Advance(absl::Milliseconds(400));
  EXPECT_EQ(AnswerFinishNow(), 0);
  const absl::Status told =
      driver().Call(PeerId::Worker(1), other_.beat).status;
  EXPECT_EQ(EndFor(told).message(), "the loss is nan");
  driver().Advance(absl::Milliseconds(400));
  EXPECT_FALSE(driver().exited);
  EXPECT_EQ(AnswerFinish(), 2);
  EXPECT_TRUE(driver().exited);
}

TEST_F(FailedJobTest, Promise7_AWorkerThatIsBusyIsWaitedForAndServersStay) {
  driver().Advance(absl::Seconds(1));  // Its heartbeat is answered.
  ASSERT_TRUE(started_.TakeNews(&other_));
  started_.Serve();
  Fail();
  EXPECT_EQ(AnswerFinish(), 0);
  driver().Advance(absl::Seconds(1));
  EXPECT_FALSE(driver().exited);
  const absl::Status told =
      driver().Call(PeerId::Worker(1), other_.beat).status;
  EXPECT_EQ(EndFor(told).message(), "the loss is nan");
  EXPECT_EQ(AnswerFinish(), 2);
  EXPECT_TRUE(driver().exited);
}

TEST_F(FailedJobTest, Promise4_NobodyIsWaitedForForEver) {
  driver().Advance(absl::Seconds(1));
  ASSERT_TRUE(started_.TakeNews(&other_));
  Fail();
  const Time failed = driver().now();
  while (!driver().exited && driver().now() < failed + absl::Minutes(1)) {
    driver().Advance(absl::Seconds(1));
  }
  EXPECT_TRUE(driver().exited);
  EXPECT_LE(driver().now(),
            failed +
                2 * absl::Milliseconds(JobOptions().job.finish_timeout_ms()) +
                absl::Seconds(1));
  EXPECT_EQ(driver().exit_status, NoNumber());
}

TEST_F(FailedJobTest, OneThatIsToStopWaitsForNoWorker) {
  driver().Advance(absl::Seconds(1));
  ASSERT_TRUE(started_.TakeNews(&other_));
  Fail();
  EXPECT_EQ(AnswerFinish(), 0);
  driver().Drain();
  EXPECT_FALSE(driver().exited);
  driver().Advance(absl::Seconds(1));  // Nor long for servers.
  EXPECT_TRUE(driver().exited);
  EXPECT_EQ(driver().exit_status, NoNumber());
}

TEST_F(FailedJobTest, AServerThatDidNotAnswerIsToldAgain) {
  Fail();
  driver().Fail(*driver().TakeSend<v1::FinishRequest>(PeerId::Ps(1)),
                absl::UnavailableError("connection reset"));
  EXPECT_EQ(AnswerFinishNow(), 0);
  EXPECT_FALSE(driver().exited);
  EXPECT_EQ(AnswerFinish(), 2);
  EXPECT_TRUE(driver().exited);
}

TEST_F(FailedJobTest, AProcessWhoseOtherServerHasHeardIsNotAskedAgain) {
  FailedJob::Options options;
  options.why = NoNumber();
  options.finish_timeout = absl::Seconds(10);
  for (const uint32_t place : {0, 1}) {
    FailedJob::Server server;
    server.index = place;
    server.header.set_server_incarnation(100);
    options.servers.push_back(server);
  }
  Outbox out;
  FailedJob job(std::move(options), Time(), &out);
  ASSERT_EQ(out.sends.size(), 2u);
  const CallId calls[] = {out.sends[0].call, out.sends[1].call};
  Message heard;
  heard.is_reply = true;
  heard.from = PeerId::Ps(0);
  heard.call = calls[0];
  job.Receive(heard, Time(), &out);
  EXPECT_FALSE(out.exited);
  Message gone;
  gone.is_reply = true;
  gone.from = PeerId::Ps(1);
  gone.call = calls[1];
  gone.status = absl::UnavailableError("refused");
  job.Receive(gone, Time(), &out);
  EXPECT_TRUE(out.exited);
}

TEST_F(FailedJobTest, TheCoordinatorsOwnFailureIsToldToo) {
  const auto append = [&] {
    chief_.beat.set_leaving(true);
    started_.Beat(&chief_);
    return driver().TakeIo<v1::AppendLog>();
  }();
  ASSERT_TRUE(append.has_value());
  driver().End(append->first, absl::PermissionDeniedError("read-only"));
  EXPECT_FALSE(driver().exited);
  const absl::Status told = driver().Take(other_.parked).status;
  EXPECT_EQ(EndFor(told).message(), "read-only");
  const auto finish = driver().TakeSend<v1::FinishRequest>(PeerId::Ps(0));
  ASSERT_TRUE(finish.has_value());
  EXPECT_THAT(
      static_cast<const v1::FinishRequest&>(*finish->head).finished().reason(),
      HasSubstr("read-only"));
}

TEST_F(FailedJobTest, ADiskThatIsFullIsToldToNobody) {
  chief_.beat.set_leaving(true);
  started_.Beat(&chief_);
  const auto append = driver().TakeIo<v1::AppendLog>();
  ASSERT_TRUE(append.has_value());
  driver().End(append->first, absl::ResourceExhaustedError("no space"));
  EXPECT_TRUE(driver().exited);
  EXPECT_EQ(driver().exit_status, absl::UnavailableError("no space"));
  EXPECT_FALSE(driver().TakeSend<v1::FinishRequest>(PeerId::Ps(0)).has_value());
}

TEST_F(FailedJobTest, WhatMayPassIsToldToNobody) {
  for (const absl::Status& why :
       {absl::UnavailableError("storage"), absl::AbortedError("again"),
        absl::AlreadyExistsError("another chief")}) {
    StartedCoordinator started(JobOptions());
    started.Run();
    started.Serve();
    started.driver().sends.clear();
    started.driver().FailBeside(why);
    EXPECT_TRUE(started.driver().exited);
    EXPECT_TRUE(started.driver().exit_status.ok()) << "it is another core's";
    EXPECT_TRUE(started.driver().sends.empty());
  }
}

TEST_F(FailedJobTest, ServersThatMayBeAnotherRunsAreToldNothing) {
  StartedCoordinator started(JobOptions());
  started.ReadLog();
  started.Append();
  started.driver().sends.clear();  // Recalls, which nobody has answered.
  started.driver().FailBeside(NoNumber());
  EXPECT_TRUE(started.driver().exited);
  EXPECT_TRUE(started.driver().sends.empty());
}

}  // namespace
}  // namespace paramd
