#include "input/topic_epoch.h"

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "input/growing_source.h"
#include "input/open_pipeline.h"
#include "input/pipeline.h"
#include "input/testing/fake_topic.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kCsv[] = R"(
    kafka { topic: "clicks" columns: "ad" columns: "click" on_gone: ON_GONE_FAIL }
    csv { label: "click" columns: "ad" name: "ad" separator: "," header: true
          classes: 2 })";

class TopicEpochTest : public ::testing::Test {
 protected:
  // A pipeline of the fake topic, with nothing between it and the batch.
  void Open(const std::string& train, const std::string& input = "") {
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(train, &train_));
    v1::InputConfig config;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(input, &config));
    config.add_stages()->mutable_prefetch();
    auto topic = std::make_unique<FakeTopic>(2);
    topic_ = topic.get();
    auto source = GrowingSource::Create(train_, std::move(topic));
    ASSERT_TRUE(source.ok()) << source.status();
    source_ = source->get();
    auto pipeline =
        Pipeline::Create(*std::move(source), config, {.training = true});
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    pipeline_ = *std::move(pipeline);
  }
  void Tell(
      uint32_t epoch,
      const std::vector<std::pair<uint64_t, uint64_t>>& ranges_by_partition) {
    v1::EpochFiles files;
    files.set_epoch(epoch);
    for (size_t p = 0; p < ranges_by_partition.size(); ++p) {
      const auto [begin, end] = ranges_by_partition[p];
      auto* const partition = files.add_partitions();
      partition->set_number(static_cast<uint32_t>(p));
      partition->set_begin(begin);
      partition->set_end(end);
      partition->set_clicks_end(std::max(end, clicks_end_));
      files.set_examples(files.examples() + end - begin);
    }
    source_->Tell(files);
  }
  absl::Status Read(uint64_t epoch, uint64_t begin, uint64_t end) {
    return pipeline_->Read({.epoch = epoch, .begin = begin, .end = end},
                           &batch_);
  }
  // The first feature of the batch.
  std::vector<float> Values() {
    const auto values = batch_.columns[0].values<float>();
    return {values.begin(), values.end()};
  }

  v1::InputSource train_;
  FakeTopic* topic_ = nullptr;  // The source's.
  GrowingSource* source_ = nullptr;
  std::unique_ptr<Pipeline> pipeline_;
  Batch batch_;
  uint64_t clicks_end_ = 0;  // Of each partition; 0: where the epoch ends.
};

TEST_F(TopicEpochTest, AnExampleIsAMessageOfOnePartitionBehindTheOther) {
  Open(kCsv);
  for (const char* text : {"1,0", "2,1\n", "3,0\r\n"}) topic_->Add(0, text);
  for (const char* text : {"7,0", "8,1"}) topic_->Add(1, text);
  Tell(1, {{1, 3}, {0, 2}});
  EXPECT_EQ(source_->SizeIn(1), 4u);
  EXPECT_THAT(source_->FileStartsIn(1), ElementsAre(0, 2));
  ASSERT_TRUE(Read(1, 0, 4).ok());
  EXPECT_THAT(Values(), ElementsAre(2, 3, 7, 8));
}

TEST_F(TopicEpochTest, MessagesAreFetchedOnceAndOnlyWhereTheyAreRead) {
  Open(kCsv);
  for (int i = 0; i < 10000; ++i) topic_->Add(0, "1,0");
  topic_->Add(1, "2,0");
  Tell(1, {{0, 10000}, {0, 1}});
  ASSERT_TRUE(Read(1, 0, 1).ok());
  ASSERT_TRUE(Read(1, 4000, 4001).ok());
  EXPECT_EQ(topic_->reads(), 1);
  ASSERT_TRUE(Read(1, 9999, 10001).ok());
  EXPECT_THAT(Values(), ElementsAre(1, 2));
  EXPECT_EQ(topic_->reads(), 3);
}

TEST_F(TopicEpochTest, AnOffsetWithoutAMessageMakesTheBatchSmaller) {
  Open(kCsv);
  topic_->Add(0, "1,0");
  topic_->AddGap(0, 2);
  topic_->Add(0, "4,1");
  topic_->AddGap(0);
  Tell(1, {{0, 5}});
  ASSERT_TRUE(Read(1, 0, 5).ok());
  EXPECT_THAT(Values(), ElementsAre(1, 4));
  EXPECT_EQ(source_->counters().empty_offsets, 3u);
  ASSERT_TRUE(Read(1, 1, 3).ok());
  EXPECT_THAT(Values(), IsEmpty());
}

TEST_F(TopicEpochTest, AMessageThatCannotBeReadIsNamedByPartitionAndOffset) {
  Open(kCsv);
  topic_->Add(0, "1,0");
  topic_->AddGap(1, 3);
  topic_->Add(1, "x,0");
  topic_->Add(1, "1,0,2");
  topic_->Add(1, "");
  Tell(1, {{0, 1}, {0, 6}});
  EXPECT_EQ(Read(1, 4, 5).message(),
            "topic 'clicks' partition 1 offset 3: column 'ad' needs a number; "
            "found 'x'");
  EXPECT_TRUE(absl::IsDataLoss(Read(1, 4, 5)));
  EXPECT_EQ(Read(1, 5, 6).message(),
            "topic 'clicks' partition 1 offset 4: has 3 columns; 2 are needed");
  EXPECT_THAT(std::string(Read(1, 6, 7).message()),
              HasSubstr("topic 'clicks' partition 1 offset 5: "));
}

TEST_F(TopicEpochTest, AQuoteThatDoesNotEndIsOfItsMessageAlone) {
  Open(kCsv);
  topic_->Add(0, "\"1,0");
  topic_->Add(0, "2,1");
  Tell(1, {{0, 2}});
  EXPECT_THAT(std::string(Read(1, 0, 1).message()),
              HasSubstr("topic 'clicks' partition 0 offset 0: "));
  ASSERT_TRUE(Read(1, 1, 2).ok());
  EXPECT_THAT(Values(), ElementsAre(2));
}

TEST_F(TopicEpochTest, MessagesThatCannotBeReadAreSkippedWhereTheJobSaysSo) {
  Open(kCsv, "on_error: ON_ERROR_SKIP");
  topic_->Add(0, "x,0");
  topic_->Add(0, "2,1");
  Tell(1, {{0, 2}});
  ASSERT_TRUE(Read(1, 0, 2).ok());
  EXPECT_THAT(Values(), ElementsAre(2));
  EXPECT_EQ(pipeline_->skipped(), 1u);
}

TEST_F(TopicEpochTest, DeletedMessagesAreAnErrorThatNoSkippingHides) {
  Open(kCsv, "on_error: ON_ERROR_SKIP");
  for (int i = 0; i < 4; ++i) topic_->Add(0, "1,0");
  topic_->Delete(0, 3);
  Tell(1, {{1, 4}});
  EXPECT_EQ(Read(1, 0, 3).message(),
            "topic 'clicks' has deleted offsets 1 to 2 of partition 0 before "
            "they were read; to go on without them, give input.train.kafka "
            "\"on_gone\": \"skip\"");
}

TEST_F(TopicEpochTest, DeletedMessagesAreSkippedAndCounted) {
  std::string train = kCsv;
  train.replace(train.find("ON_GONE_FAIL"), 12, "ON_GONE_SKIP");
  Open(train);
  for (int i = 0; i < 4; ++i) topic_->Add(0, "9,0");
  topic_->Delete(0, 3);
  Tell(1, {{1, 4}});
  ASSERT_TRUE(Read(1, 0, 3).ok());
  EXPECT_THAT(Values(), ElementsAre(9));
  EXPECT_EQ(source_->counters().gone_messages, 2u);
  EXPECT_EQ(source_->counters().empty_offsets, 0u);
}

TEST_F(TopicEpochTest, AnEpochThatDoesNotGoTogetherIsRefused) {
  Open(kCsv);
  v1::EpochFiles files;
  files.set_epoch(1);
  files.set_examples(3);
  files.add_partitions()->set_end(2);
  source_->Tell(files);
  EXPECT_EQ(Read(1, 0, 1).message(),
            "epoch 1 has 3 examples, and its partitions 2");
  files.set_epoch(2);
  files.mutable_partitions(0)->set_begin(7);
  source_->Tell(files);
  EXPECT_FALSE(Read(2, 0, 1).ok());
}

// ---- labels that come later -------------------------------------------------

constexpr char kJoined[] = R"(
    kafka { topic: "clicks" columns: "ad" columns: "click"
            join { click: "click," label: "label" window_ms: 1000
                   window_messages: 100 } }
    csv { label: "click" columns: "ad" name: "ad" separator: "," header: true
          classes: 2 })";

class JoinedEpochTest : public TopicEpochTest {
 protected:
  // Some examples, of which those with the ads 2 and 4 are clicked.
  void AddMessages() {
    topic_->AddKeyed(0, "a", 0, "1,1");
    topic_->AddKeyed(0, "b", 10, "2,0");
    topic_->AddKeyed(0, "c", 20, "3,0");
    topic_->AddKeyed(0, "b", 30, "click,");
    topic_->AddKeyed(0, "d", 40, "4,0");
    topic_->AddKeyed(0, "a", 1500, "click,");
    topic_->AddKeyed(0, "d", 900, "click,");
    topic_->AddKeyed(0, "x", 900, "click,");
  }
  // "2=1" of each example of the batch.
  std::vector<std::string> Labelled() {
    const auto labels = batch_.columns[1].values<int32_t>();
    std::vector<std::string> labelled;
    for (size_t i = 0; i < labels.size(); ++i) {
      labelled.push_back(absl::StrCat(Values()[i], "=", labels[i]));
    }
    return labelled;
  }
};

TEST_F(JoinedEpochTest, AnExampleHasTheLabelOfItsClick) {
  Open(kJoined);
  AddMessages();
  Tell(1, {{0, 8}});
  ASSERT_TRUE(Read(1, 0, 8).ok());
  EXPECT_THAT(Labelled(), ElementsAre("1=0", "2=1", "3=0", "4=1"));
  EXPECT_EQ(source_->counters().joined_clicks, 2u);
  EXPECT_EQ(source_->counters().late_clicks, 1u);
  EXPECT_EQ(source_->counters().stray_clicks, 1u);
  EXPECT_EQ(source_->counters().empty_offsets, 0u);
}

TEST_F(JoinedEpochTest, AnEpochSeesClicksBehindItsEnd) {
  clicks_end_ = 8;
  Open(kJoined);
  AddMessages();
  Tell(1, {{0, 3}});
  Tell(2, {{3, 8}});
  ASSERT_TRUE(Read(1, 0, 3).ok());
  EXPECT_THAT(Labelled(), ElementsAre("1=0", "2=1", "3=0"));
  ASSERT_TRUE(Read(2, 0, 5).ok());
  EXPECT_THAT(Labelled(), ElementsAre("4=1"));
  EXPECT_EQ(source_->counters().joined_clicks, 2u);
}

// The process that goes on finds more messages than the first one did.
TEST_F(JoinedEpochTest, Promise1_ARestartInTheMiddleGivesTheSameExamples) {
  const auto tell = [this] {
    clicks_end_ = 4;
    Tell(1, {{0, 3}});
    clicks_end_ = 7;
    Tell(2, {{3, 6}});
  };
  Open(kJoined);
  AddMessages();
  tell();
  std::vector<std::string> all;
  for (uint64_t epoch : {1, 2}) {
    ASSERT_TRUE(Read(epoch, 0, 3).ok());
    for (const std::string& one : Labelled()) all.push_back(one);
  }
  EXPECT_THAT(all, ElementsAre("1=0", "2=1", "3=0", "4=1"));
  for (uint64_t middle = 0; middle <= 3; ++middle) {
    Open(kJoined);
    AddMessages();
    topic_->AddKeyed(0, "c", 50, "click,");
    tell();
    std::vector<std::string> again;
    for (const auto& [epoch, begin, end] :
         std::vector<std::tuple<uint64_t, uint64_t, uint64_t>>{
             {2, middle, 3}, {1, middle, 3}, {1, 0, middle}, {2, 0, middle}}) {
      if (begin == end) continue;
      ASSERT_TRUE(Read(epoch, begin, end).ok());
      for (const std::string& one : Labelled()) again.push_back(one);
    }
    EXPECT_THAT(again, ::testing::UnorderedElementsAreArray(all)) << middle;
  }
}

TEST_F(JoinedEpochTest, AMessageWithoutAKeyIsNamed) {
  Open(kJoined);
  topic_->Add(0, "1,0");
  Tell(1, {{0, 1}});
  EXPECT_EQ(Read(1, 0, 1).message(),
            "topic 'clicks' partition 0 offset 0: has no key, by which "
            "input.train.kafka.join finds its click");
  EXPECT_TRUE(absl::IsDataLoss(Read(1, 0, 1)));
}

TEST_F(JoinedEpochTest, AnEpochThatDoesNotSayWhereItsClicksAreIsRefused) {
  Open(kJoined);
  v1::EpochFiles files;
  files.set_epoch(1);
  files.set_examples(2);
  files.add_partitions()->set_end(2);
  source_->Tell(files);
  EXPECT_EQ(Read(1, 0, 1).message(),
            "epoch 1 looks for clicks among the offsets 0 to 0 of partition 0, "
            "which do not enclose 0 to 2");
}

TEST_F(JoinedEpochTest, ALabelThatExamplesDoNotHaveIsRefusedAtTheStart) {
  google::protobuf::TextFormat::ParseFromString(kJoined, &train_);
  train_.mutable_kafka()->mutable_join()->set_label("click");
  const auto source =
      GrowingSource::Create(train_, std::make_unique<FakeTopic>(1));
  EXPECT_THAT(std::string(source.status().message()),
              HasSubstr("input.train.kafka.join.label is 'click', which "
                        "examples do not have"));
}

// ---- other forms of a message -----------------------------------------------

TEST_F(TopicEpochTest, ColumnsWithoutNamesAreCalledByTheirPlaces) {
  Open(R"(kafka { topic: "clicks" }
          csv { label: "0" columns: "1-2" name: "x" separator: "tab"
                header: false classes: 2 })");
  topic_->Add(0, "1\t5\t6");
  topic_->Add(0, "1\t5");
  Tell(1, {{0, 2}});
  ASSERT_TRUE(Read(1, 0, 1).ok());
  EXPECT_THAT(Values(), ElementsAre(5, 6));
  EXPECT_THAT(std::string(Read(1, 1, 2).message()),
              HasSubstr("has 2 columns; 3 are needed"));
}

TEST_F(TopicEpochTest, AColumnThatMessagesLackIsRefusedAtTheStart) {
  google::protobuf::TextFormat::ParseFromString(kCsv, &train_);
  train_.mutable_csv()->set_columns(0, "user");
  const auto source =
      GrowingSource::Create(train_, std::make_unique<FakeTopic>(1));
  EXPECT_THAT(std::string(source.status().message()), HasSubstr("'user'"));
}

TEST_F(TopicEpochTest, AMessageIsALineOfLibSvm) {
  Open(R"(kafka { topic: "clicks" }
          libsvm { columns: 3 first_index: 1 classes: 2 name: "x" })");
  topic_->Add(0, "1 2:5 3:6");
  topic_->Add(0, "# nothing");
  Tell(1, {{0, 2}});
  ASSERT_TRUE(Read(1, 0, 1).ok());
  EXPECT_THAT(Values(), ElementsAre(0, 5, 6));
  EXPECT_EQ(Read(1, 1, 2).message(),
            "topic 'clicks' partition 0 offset 1: has no label");
}

TEST_F(TopicEpochTest, AMessageIsATfExampleWithoutAFrame) {
  Open(R"(kafka { topic: "clicks" }
          tfrecord { features { name: "x" type: TYPE_FLOAT32 } })");
  // features { feature { key: "x" value { float_list { value: 2.5 } } } }
  const std::string example(
      "\x0a\x0f\x0a\x0d\x0a\x01x\x12\x08\x12\x06\x0a\x04\x00\x00\x20\x40", 17);
  topic_->Add(0, example);
  topic_->Add(0, example.substr(0, 9));
  Tell(1, {{0, 2}});
  ASSERT_TRUE(Read(1, 0, 1).ok());
  EXPECT_THAT(Values(), ElementsAre(2.5));
  EXPECT_EQ(Read(1, 1, 2).message(),
            "topic 'clicks' partition 0 offset 1: it is no tf.Example");
}

TEST_F(TopicEpochTest, WhatIsWrongWithMessagesTogetherNamesTheirOffsets) {
  Open(R"(kafka { topic: "clicks" }
          libsvm { columns: 3 first_index: 1 classes: 2 name: "x" })",
       "on_error: ON_ERROR_SKIP");
  topic_->Add(0, "-1 2:5");
  topic_->Add(0, "0 2:5");
  Tell(1, {{0, 2}});
  EXPECT_THAT(std::string(Read(1, 0, 1).message()),
              HasSubstr("topic 'clicks' partition 0 offset 1: the label is 0, "
                        "and topic 'clicks' partition 0 offset 0 has -1"));
}

}  // namespace
}  // namespace paramd
