#include "config/growing_input.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "config/job_config.h"
#include "config/setting_value.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kTopicJob[] = R"({
  "name": "clicks",
  "input": {
    "train": {"kafka": {"brokers": "kafka-0:9092", "topic": "clicks",
                        "columns": ["ad", "click"],
                        "properties": ["sasl.password=hunter2"]},
              "csv": {"label": "click", "columns": "ad"}},
    "test": {"csv": {"files": "/test.csv", "label": "click", "columns": "ad"}}
  },
  "model": {"layers": [{"dense": 2}], "loss": "softmax_cross_entropy"},
  "optimizer": {"adam": {}, "learning_rate": 0.001}
})";

JobSources OfTopic() {
  JobSources sources;
  sources.file = "topic.json";
  sources.text = kTopicJob;
  return sources;
}

std::string MistakesOf(const JobSources& sources) {
  return std::string(LoadJob(sources).status().message());
}

TEST(TopicConfigTest, ATopicIsFollowedEachMinuteForAsLongAsItGrows) {
  JobSources sources = OfTopic();
  const absl::StatusOr<LoadedJob> job = LoadJob(sources);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->config.epochs(), 1000000u);
  EXPECT_EQ(job->config.input().follow().poll_ms(), 60000u);
  EXPECT_TRUE(job->config.input().train().csv().header());
  sources.settings = {{"input.follow.poll_ms", "50"},
                      {"input.train.kafka.columns", "[]"},
                      {"input.train.csv.columns", "0"},
                      {"input.train.csv.label", "1"}};
  const absl::StatusOr<LoadedJob> other = LoadJob(sources);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->config.input().follow().poll_ms(), 50u);
  EXPECT_FALSE(other->config.input().train().csv().header())
      << "columns are named by their places";
}

TEST(TopicConfigTest, AJoinHasAWindowOfTimeAndOfMessages) {
  JobSources sources = OfTopic();
  sources.settings = {{"input.train.kafka.join", R"({"click": "click,"})"}};
  const absl::StatusOr<LoadedJob> job = LoadJob(sources);
  ASSERT_TRUE(job.ok()) << job.status();
  const auto& join = job->config.input().train().kafka().join();
  EXPECT_EQ(join.label(), "label");
  EXPECT_EQ(join.window_ms(), 600000u);
  EXPECT_EQ(join.window_messages(), 100000u);
}

TEST(TopicConfigTest, WhereItsBrokersAreIsOfEachProcess) {
  JobSources sources = OfTopic();
  const std::string digest = LoadJob(sources)->digest;
  sources.settings = {{"input.train.kafka.brokers", "localhost:1"},
                      {"input.train.kafka.properties", "[]"}};
  EXPECT_EQ(LoadJob(sources)->digest, digest);
  sources.settings = {{"input.train.kafka.topic", "views"}};
  EXPECT_NE(LoadJob(sources)->digest, digest);
}

TEST(TopicConfigTest, ValuesOfPropertiesArePrintedNowhere) {
  const absl::StatusOr<LoadedJob> job = LoadJob(OfTopic());
  ASSERT_TRUE(job.ok()) << job.status();
  for (const SettingValue& value : ValuesOf(job->config)) {
    EXPECT_THAT(value.json, Not(HasSubstr("hunter2"))) << value.path;
  }
  JobSources sources = OfTopic();
  sources.settings = {{"input.train.kafka.properties", "hunter2"}};
  EXPECT_EQ(MistakesOf(sources),
            "--set: input.train.kafka.properties[0]: is not name=value");
  sources.settings = {
      {"input.train.kafka.properties", "[\"sasl.password=hunter2]"}};
  EXPECT_EQ(MistakesOf(sources),
            "--set: input.train.kafka.properties: is not valid JSON");
  const std::string broken = "{\"properties\": [\"sasl.password=hunter2]}";
  sources.settings = {{"input.train.kafka", broken}};
  EXPECT_THAT(MistakesOf(sources),
              HasSubstr("--set: input.train.kafka: is not valid JSON"));
  EXPECT_THAT(MistakesOf(sources), Not(HasSubstr("hunter2")));
  sources.settings = {{"input", "{\"train\": {\"kafka\": " + broken + "}}"}};
  EXPECT_THAT(MistakesOf(sources),
              HasSubstr("--input: input: is not valid JSON"));
  EXPECT_THAT(MistakesOf(sources), Not(HasSubstr("hunter2")));
  sources = OfTopic();
  sources.text->insert(sources.text->find("hunter2") + 7, "\" \"");
  EXPECT_THAT(MistakesOf(sources), HasSubstr("topic.json:6: not valid JSON: "));
  EXPECT_THAT(MistakesOf(sources), Not(HasSubstr("hunter2")));
}

TEST(TopicConfigTest, WhatDoesNotGoWithATopicIsSaidInOneSentence) {
  struct Mistake {
    std::string path;
    std::string value;
    std::string sentence;
  };
  const std::vector<Mistake> mistakes = {
      {"input.train.kafka.brokers", "\"\"",
       "input.train.kafka.brokers: is empty; give addresses, as in "
       "\"kafka-0:9092,kafka-1:9092\""},
      {"input.train.kafka.topic", "click log",
       "input.train.kafka.topic: \"click log\" is not a topic's name"},
      {"input.train.kafka.from", "oldest", "must be one of earliest, latest"},
      {"input.train.kafka.epoch_messages", "0", "must be at least 1"},
      {"input.train.kafka.join", R"({"click": ""})",
       "input.train.kafka.join.click: is empty, so every message would be a "
       "click"},
      {"input.train.kafka.join", R"({"window_ms": 1000})",
       "input.train.kafka.join.click: is missing"},
      {"input.train.kafka.join",
       R"({"click": "click,", "window_messages": 2000000})",
       "must be at most 1048576"},
      {"input.train.csv.files", "a.csv",
       "input.train.csv.files: conflicts with kafka"},
      {"input.train.csv.header", "false",
       "input.train.csv.header: is false, so columns are named by their "
       "places"},
      {"input.train.directory", "/data",
       "input.train.directory: means nothing beside kafka"},
      {"input.follow.end_file", "_SUCCESS",
       "input.follow.end_file: means nothing to a topic"},
      {"staleness", "sync", "\"sync\" does not go with input.train.kafka"},
      {"input.test", R"({"kafka": {"brokers": "a:1", "topic": "b"},
                         "csv": {"label": "click"}})",
       "input.test.kafka: is a topic; only input.train itself may be one"},
      {"input.train", R"({"kafka": {"brokers": "a:1", "topic": "b"},
                          "synthetic": {"examples": 9, "features": "x"}})",
       "input.train.kafka: needs csv, libsvm or tfrecord beside it"},
      {"input.train", R"({"kafka": {"brokers": "a:1", "topic": "b"},
                          "csv": {"label": "0"}})",
       "input.train.kafka.columns: is missing; a message has no header"},
      {"input.train", R"({"kafka": {"brokers": "a:1", "topic": "b",
                                    "columns": "x"},
                          "libsvm": {"columns": 3}})",
       "input.train.kafka.columns: names columns, which only csv reads"},
      {"input.train", R"({"kafka": {"brokers": "a:1", "topic": "b"},
                          "libsvm": {}})",
       "libsvm.columns: is missing; with input.train.kafka nobody knows"},
      {"input.train", R"({"zip": {"sources": [{"csv": {"files": "a"}},
          {"kafka": {"brokers": "a:1", "topic": "b"}, "csv": {}}]}})",
       "input.train.zip.sources[1].kafka: is a topic; only input.train"},
      {"input.train", R"({"kafka": {"brokers": "a:1"}, "csv": {}})",
       "input.train.kafka.topic: is missing"},
      {"input.train", R"({"csv": {"label": "click"}})",
       "input.train.csv.files: is missing; give it"},
  };
  for (const Mistake& mistake : mistakes) {
    JobSources sources = OfTopic();
    sources.settings = {{mistake.path, mistake.value}};
    EXPECT_THAT(MistakesOf(sources), HasSubstr(mistake.sentence))
        << mistake.path << " = " << mistake.value;
  }
}

}  // namespace
}  // namespace paramd
