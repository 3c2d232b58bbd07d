// A coordinator that starts and finds its run finished.
#include "gtest/gtest.h"

#include "coordinator/core/coordinator.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using testing::CoreDriver;
using testing::JobOptions;
using testing::StartedCoordinator;

class FinishedRunTest : public ::testing::Test {
 protected:
  FinishedRunTest() : started_(JobOptions()) {
    v1::ReadLogResult log;
    v1::LogEntry* entry = log.add_entries();
    entry->set_number(1);
    entry->set_run_id("run");
    entry->set_job_digest("digest");
    entry->mutable_finished();
    started_.ReadLog(log);
  }
  CoreDriver& driver() { return started_.driver(); }
  void AnswerFinish() {
    while (const auto sent = driver().TakeSend<v1::FinishRequest>()) {
      driver().Reply(*sent, v1::FinishReply());
    }
  }
  void ExpectTold(uint32_t worker) {
    const CallId call = started_.BeginJoin(worker, 200 + worker);
    EXPECT_EQ(RefusalOf(driver().Take(call).status).reason(),
              v1::Refusal::JOB_FINISHED);
  }

  StartedCoordinator started_;
};

TEST_F(FinishedRunTest, Promise7_ItEndsAtOnceAndAppendsNothing) {
  EXPECT_TRUE(driver().ios.empty());
  EXPECT_TRUE(driver().HasNote("run run is finished already"));
  ExpectTold(0);
  AnswerFinish();
  ExpectTold(1);
  AnswerFinish();
  EXPECT_TRUE(driver().exited);
  EXPECT_TRUE(driver().exit_status.ok());
}

TEST_F(FinishedRunTest, Promise7_ItStaysForWorkersThatStartLater) {
  ExpectTold(0);
  AnswerFinish();
  driver().Advance(absl::Seconds(5));
  EXPECT_FALSE(driver().exited);
  ExpectTold(1);
  AnswerFinish();
  EXPECT_TRUE(driver().exited);
}

TEST_F(FinishedRunTest, Promise7_ItDoesNotStayForEver) {
  driver().Advance(absl::Seconds(21));
  EXPECT_TRUE(driver().exited);
  EXPECT_TRUE(driver().exit_status.ok());
}

TEST_F(FinishedRunTest, Promise7_AServerThatComesLaterIsTold) {
  driver().Fail(*driver().TakeSend<v1::FinishRequest>(PeerId::Ps(0)),
                absl::UnavailableError("connection refused"));
  driver().Advance(absl::Milliseconds(200));
  EXPECT_TRUE(driver().TakeSend<v1::FinishRequest>(PeerId::Ps(0)).has_value());
}

}  // namespace
}  // namespace paramd
