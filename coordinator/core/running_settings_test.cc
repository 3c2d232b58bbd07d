#include "coordinator/core/running_settings.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/core/coordinator.h"
#include "coordinator/core/testing/part_bench.h"
#include "coordinator/core/testing/started_coordinator.h"
#include "proto/refusal.h"
#include "proto/running_setting.h"

namespace paramd {
namespace {

using ::paramd::testing::JobOptions;
using ::paramd::testing::PartBench;
using ::paramd::testing::StartedCoordinator;
using ::testing::HasSubstr;

v1::SetRequest ToSet(const std::string& key, const std::string& value) {
  v1::SetRequest request;
  request.set_key(key);
  request.set_value(value);
  request.mutable_origin()->set_who("operator/0");
  return request;
}

class RunningSettingsTest : public ::testing::Test {
 protected:
  void Set(const std::string& key, const std::string& value) {
    Message message;
    message.call = 5;
    bench_.Do(
        [&](Turn* turn) { settings_.OnSet(message, ToSet(key, value), turn); });
  }
  void Advance() {
    bench_.Do([&](Turn* turn) { settings_.Advance(turn); });
  }
  void Log() {
    ASSERT_EQ(bench_.out.ios.size(), 1u);
    bench_.End(bench_.out.ios[0].io, absl::OkStatus(), v1::AppendLog());
  }
  bool IsAnswered() const { return !bench_.out.replies.empty(); }

  PartBench bench_{JobOptions()};
  RunningSettings settings_;
};

TEST_F(RunningSettingsTest, ItHoldsWhenTheLogHasItAndIsAnsweredWhenAllKnow) {
  Set("checkpoint.every_steps", "50");
  EXPECT_FALSE(IsAnswered());
  EXPECT_EQ(
      RunningSetting(bench_.configuration.get(), "checkpoint.every_steps"), "");
  Log();
  EXPECT_EQ(
      RunningSetting(bench_.configuration.get(), "checkpoint.every_steps"),
      "50");
  ASSERT_NE(bench_.Raised<SettingChanged>(), nullptr);
  for (ServerRecord& server : bench_.servers) {
    server.acknowledged = v1::ConfigurationVersion();
  }
  Advance();
  EXPECT_FALSE(IsAnswered());
  for (ServerRecord& server : bench_.servers) {
    server.acknowledged = bench_.configuration.get().version();
  }
  Advance();
  ASSERT_TRUE(IsAnswered());
  const auto& reply =
      static_cast<const v1::SetReply&>(*bench_.out.replies[0].head);
  EXPECT_EQ(reply.old_value(), "0");
  EXPECT_EQ(reply.value(), "50");
  Set("checkpoint.every_steps", "60");
  Log();
  for (ServerRecord& server : bench_.servers) {
    server.acknowledged = bench_.configuration.get().version();
  }
  Advance();
  ASSERT_TRUE(IsAnswered());
  EXPECT_EQ(
      static_cast<const v1::SetReply&>(*bench_.out.replies[0].head).old_value(),
      "50");
}

TEST_F(RunningSettingsTest, WhatTheJobFileWouldNotTakeIsRefusedWithTheBounds) {
  const struct {
    std::string key, value, sentence;
  } cases[] = {
      {"checkpoint.every_steps", "-1",
       "checkpoint.every_steps needs a whole number, at least 0, at most "
       "1000000000000; found \"-1\""},
      {"checkpoint.every_steps", "1000000000001", "at most 1000000000000"},
      {"checkpoint.every_seconds", "31536001", "at most 31536000"},
      {"checkpoint.every_seconds", "5000000000", "at most 31536000"},
      {"checkpoint.every_seconds", "1.5", "a whole number"},
      {"checkpoint.every_seconds", "", "a whole number"},
      {"log_level", "loud",
       "log_level needs one of debug, info, warning, error; found \"loud\""},
  };
  for (const auto& wrong : cases) {
    Set(wrong.key, wrong.value);
    ASSERT_TRUE(IsAnswered()) << wrong.value;
    const absl::Status& refused = bench_.out.replies[0].status;
    EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::INVALID);
    EXPECT_THAT(std::string(refused.message()), HasSubstr(wrong.sentence));
    EXPECT_TRUE(bench_.out.ios.empty());
  }
}

TEST_F(RunningSettingsTest, ToRebalanceAJobNeedsRoomInEachPs) {
  Set("rebalance", "true");
  ASSERT_TRUE(IsAnswered());
  EXPECT_EQ(bench_.out.replies[0].status.message(),
            "rebalance needs a job that was started with scalable; found "
            "\"true\"");
  Set("rebalance", "yes");
  ASSERT_TRUE(IsAnswered());
  EXPECT_THAT(std::string(bench_.out.replies[0].status.message()),
              HasSubstr("rebalance needs true or false; found \"yes\""));
  Set("rebalance", "false");
  Log();
  EXPECT_EQ(RunningSetting(bench_.configuration.get(), "rebalance"), "false");
}

TEST_F(RunningSettingsTest, AnotherOneWaitsForTheFirst) {
  Set("checkpoint.every_steps", "50");
  Set("log_level", "debug");
  ASSERT_TRUE(IsAnswered());
  EXPECT_EQ(RefusalOf(bench_.out.replies[0].status).reason(),
            v1::Refusal::RETRY);
}

TEST_F(RunningSettingsTest,
       WhatWasMadeBeforeAChangeAndIsWrittenAfterItIsOlder) {
  v1::SettingChange info;
  info.set_key("log_level");
  info.set_value("info");
  v1::SettingChange debug = info;
  debug.set_value("debug");
  v1::LogEntry entry;
  *entry.mutable_setting() = info;
  settings_.Read(entry);
  *entry.mutable_setting() = debug;
  settings_.Read(entry);
  // Contributors of steps, proposed while `debug` was being logged.
  v1::LogEntry contributors;
  *contributors.mutable_configuration()->add_settings() = info;
  settings_.Read(contributors);
  v1::Configuration next;
  settings_.Fill(&next);
  EXPECT_EQ(RunningSetting(next, "log_level"), "debug");
}

TEST(RunningSettingsSentenceTest, EachThatCanBeSetIsNamed) {
  const std::string sentence = RunningSettings::CannotSentence("seed");
  for (const char* const key : {"log_level", "checkpoint.every_steps",
                                "checkpoint.every_seconds", "rebalance"}) {
    EXPECT_TRUE(RunningSettings::Has(key));
    EXPECT_THAT(sentence, HasSubstr(key));
  }
  EXPECT_FALSE(RunningSettings::Has("seed"));
}

// ---- over the job's life ----------------------------------------------------

TEST(RunningSettingsOfAJobTest, TheNextCoordinatorHasWhatWasSetAndWhoSetIt) {
  v1::ReadLogResult log;
  {
    StartedCoordinator started(JobOptions());
    started.Run();
    started.Serve();
    const struct {
      std::string key, value;
    } settings[] = {{"log_level", "debug"},
                    {"learning_rate_scale", "0.5"},
                    {"checkpoint.every_seconds", "7"},
                    {"staleness", "3"}};
    uint64_t number = 0;
    for (const auto& [key, value] : settings) {
      started.driver().Begin(PeerId{}, ToSet(key, value));
      v1::LogEntry* const entry = log.add_entries();
      *entry = started.Append();
      entry->set_number(++number);
      started.Serve();
    }
  }
  StartedCoordinator next(JobOptions());
  next.ReadLog(log);
  next.Append();
  next.Serve();
  next.FindCheckpoint();
  next.Append();
  next.Serve();
  v1::StatusReply status;
  next.core().FillStatus(&status);
  ASSERT_EQ(status.job().settings_size(), 4);
  for (const v1::SettingChange& setting : status.job().settings()) {
    EXPECT_EQ(setting.origin().who(), "operator/0") << setting.key();
  }
  EXPECT_EQ(RunningSetting(next.configuration(), "log_level"), "debug");
  EXPECT_EQ(RunningSetting(next.configuration(), "learning_rate_scale"), "0.5");
  EXPECT_EQ(RunningSetting(next.configuration(), "staleness"), "3");
  EXPECT_EQ(status.job().staleness(), "3");
  // Workers push, and seven seconds later there is a checkpoint.
  StartedCoordinator::Worker worker = next.Join(0);
  next.Serve();
  next.CatchUp(&worker);
  worker.beat.mutable_header()->set_sequence(1);
  next.Beat(&worker);
  next.driver().Advance(absl::Seconds(6));
  EXPECT_FALSE(next.driver().TakeIo<v1::PrepareCheckpoint>().has_value());
  next.Serve();
  next.driver().Advance(absl::Seconds(2));
  next.Serve();
  next.driver().Advance(absl::Seconds(1));
  EXPECT_TRUE(next.driver().TakeIo<v1::PrepareCheckpoint>().has_value());
}

}  // namespace
}  // namespace paramd
