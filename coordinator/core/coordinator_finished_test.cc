// A coordinator that starts and finds its run finished, or with other settings,
// or a server that is left from another one.
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/core/coordinator.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using testing::CoreDriver;
using ::testing::HasSubstr;
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

TEST(OldRunTest, ALogOfAnotherJobIsRefusedByTheSettingAndBothValues) {
  Coordinator::Options options = JobOptions();
  StartedCoordinator first(options);
  first.ReadLog();
  v1::ReadLogResult log;
  *log.add_entries() = first.Append();
  options.job.set_batch_per_replica(4);
  StartedCoordinator started(options);
  started.ReadLog(log);
  const absl::Status& exit = started.driver().exit_status;
  EXPECT_TRUE(started.driver().exited);
  EXPECT_TRUE(absl::IsInvalidArgument(exit));
  EXPECT_THAT(std::string(exit.message()),
              HasSubstr("run run is of another job: batch_per_replica is 4, "
                        "was 2"));
}

TEST(OldRunTest, ARunMayGoOnWithOtherEpochsAndSaysSo) {
  Coordinator::Options options = JobOptions();
  StartedCoordinator first(options);
  first.ReadLog();
  v1::ReadLogResult log;
  *log.add_entries() = first.Append();
  options.job.set_epochs(20);
  StartedCoordinator started(options);
  started.ReadLog(log);
  EXPECT_TRUE(started.driver().HasNote(
      "run run goes on with other settings: epochs is 20, was 2"));
  started.Append();
  started.Serve();
  started.FindCheckpoint();
  // 8 examples in batches of 2.
  EXPECT_EQ(started.Append().configuration().decay_steps(), 80u);
}

TEST(OldRunTest, ALogOfOtherDataIsRefusedByBothDirectories) {
  Coordinator::Options options = JobOptions();
  options.data.set_directory("/data/a");
  options.data.set_labels_crc32c(0xa);
  StartedCoordinator first(options);
  first.ReadLog();
  v1::ReadLogResult log;
  *log.add_entries() = first.Append();
  options.data.set_directory("/data/b");
  options.data.set_labels_crc32c(0xb);
  StartedCoordinator started(options);
  started.ReadLog(log);
  EXPECT_TRUE(absl::IsInvalidArgument(started.driver().exit_status));
  EXPECT_THAT(
      std::string(started.driver().exit_status.message()),
      HasSubstr("the training data in '/data/b' is not what run run was "
                "trained on, read in '/data/a': other labels (crc32c "
                "0000000b, not 0000000a)"));
}

// What a coordinator of these options wrote when its run ended.
v1::ReadLogResult EndedLog(const Coordinator::Options& options) {
  StartedCoordinator first(options);
  first.ReadLog();
  v1::ReadLogResult log;
  *log.add_entries() = first.Append();
  first.Serve();
  first.FindCheckpoint();
  *log.add_entries() = first.Append();
  v1::LogEntry* const end = log.add_entries();
  *end = log.entries(0);
  end->set_number(3);
  end->mutable_finished();
  return log;
}

TEST(LongerRunTest, ARunThatHasEndedGoesOnForMoreEpochs) {
  Coordinator::Options options = JobOptions();
  const v1::ReadLogResult log = EndedLog(options);
  options.job.set_epochs(20);
  StartedCoordinator started(options);
  started.ReadLog(log);
  EXPECT_FALSE(started.driver().HasNote("is finished already"));
  EXPECT_EQ(started.Append().term(), 2u);
}

TEST(LongerRunTest, OtherSettingsAloneDoNotMakeItGoOn) {
  Coordinator::Options options = JobOptions();
  const v1::ReadLogResult log = EndedLog(options);
  options.job.mutable_optimizer()->set_learning_rate(0.5);
  StartedCoordinator started(options);
  started.ReadLog(log);
  EXPECT_TRUE(started.driver().HasNote("run run is finished already"));
}

TEST(CoordinatorTest,
     Promise7_AServerLeftFromAnotherRunIsNotTakenForOneThatKnows) {
  StartedCoordinator started(JobOptions());
  CoreDriver& driver = started.driver();
  started.ReadLog();
  started.Append();
  driver.Fail(
      *driver.TakeSend<v1::RecallRequest>(PeerId::Ps(1)),
      Refuse(v1::Refusal::JOB_FINISHED, "ps-1", "the job has finished"));
  started.Serve();
  EXPECT_EQ(started.core().waiting_for(),
            "ps-1 to be there: the job has finished");
  driver.Advance(absl::Milliseconds(200));
  started.Serve();  // Its successor.
  EXPECT_TRUE(driver.TakeIo<v1::FindCheckpoint>().has_value());
}

}  // namespace
}  // namespace paramd
