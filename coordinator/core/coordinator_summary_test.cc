// Summaries of the coordinator.
#include "gtest/gtest.h"

#include "coordinator/core/testing/started_coordinator.h"

namespace paramd {
namespace {

using testing::CoreDriver;
using testing::JobOptions;
using testing::StartedCoordinator;

Coordinator::Options EverySteps(uint64_t steps) {
  Coordinator::Options options = JobOptions();
  options.job.mutable_summary()->set_every_steps(steps);
  return options;
}

// The summary that is under way; it is written.
v1::WriteSummary TakeSummary(CoreDriver* driver) {
  const auto io = driver->TakeIo<v1::WriteSummary>();
  if (!io.has_value()) {
    ADD_FAILURE() << "no summary is written";
    return {};
  }
  driver->End(io->first, absl::OkStatus());
  return io->second;
}

// Tells of `pushes` acknowledged, and what was measured.
void Push(StartedCoordinator* started, StartedCoordinator::Worker* worker,
          uint64_t pushes) {
  worker->beat.mutable_header()->set_sequence(pushes);
  v1::WorkerStats* const stats = worker->beat.mutable_stats();
  stats->set_pushes(pushes);
  stats->set_examples_per_second(500);
  stats->set_examples(10 * pushes);
  stats->set_loss_sum(7.5 * pushes);
  started->Beat(worker);
}

TEST(CoordinatorSummaryTest, EverySoManyStepsOneIsWritten) {
  StartedCoordinator started(EverySteps(3));
  started.Run();
  const auto first = TakeSummary(&started.driver());
  EXPECT_TRUE(first.restarted());
  EXPECT_EQ(first.step(), 0u);
  auto chief = started.Join(0);
  auto other = started.Join(1);
  Push(&started, &chief, 2);
  EXPECT_FALSE(started.driver().TakeIo<v1::WriteSummary>().has_value());
  Push(&started, &other, 2);
  EXPECT_FALSE(started.driver().TakeIo<v1::WriteSummary>().has_value());
  // Now each has told what it did up to there.
  started.Beat(&chief);
  started.Beat(&other);
  const auto summary = TakeSummary(&started.driver());
  EXPECT_FALSE(summary.restarted());
  EXPECT_EQ(summary.step(), 4u);
  EXPECT_EQ(summary.scalars().at("train/loss"), 0.75);
  EXPECT_EQ(summary.scalars().at("examples_per_second"), 1000);
  EXPECT_EQ(summary.scalars().at("workers"), 2);
}

TEST(CoordinatorSummaryTest, ALossStandsAtTheStepUpToWhichItWasTold) {
  StartedCoordinator started(EverySteps(3));
  started.Run();
  TakeSummary(&started.driver());
  auto chief = started.Join(0);
  // A request for a portion has said that there are more pushes already.
  chief.beat.mutable_header()->set_sequence(9);
  chief.beat.mutable_stats()->set_pushes(4);
  chief.beat.mutable_stats()->set_examples(40);
  chief.beat.mutable_stats()->set_loss_sum(20);
  started.Beat(&chief);
  started.Beat(&chief);
  const auto summary = TakeSummary(&started.driver());
  EXPECT_EQ(summary.step(), 4u);
  EXPECT_EQ(summary.scalars().at("train/loss"), 0.5);
}

TEST(CoordinatorSummaryTest, ARunThatGoesOnSaysFromWhichStep) {
  const auto options = EverySteps(3);
  StartedCoordinator started(options);
  started.ReadLog();
  started.Append();
  started.Serve();
  v1::FindCheckpointResult found;
  found.set_path("/run/checkpoints/000001-00000002.step-4");
  found.mutable_manifest()->set_global_step(4);
  found.mutable_manifest()->mutable_input()->set_next_epoch(2);
  started.FindCheckpoint(found);
  started.Append();
  started.Serve();
  const auto first = TakeSummary(&started.driver());
  EXPECT_TRUE(first.restarted());
  EXPECT_EQ(first.step(), 4u);
}

TEST(CoordinatorSummaryTest, AnEvaluationIsWrittenWhenItArrives) {
  StartedCoordinator started(EverySteps(1000));
  started.Run();
  TakeSummary(&started.driver());
  auto chief = started.Join(0);
  v1::Evaluation* const evaluation = chief.beat.mutable_evaluation();
  evaluation->set_epoch(1);
  evaluation->set_examples(8);
  (*evaluation->mutable_metrics())["accuracy"] = 0.75;
  evaluation->set_loss(0.5);
  v1::EvaluatedSlice* const slice = evaluation->add_slices();
  slice->set_feature("device");
  slice->set_value(2);
  slice->set_loss(0.25);
  (*slice->mutable_metrics())["accuracy"] = 0.875;
  started.Beat(&chief);
  const auto summary = TakeSummary(&started.driver());
  EXPECT_EQ(summary.scalars().at("evaluation/accuracy"), 0.75);
  EXPECT_EQ(summary.scalars().at("evaluation/loss"), 0.5);
  EXPECT_EQ(summary.scalars().at("evaluation/accuracy/device=2"), 0.875);
  EXPECT_EQ(summary.scalars().at("evaluation/loss/device=2"), 0.25);
}

TEST(CoordinatorSummaryTest, WhatCannotBeWrittenIsSaidOnceAndStopsNothing) {
  StartedCoordinator started(EverySteps(1));
  started.Run();
  CoreDriver& driver = started.driver();
  auto chief = started.Join(0);
  for (uint64_t push = 1; push <= 3; ++push) {
    const auto io = driver.TakeIo<v1::WriteSummary>();
    ASSERT_TRUE(io.has_value());
    driver.End(io->first, absl::ResourceExhaustedError("the disk is full"));
    Push(&started, &chief, push);
    started.Beat(&chief);
  }
  EXPECT_FALSE(driver.exited);
  int said = 0;
  for (const std::string& note : driver.notes) {
    said += note.find("the disk is full") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(said, 1);
}

TEST(CoordinatorSummaryTest, WithoutTheSettingNothingIsWritten) {
  StartedCoordinator started(EverySteps(0));
  started.Run();
  auto chief = started.Join(0);
  Push(&started, &chief, 4);
  EXPECT_FALSE(started.driver().TakeIo<v1::WriteSummary>().has_value());
}

}  // namespace
}  // namespace paramd
