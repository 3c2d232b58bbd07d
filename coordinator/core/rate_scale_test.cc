#include "coordinator/core/rate_scale.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/core/coordinator.h"
#include "coordinator/core/testing/part_bench.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::paramd::testing::JobOptions;
using ::paramd::testing::PartBench;
using ::paramd::testing::StartedCoordinator;
using ::testing::HasSubstr;

v1::SetRequest Scale(const std::string& value) {
  v1::SetRequest request;
  request.set_key(RateScale::kKey);
  request.set_value(value);
  return request;
}

class RateScaleTest : public ::testing::Test {
 protected:
  RateScaleTest() : RateScaleTest(JobOptions()) {}
  explicit RateScaleTest(const CoordinatorOptions& options) : bench_(options) {
    bench_.configuration.mutable_plan()->mutable_consistency()->set_mode(
        v1::Consistency::ASYNC);
  }

  void Set(const std::string& value) {
    Message message;
    message.call = 5;
    bench_.Do(
        [&](Turn* turn) { rate_scale_.OnSet(message, Scale(value), turn); });
  }
  void Advance() {
    bench_.Do([&](Turn* turn) { rate_scale_.Advance(turn); });
  }
  // What is being logged is.
  void Log() {
    ASSERT_EQ(bench_.out.ios.size(), 1u);
    bench_.End(bench_.out.ios[0].io, absl::OkStatus(), v1::AppendLog());
  }
  void ServersHave(const v1::ConfigurationVersion& version) {
    for (ServerRecord& server : bench_.servers) server.acknowledged = version;
  }
  double Told() const { return RateScaleOf(bench_.configuration.get()); }
  bool IsAnswered() const { return !bench_.out.replies.empty(); }
  // What whoever asked was answered in the last turn.
  absl::Status Answer() const { return bench_.out.replies.at(0).status; }

  PartBench bench_;
  RateScale rate_scale_;
};

TEST_F(RateScaleTest, ItHoldsWhenTheLogHasItAndIsAnsweredWhenAllServersDo) {
  ServersHave(bench_.configuration.get().version());
  Set("0.25");
  EXPECT_FALSE(IsAnswered());
  EXPECT_EQ(Told(), 1);
  Log();
  EXPECT_EQ(Told(), 0.25);
  EXPECT_EQ(rate_scale_.logged(), 0.25);
  EXPECT_FALSE(IsAnswered());
  ServersHave(bench_.configuration.get().version());
  Advance();
  ASSERT_TRUE(IsAnswered());
  EXPECT_TRUE(Answer().ok());
  Advance();
  EXPECT_FALSE(IsAnswered()) << "once";
}

TEST_F(RateScaleTest, AnotherOneWaitsForTheFirst) {
  Set("0.25");
  Set("0.5");
  EXPECT_EQ(RefusalOf(Answer()).reason(), v1::Refusal::RETRY);
  EXPECT_THAT(std::string(Answer().message()),
              HasSubstr("waiting for learning_rate_scale to become 0.25"));
}

TEST_F(RateScaleTest, WhatHoldsAlreadyIsNotLogged) {
  Set("1");
  EXPECT_TRUE(bench_.out.ios.empty());
  ASSERT_TRUE(IsAnswered());
  EXPECT_TRUE(Answer().ok());
}

TEST_F(RateScaleTest, InSyncModeServersHearOfItBetweenTwoSteps) {
  bench_.configuration.mutable_plan()->mutable_consistency()->set_mode(
      v1::Consistency::SYNC);
  bench_.progress.between_steps = false;
  Set("0");
  EXPECT_FALSE(rate_scale_.HoldsSteps());
  Log();
  EXPECT_TRUE(rate_scale_.HoldsSteps()) << "so that the open one is the last";
  EXPECT_EQ(Told(), 1);
  bench_.progress.between_steps = true;
  ServersHave(bench_.configuration.get().version());
  Advance();
  EXPECT_EQ(Told(), 0);
  EXPECT_TRUE(rate_scale_.HoldsSteps());
  ServersHave(bench_.configuration.get().version());
  Advance();
  EXPECT_TRUE(IsAnswered());
  EXPECT_FALSE(rate_scale_.HoldsSteps());
}

TEST_F(RateScaleTest, WhatIsNoScaleIsRefusedAndChangesNothing) {
  for (const char* const wrong :
       {"-0.1", "nan", "inf", "1000001", "", "half", "1,5"}) {
    Set(wrong);
    ASSERT_TRUE(IsAnswered()) << wrong;
    EXPECT_EQ(RefusalOf(Answer()).reason(), v1::Refusal::INVALID) << wrong;
    EXPECT_THAT(std::string(Answer().message()),
                HasSubstr("needs a number from 0 to 1000000"));
    EXPECT_TRUE(bench_.out.ios.empty());
  }
}

TEST_F(RateScaleTest, OfAJobThatIsOverThereIsNoRate) {
  bench_.phase = JobPhase::kTellingEnd;
  Set("0.5");
  EXPECT_EQ(RefusalOf(Answer()).reason(), v1::Refusal::JOB_FINISHED);
  bench_.phase = JobPhase::kFilling;
  Set("0.5");
  EXPECT_EQ(RefusalOf(Answer()).reason(), v1::Refusal::RETRY);
}

TEST(RateScaleStrategiesTest, CopiesOfTheVariablesHaveAnOptimizerEach) {
  for (const bool several : {false, true}) {
    CoordinatorOptions options = JobOptions();
    options.job.set_strategy(v1::JobConfig::MIRRORED);
    options.job.set_replicas(several ? 2 : 1);
    PartBench bench(options);
    RateScale rate_scale;
    bench.Do([&](Turn* turn) { rate_scale.OnSet({}, Scale("0.5"), turn); });
    EXPECT_EQ(bench.out.replies.size(), several ? 1u : 0u);
    if (!several) continue;
    EXPECT_THAT(std::string(bench.out.replies[0].status.message()),
                HasSubstr("strategy \"mirrored\", under which each copy"));
  }
}

// ---- over the job's life ----------------------------------------------------

TEST(RateScaleOfAJobTest, ARunGoesOnWithWhatTheLogHas) {
  StartedCoordinator started(JobOptions());
  started.Run();
  started.Serve();
  const CallId call = started.driver().Begin(PeerId{}, Scale("0.125"));
  const v1::LogEntry entry = started.Append();
  EXPECT_EQ(entry.learning_rate_scale(), 0.125);
  started.Serve();
  EXPECT_EQ(started.configuration().learning_rate_scale(), 0.125);
  EXPECT_TRUE(started.driver().Take(call).status.ok());
  v1::StatusReply status;
  started.core().FillStatus(&status);
  EXPECT_EQ(status.job().learning_rate_scale(), 0.125);
}

}  // namespace
}  // namespace paramd
