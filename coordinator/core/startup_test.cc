#include "coordinator/core/startup.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/core/testing/part_bench.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;
using ::paramd::testing::JobOptions;
using ::paramd::testing::Pair;
using ::paramd::testing::PartBench;
using ::testing::HasSubstr;

CoordinatorOptions OneVariable() {
  CoordinatorOptions options = JobOptions();
  options.variables.resize(1);
  options.variables[0].set_name("w");
  options.variables[0].add_shape(8);
  return options;
}

class StartupTest : public ::testing::Test {
 protected:
  StartupTest() : StartupTest(OneVariable()) {}
  explicit StartupTest(const CoordinatorOptions& options)
      : bench_(options), startup_(options) {
    bench_.phase = JobPhase::kReadingLog;
  }

  // The phase that was reached last, which everybody then sees.
  void See() {
    for (const Fact& fact : bench_.facts) {
      const auto* reached = std::get_if<Reached>(&fact);
      if (reached != nullptr) bench_.phase = reached->phase;
    }
  }
  void ReadLog(const v1::ReadLogResult& log) {
    bench_.Do([&](Turn* turn) { startup_.Begin(turn); });
    bench_.End(bench_.out.ios.at(0).io, absl::OkStatus(), log);
    See();
  }
  void TakeTerm(const absl::Status& status) {
    bench_.End(bench_.out.ios.at(0).io, status, v1::LogEntry());
    See();
  }
  void Advance() {
    bench_.Do([&](Turn* turn) { startup_.Advance(retired_, turn); });
    See();
  }
  // Up to a checkpoint that is being looked for.
  void Recall() {
    ReadLog({});
    TakeTerm(absl::OkStatus());
    Advance();
  }
  void Find(const absl::Status& status, const v1::FindCheckpointResult& found) {
    bench_.End(bench_.out.ios.at(0).io, status, found);
    See();
  }
  absl::StatusOr<StartPlan> Plan(const v1::FindCheckpointResult& found,
                                 const Startup::LoggedMode& logged = {}) {
    absl::StatusOr<StartPlan> plan = absl::UnknownError("");
    bench_.Do([&](Turn* turn) {
      plan = startup_.Plan(found, epochs_, logged, turn);
    });
    return plan;
  }
  v1::FindCheckpointResult CheckpointAt(uint64_t step) const {
    v1::FindCheckpointResult found;
    found.set_path("path");
    v1::Manifest* const manifest = found.mutable_manifest();
    manifest->set_global_step(step);
    *manifest->mutable_snapshot() = Pair(1, 3);
    manifest->mutable_input()->set_next_epoch(1);
    for (const v1::Variable& variable : bench_.options.variables) {
      *manifest->add_variables() = variable;
    }
    return found;
  }
  const v1::FindCheckpoint* Looking() {
    return bench_.out.ios.empty() ? nullptr
                                  : DynamicCastToGenerated<v1::FindCheckpoint>(
                                        bench_.out.ios[0].head.get());
  }

  PartBench bench_;
  Startup startup_;
  const Epochs epochs_{bench_.options.examples, bench_.options.job.epochs()};
  std::vector<v1::SnapshotNumber> retired_;
};

TEST_F(StartupTest, TheTermIsHigherThanAllInTheLog) {
  v1::ReadLogResult log;
  v1::LogEntry& entry = *log.add_entries();
  entry.set_number(7);
  entry.set_run_id("run of the log");
  entry.set_job_digest(bench_.options.job_digest);
  entry.set_term(4);
  ReadLog(log);
  EXPECT_NE(nullptr, bench_.Raised<LogRead>());
  EXPECT_EQ(JobPhase::kTakingTerm, bench_.phase);
  const auto* append =
      DynamicCastToGenerated<v1::AppendLog>(bench_.out.ios.at(0).head.get());
  ASSERT_NE(nullptr, append);
  EXPECT_EQ(5u, append->entry().term());
  EXPECT_EQ(8u, append->entry().number());
  EXPECT_EQ("run of the log", append->entry().run_id());
  EXPECT_EQ(5u, bench_.configuration.get().version().term());
}

TEST_F(StartupTest, AFinishedRunIsNotBegunAgain) {
  v1::ReadLogResult log;
  v1::LogEntry& entry = *log.add_entries();
  entry.set_number(1);
  entry.set_run_id("run");
  entry.set_job_digest(bench_.options.job_digest);
  entry.mutable_finished();
  ReadLog(log);
  EXPECT_NE(nullptr, bench_.Raised<RunFinished>());
  EXPECT_TRUE(bench_.out.ios.empty());
}

TEST_F(StartupTest, WithoutItsTermInTheLogTheProcessEnds) {
  ReadLog({});
  TakeTerm(absl::UnavailableError("no disk"));
  EXPECT_TRUE(bench_.out.exited);
  EXPECT_EQ(JobPhase::kTakingTerm, bench_.phase);
}

TEST_F(StartupTest, NoCheckpointIsLookedForBeforeEveryServerIsRecalled) {
  ReadLog({});
  TakeTerm(absl::OkStatus());
  EXPECT_EQ(JobPhase::kRecalling, bench_.phase);
  bench_.servers[1].suspected = true;
  Advance();
  EXPECT_EQ(nullptr, Looking());
  bench_.servers[1].suspected = false;
  retired_ = {Pair(1, 1)};
  Advance();
  ASSERT_NE(nullptr, Looking());
  EXPECT_EQ(1, Looking()->retired_size());
  EXPECT_EQ(JobPhase::kFindingCheckpoint, bench_.phase);
}

TEST_F(StartupTest, AnEmptyDirectoryBehindARetiredCheckpointIsAnotherOne) {
  retired_ = {Pair(1, 1)};
  Recall();
  Find(absl::OkStatus(), {});
  EXPECT_TRUE(absl::IsUnavailable(bench_.out.exit_status));
  EXPECT_THAT(std::string(bench_.out.exit_status.message()),
              HasSubstr("checkpoint 1.1 was retired"));
}

TEST_F(StartupTest, WhatIsFoundIsRaised) {
  Recall();
  Find(absl::OkStatus(), {});
  EXPECT_NE(nullptr, bench_.Raised<CheckpointFound>());
}

TEST_F(StartupTest, AJobBeginsWithInitialValues) {
  Recall();
  const auto plan = Plan({});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_FALSE(plan->newest.has_value());
  EXPECT_FALSE(plan->takes_over);
  EXPECT_EQ(0u, plan->step);
  EXPECT_EQ(v1::STARTING, plan->configuration.state());
  EXPECT_LT(0, plan->configuration.layout().slices_size());
  EXPECT_EQ(bench_.configuration.get().version(),
            plan->configuration.version());
}

TEST_F(StartupTest, AJobGoesOnBehindItsNewestCheckpoint) {
  Recall();
  const auto plan = Plan(CheckpointAt(7));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_FALSE(plan->takes_over);
  EXPECT_EQ(7u, plan->step);
  EXPECT_EQ("path", plan->path);
}

TEST_F(StartupTest, ServersAreToldWhatTheJobSays) {
  Recall();
  const auto plan = Plan(CheckpointAt(7));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const v1::ServerSettings& told = plan->configuration.server_settings();
  EXPECT_EQ(told.lease_ms(), bench_.options.job.lease_ms());
  EXPECT_EQ(told.finish_timeout_ms(), bench_.options.job.finish_timeout_ms());
  EXPECT_FALSE(told.has_spike_factor()) << "this job leaves it out";
}

class ClippingStartupTest : public StartupTest {
 protected:
  ClippingStartupTest() : StartupTest(Clipping()) {}

 private:
  static CoordinatorOptions Clipping() {
    CoordinatorOptions options = OneVariable();
    options.variables[0].set_shape(0, 10000);
    options.job.mutable_optimizer()->set_clip_norm(1);
    return options;
  }
};

TEST_F(ClippingStartupTest, ABlockWhoseNormIsClippedIsNotCut) {
  Recall();
  const auto plan = Plan({});
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_LT(1u, bench_.options.servers);
  EXPECT_EQ(1, plan->configuration.layout().slices_size());
}

TEST_F(StartupTest, OfOtherVariablesNoStepIsMade) {
  Recall();
  v1::FindCheckpointResult found = CheckpointAt(7);
  found.mutable_warm_start()->set_path("path");
  const auto plan = Plan(found);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ("", plan->path);
  EXPECT_EQ(0u, plan->step);
  EXPECT_TRUE(plan->newest.has_value());
  EXPECT_EQ("path", plan->configuration.warm_start().path());
}

TEST_F(StartupTest, TheModeInTheLogComesBeforeThatOfTheJob) {
  Recall();
  Startup::LoggedMode logged;
  logged.mode.emplace();
  logged.mode->set_mode(v1::Consistency::BOUNDED);
  logged.mode->set_bound(3);
  logged.decay_steps = 99;
  const auto plan = Plan({}, logged);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(3u, plan->configuration.consistency().bound());
  EXPECT_EQ(99u, plan->configuration.decay_steps());
}

TEST_F(StartupTest, TheScaleOfRatesIsThatOfTheLogOrElseOfTheCheckpoint) {
  Recall();
  v1::FindCheckpointResult found = CheckpointAt(7);
  EXPECT_FALSE(Plan(found)->configuration.has_learning_rate_scale());
  found.mutable_manifest()->set_learning_rate_scale(0.5);
  EXPECT_EQ(0.5, Plan(found)->configuration.learning_rate_scale());
  Startup::LoggedMode logged;
  logged.rate_scale = 0.25;
  EXPECT_EQ(0.25, Plan(found, logged)->configuration.learning_rate_scale());
  logged.rate_scale = 1;
  EXPECT_FALSE(Plan(found, logged)->configuration.has_learning_rate_scale());
}

TEST_F(StartupTest, ADamagedCheckpointIsPassedOver) {
  Recall();
  bench_.Do([&](Turn* turn) {
    startup_.PassOver(Pair(1, 3), "path", "ps-0: a bit flipped", retired_,
                      turn);
  });
  ASSERT_NE(nullptr, Looking());
  ASSERT_EQ(1, Looking()->damaged_size());
  EXPECT_EQ(Pair(1, 3), Looking()->damaged(0).snapshot());
  EXPECT_EQ("ps-0: a bit flipped", Looking()->damaged(0).why());
}

TEST_F(StartupTest, WhatMayBeReadLaterIsForTheNextCoordinator) {
  Recall();
  startup_.OnDamageThatMayPass();
  Find(absl::DataLossError("all are damaged"), {});
  EXPECT_TRUE(absl::IsUnavailable(bench_.out.exit_status));
}

TEST_F(StartupTest, TheLayoutIsToldWhenTheLogHasIt) {
  Recall();
  bench_.Do([&](Turn* turn) { startup_.LogLayout({}, turn); });
  See();
  EXPECT_EQ(JobPhase::kLoggingLayout, bench_.phase);
  bench_.End(bench_.out.ios.at(0).io, absl::OkStatus(), v1::LogEntry());
  See();
  EXPECT_EQ(JobPhase::kFilling, bench_.phase);
  Advance();
  EXPECT_EQ(JobPhase::kAdopting, bench_.phase);
}

TEST_F(StartupTest, AJobThatDoesNotBeginEnds) {
  Recall();
  bench_.awaited = "ps-1 to be there";
  const auto check = [&](Turn* turn) { startup_.CheckPatience(turn); };
  bench_.Do(check);
  EXPECT_FALSE(bench_.out.exited);
  bench_.now = bench_.now +
               absl::Milliseconds(bench_.options.job.start_timeout_ms() + 1);
  bench_.Do(check);
  EXPECT_THAT(std::string(bench_.out.exit_status.message()),
              HasSubstr("waiting for ps-1 to be there"));
  startup_.BeginAgain(bench_.now);
  bench_.Do(check);
  EXPECT_FALSE(bench_.out.exited);
}

}  // namespace
}  // namespace paramd
