// A training set that grows while the job runs.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using testing::CoreDriver;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::JobOptions;
using testing::Pair;
using testing::StartedCoordinator;

Coordinator::Options Following() {
  Coordinator::Options options = JobOptions();
  options.examples = 0;
  options.job.set_epochs(100);
  options.job.set_evaluate_every_epochs(1);
  options.job.mutable_input()->mutable_follow()->set_poll_ms(1000);
  options.data.set_directory("/clicks");
  return options;
}

v1::EpochFiles Files(uint32_t epoch, const std::string& name,
                     uint64_t examples) {
  v1::EpochFiles files;
  files.set_epoch(epoch);
  files.add_files()->set_name(name);
  files.set_examples(examples);
  return files;
}

class CoordinatorGrowingTest : public ::testing::Test {
 protected:
  // The look that is under way, or the next one.
  v1::ScanInput EndScan(const v1::ScanInputResult& result) {
    auto scan = driver().TakeIo<v1::ScanInput>();
    if (!scan.has_value()) {
      driver().Advance(absl::Seconds(1));
      scan = driver().TakeIo<v1::ScanInput>();
    }
    EXPECT_TRUE(scan.has_value());
    if (!scan.has_value()) return {};
    driver().Complete(scan->first, result);
    return scan->second;
  }
  v1::LogEntry Find(const std::string& name, uint64_t examples) {
    v1::ScanInputResult result;
    result.mutable_found()->add_files()->set_name(name);
    result.mutable_found()->set_examples(examples);
    EndScan(result);
    log_.push_back(started_.Append());
    return log_.back();
  }
  v1::LogEntry FindTheEnd() {
    v1::ScanInputResult result;
    result.set_ended(true);
    EndScan(result);
    log_.push_back(started_.Append());
    return log_.back();
  }
  CoreDriver& driver() { return started_.driver(); }
  v1::JobStats Status() {
    v1::StatusReply status;
    started_.core().FillStatus(&status);
    return status.job();
  }

  StartedCoordinator started_{Following()};
  std::vector<v1::LogEntry> log_;
};

TEST_F(CoordinatorGrowingTest, Promise4_AnEmptyDirectoryIsWaitedForByName) {
  started_.Run();
  StartedCoordinator::Worker worker = started_.Join(0);
  started_.Join(1);
  EndScan({});
  const v1::PortionReply none = started_.NextPortion(&worker, 0);
  EXPECT_FALSE(none.has_portion());
  EXPECT_FALSE(none.no_more());
  EXPECT_EQ(none.retry_ms(), 250u) << "a quarter of the time between two looks";
  EXPECT_EQ(started_.core().waiting_for(), "new files in /clicks");
  EXPECT_EQ(started_.core().overdue(driver().now()), "") << "nobody is late";
  EXPECT_EQ(Status().epochs(), 0u);
  EXPECT_FALSE(Status().growing_input().ended());
}

TEST_F(CoordinatorGrowingTest, APortionSaysWhichFilesItIsOf) {
  started_.Run();
  StartedCoordinator::Worker worker = started_.Join(0);
  Find("a.csv", 6);
  const v1::PortionReply first = started_.NextPortion(&worker, 0);
  EXPECT_EQ(first.portion().epoch(), 1u);
  EXPECT_EQ(first.portion().end(), 4u);
  EXPECT_EQ(first.files().SerializeAsString(),
            Files(1, "a.csv", 6).SerializeAsString());
  EXPECT_EQ(started_.NextPortion(&worker, 0).portion().end(), 6u);
  EXPECT_FALSE(started_.NextPortion(&worker, 0).has_portion());
  Find("b.csv", 3);
  const v1::PortionReply second = started_.NextPortion(&worker, 0);
  EXPECT_EQ(second.portion().epoch(), 2u);
  EXPECT_EQ(second.portion().end(), 3u);
  EXPECT_EQ(second.files().files(0).name(), "b.csv");
  EXPECT_EQ(Status().growing_input().files(), 2u);
  EXPECT_EQ(Status().growing_input().examples(), 9u);
}

TEST_F(CoordinatorGrowingTest, Promise1_ANewCoordinatorFindsNoFileAgain) {
  started_.Run();
  started_.Join(0);
  Find("a.csv", 6);
  StartedCoordinator next(Following());
  v1::ReadLogResult log;
  log.add_entries()->set_term(1);
  *log.add_entries() = log_[0];
  for (v1::LogEntry& entry : *log.mutable_entries()) {
    entry.set_number(log.entries_size());
    entry.set_run_id("run");
    entry.set_job_digest("digest");
  }
  next.ReadLog(log);
  next.Append();
  next.Serve();
  v1::FindCheckpointResult found;
  found.set_path("/c");
  *found.mutable_manifest()->mutable_snapshot() = Pair(1, 1);
  v1::SavedInput* const left = found.mutable_manifest()->mutable_input();
  left->set_next_epoch(1);
  left->set_next_offset(4);
  next.FindCheckpoint(found);
  next.Append();
  next.Serve();
  StartedCoordinator::Worker worker = next.Join(0);
  const v1::PortionReply reply = next.NextPortion(&worker, 0);
  EXPECT_EQ(reply.portion().begin(), 4u);
  EXPECT_EQ(reply.portion().end(), 6u);
  EXPECT_EQ(reply.files().files(0).name(), "a.csv");
  next.driver().Advance(absl::Seconds(1));
  const auto scan = next.driver().TakeIo<v1::ScanInput>();
  ASSERT_TRUE(scan.has_value());
  EXPECT_THAT(scan->second.known(), ElementsAre("a.csv"));
}

TEST_F(CoordinatorGrowingTest, ACheckpointOfEpochsThatNoLogKnowsIsRefused) {
  started_.ReadLog();
  started_.Append();
  started_.Serve();
  v1::FindCheckpointResult found;
  found.set_path("/c");
  *found.mutable_manifest()->mutable_snapshot() = Pair(1, 1);
  found.mutable_manifest()->mutable_input()->set_next_epoch(2);
  started_.FindCheckpoint(found);
  driver().LetAllHear();
  EXPECT_TRUE(absl::IsFailedPrecondition(driver().exit_status));
  EXPECT_THAT(std::string(driver().exit_status.message()),
              HasSubstr("checkpoint '/c' has begun epoch 1, but the "
                        "configuration log says of 0 epochs alone"));
}

TEST_F(CoordinatorGrowingTest, WhatALostWorkerHeldIsHandedOutWithItsFiles) {
  started_.Run();
  StartedCoordinator::Worker lost = started_.Join(1);
  Find("a.csv", 4);
  EXPECT_EQ(started_.NextPortion(&lost, 0).portion().end(), 4u);
  Find("b.csv", 4);
  StartedCoordinator::Worker worker = started_.Join(0);
  for (int i = 0; i < 11; ++i) {
    started_.Beat(&worker);
    driver().Advance(absl::Seconds(1));
  }
  while (driver().TakeIo<v1::ScanInput>().has_value()) {
  }
  started_.Append();  // The fence.
  started_.Serve();
  const v1::PortionReply reply = started_.NextPortion(&worker, 0);
  EXPECT_EQ(reply.portion().epoch(), 1u);
  EXPECT_EQ(reply.files().files(0).name(), "a.csv");
}

TEST_F(CoordinatorGrowingTest, Promise7_TheJobEndsBehindTheLastEpoch) {
  started_.Run();
  StartedCoordinator::Worker worker = started_.Join(0);
  Find("a.csv", 4);
  const uint64_t id = started_.NextPortion(&worker, 0).portion().id();
  EXPECT_FALSE(started_.NextPortion(&worker, 0).no_more());
  EXPECT_EQ(FindTheEnd().epoch_files().epoch(), 2u);
  EXPECT_TRUE(started_.NextPortion(&worker, id).no_more());
  worker.beat.set_no_input(true);
  started_.CatchUp(&worker);
  EXPECT_EQ(worker.beat.state(), v1::FINISHING);
  EXPECT_TRUE(started_.last_reply().evaluate_final());
  EXPECT_EQ(started_.last_reply().evaluate_epoch(), 1u)
      << "how many epochs there were the coordinator alone knows";
  EXPECT_TRUE(Status().growing_input().ended());
}

TEST_F(CoordinatorGrowingTest, AfterEachEpochThereIsAnEvaluation) {
  started_.Run();
  StartedCoordinator::Worker worker = started_.Join(0);
  Find("a.csv", 4);
  const uint64_t id = started_.NextPortion(&worker, 0).portion().id();
  started_.NextPortion(&worker, id);
  started_.CatchUp(&worker);
  EXPECT_EQ(started_.last_reply().evaluate_epoch(), 1u);
  EXPECT_FALSE(started_.last_reply().evaluate_final());
}

TEST_F(CoordinatorGrowingTest, StalenessDoesNotBecomeSync) {
  started_.Run();
  v1::SetRequest set;
  set.set_key("staleness");
  set.set_value("sync");
  const CoreDriver::Answer answer = driver().Call(PeerId{}, set);
  EXPECT_EQ(RefusalOf(answer.status).reason(), v1::Refusal::INVALID);
  EXPECT_THAT(std::string(answer.status.message()),
              HasSubstr("staleness can't become sync with input.follow"));
}

}  // namespace
}  // namespace paramd
