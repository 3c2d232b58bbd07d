#include "input/kafka_topic.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "input/testing/mock_kafka.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<uint64_t> OffsetsIn(const Topic::Messages& messages) {
  std::vector<uint64_t> offsets;
  for (const auto& one : messages.list) offsets.push_back(one.offset);
  return offsets;
}

std::vector<std::string> TextsIn(const Topic::Messages& messages) {
  std::vector<std::string> texts;
  for (const auto& one : messages.list) {
    texts.push_back(messages.content.substr(one.begin, one.bytes));
  }
  return texts;
}

class KafkaTopicTest : public ::testing::Test {
 protected:
  v1::InputSource::Kafka Config() const {
    v1::InputSource::Kafka config;
    config.set_brokers(kafka_.brokers());
    config.set_topic("clicks");
    return config;
  }
  std::unique_ptr<Topic> Open() const {
    auto topic = OpenKafkaTopic(Config());
    EXPECT_TRUE(topic.ok()) << topic.status();
    return *std::move(topic);
  }
  // Messages that are called by their offsets.
  void Produce(uint32_t partition, int from, int to) {
    for (int i = from; i < to; ++i) {
      kafka_.Produce(partition, absl::StrCat("m", i));
    }
    kafka_.Flush();
  }

  MockKafka kafka_{"clicks", 3};
};

TEST_F(KafkaTopicTest, TheEndsOfEachPartitionAreFound) {
  Produce(1, 0, 5);
  const auto topic = Open();
  const auto ends = topic->FindEnds(nullptr);
  ASSERT_TRUE(ends.ok()) << ends.status();
  ASSERT_EQ(ends->size(), 3u);
  EXPECT_EQ((*ends)[0].end, 0u);
  EXPECT_EQ((*ends)[1].begin, 0u);
  EXPECT_EQ((*ends)[1].end, 5u);
}

TEST_F(KafkaTopicTest, MessagesAreReadByTheirOffsets) {
  Produce(0, 0, 5);
  Produce(2, 0, 2);
  const auto topic = Open();
  auto messages = topic->Read(0, 1, 4);
  ASSERT_TRUE(messages.ok()) << messages.status();
  EXPECT_THAT(OffsetsIn(*messages), ElementsAre(1, 2, 3));
  EXPECT_THAT(TextsIn(*messages), ElementsAre("m1", "m2", "m3"));
  EXPECT_THAT(TextsIn(*topic->Read(2, 0, 2)), ElementsAre("m0", "m1"));
}

TEST_F(KafkaTopicTest, ReadingGoesOnBackAndAhead) {
  Produce(0, 0, 2000);
  const auto topic = Open();
  EXPECT_THAT(TextsIn(*topic->Read(0, 10, 12)), ElementsAre("m10", "m11"));
  EXPECT_THAT(TextsIn(*topic->Read(0, 12, 13)), ElementsAre("m12"));
  EXPECT_THAT(TextsIn(*topic->Read(0, 3, 4)), ElementsAre("m3"));
  EXPECT_THAT(TextsIn(*topic->Read(0, 1998, 2000)),
              ElementsAre("m1998", "m1999"));
}

TEST_F(KafkaTopicTest, MoreOfAPartitionThanOneCallGivesIsReadWhole) {
  Produce(0, 0, 20000);
  const auto topic = Open();
  const auto messages = topic->Read(0, 0, 20000);
  ASSERT_TRUE(messages.ok()) << messages.status();
  ASSERT_EQ(messages->list.size(), 20000u);
  for (size_t i = 0; i < 20000; ++i) {
    ASSERT_EQ(messages->list[i].offset, i);
    ASSERT_EQ(messages->content.substr(messages->list[i].begin,
                                       messages->list[i].bytes),
              absl::StrCat("m", i));
  }
}

TEST_F(KafkaTopicTest, AMessageWithoutAValueIsLeftOut) {
  Produce(0, 0, 1);
  kafka_.ProduceTombstone(0, "key");
  kafka_.Flush();
  kafka_.Produce(0, "");
  kafka_.Flush();
  Produce(0, 3, 4);
  const auto messages = Open()->Read(0, 0, 4);
  ASSERT_TRUE(messages.ok());
  EXPECT_THAT(OffsetsIn(*messages), ElementsAre(0, 2, 3));
  EXPECT_THAT(TextsIn(*messages), ElementsAre("m0", "", "m3"));
}

TEST_F(KafkaTopicTest, AMessageHasItsKeyAndItsTime) {
  const absl::Time before = absl::Now();
  kafka_.ProduceKeyed(0, "ad1", "view");
  kafka_.ProduceKeyed(0, "ad2", "view");
  kafka_.ProduceKeyed(0, "ad1", "click");
  kafka_.Produce(0, "view");
  kafka_.Flush();
  const auto messages = Open()->Read(0, 0, 4);
  ASSERT_TRUE(messages.ok()) << messages.status();
  ASSERT_EQ(messages->stamps.size(), 4u);
  EXPECT_TRUE(messages->stamps[0].has_key);
  EXPECT_EQ(messages->stamps[0].key, messages->stamps[2].key);
  EXPECT_NE(messages->stamps[0].key, messages->stamps[1].key);
  EXPECT_FALSE(messages->stamps[3].has_key);
  for (const auto& stamp : messages->stamps) {
    EXPECT_GE(stamp.time_ms, absl::ToUnixMillis(before));
  }
}

// The mock finds no other time.
TEST_F(KafkaTopicTest, WhereNoMessageIsSoYoungTheEndIsFound) {
  Produce(1, 0, 5);
  const auto topic = Open();
  const auto ends = topic->FindEnds(nullptr);
  ASSERT_TRUE(ends.ok()) << ends.status();
  const auto offsets = topic->FindTime(absl::Now() + absl::Hours(1), *ends);
  ASSERT_TRUE(offsets.ok()) << offsets.status();
  EXPECT_THAT(*offsets, ElementsAre(0, 5, 0));
}

TEST_F(KafkaTopicTest, MessagesThatComeLaterAreWaitedFor) {
  const auto topic = Open();
  std::thread reader(
      [&] { EXPECT_THAT(TextsIn(*topic->Read(1, 0, 1)), ElementsAre("m0")); });
  Produce(1, 0, 1);
  reader.join();
}

TEST_F(KafkaTopicTest, ABrokerThatIsAwayIsWaitedForByName) {
  Produce(0, 0, 3);
  kafka_.SetDown();
  const auto topic = Open();
  absl::StatusOr<Topic::Messages> messages;
  std::thread reader([&] { messages = topic->Read(0, 0, 3); });
  while (topic->waiting().whom.empty()) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_THAT(topic->waiting().whom,
              HasSubstr(absl::StrCat("topic 'clicks' partition 0 offset 0 at ",
                                     kafka_.brokers())));
  EXPECT_GE(topic->waiting().since, absl::Seconds(2));
  kafka_.SetUp();
  reader.join();
  ASSERT_TRUE(messages.ok()) << messages.status();
  EXPECT_THAT(TextsIn(*messages), ElementsAre("m0", "m1", "m2"));
  EXPECT_EQ(topic->waiting().whom, "");
}

TEST_F(KafkaTopicTest, WhereNobodyAnswersTheEndsAreNotKnownNow) {
  kafka_.SetDown();
  const auto ends = Open()->FindEnds(nullptr);
  EXPECT_TRUE(absl::IsUnavailable(ends.status())) << ends.status();
  EXPECT_THAT(std::string(ends.status().message()),
              HasSubstr(absl::StrCat("topic 'clicks' at ", kafka_.brokers())));
}

TEST_F(KafkaTopicTest, WhoeverWaitsIsStopped) {
  const auto topic = Open();
  absl::StatusOr<Topic::Messages> messages;
  std::thread reader([&] { messages = topic->Read(0, 0, 3); });
  topic->Stop();
  reader.join();
  EXPECT_TRUE(absl::IsCancelled(messages.status()));
}

TEST_F(KafkaTopicTest, DeletedMessagesAreSaid) {
  // The mock keeps 5 MB of a partition.
  const std::string large(100000, 'x');
  for (int i = 0; i < 80; ++i) {
    kafka_.Produce(0, large);
    kafka_.Flush();
  }
  const auto topic = Open();
  const uint64_t first = (*topic->FindEnds(nullptr))[0].begin;
  ASSERT_GT(first, 2u);
  auto messages = topic->Read(0, 1, first + 2);
  ASSERT_TRUE(messages.ok()) << messages.status();
  EXPECT_EQ(messages->gone_begin, 1u);
  EXPECT_EQ(messages->gone_end, first);
  EXPECT_THAT(OffsetsIn(*messages), ElementsAre(first, first + 1));
  messages = topic->Read(0, 0, 2);
  ASSERT_TRUE(messages.ok()) << messages.status();
  EXPECT_EQ(messages->gone_end, 2u);
  EXPECT_THAT(OffsetsIn(*messages), IsEmpty());
}

TEST_F(KafkaTopicTest, APartitionThatEndsBeforeWhatIsWantedIsAnother) {
  Produce(0, 0, 3);
  const auto messages = Open()->Read(0, 100, 101);
  EXPECT_TRUE(absl::IsFailedPrecondition(messages.status()))
      << messages.status();
  EXPECT_THAT(std::string(messages.status().message()),
              HasSubstr("topic 'clicks' partition 0 offset 100 is past its "
                        "end, which is 3"));
}

// ---- properties -------------------------------------------------------------

std::string ErrorOf(const std::string& property) {
  v1::InputSource::Kafka config;
  config.set_brokers("127.0.0.1:9");
  config.set_topic("clicks");
  config.add_properties(property);
  return std::string(OpenKafkaTopic(config).status().message());
}

TEST(KafkaPropertiesTest, PropertiesOfLibrdkafkaArePassedOn) {
  EXPECT_EQ(ErrorOf("fetch.wait.max.ms=20"), "");
  EXPECT_EQ(ErrorOf("fetch.wait.max.ms=soon"),
            "librdkafka does not take the value that input.train.kafka gives "
            "'fetch.wait.max.ms'");
  EXPECT_EQ(ErrorOf("fetch.wait=20"),
            "input.train.kafka.properties names 'fetch.wait', which librdkafka "
            "does not know");
}

TEST(KafkaPropertiesTest, WhatParamdSetsItselfIsRefused) {
  EXPECT_EQ(ErrorOf("auto.offset.reset=latest"),
            "input.train.kafka.properties names 'auto.offset.reset', which "
            "paramd sets itself");
  EXPECT_EQ(ErrorOf("bootstrap.servers=a:1"),
            "input.train.kafka.properties names 'bootstrap.servers'; that is "
            "input.train.kafka.brokers");
}

TEST(KafkaPropertiesTest, NoValueIsPrinted) {
  EXPECT_THAT(ErrorOf("security.protocol=hunter2"), Not(HasSubstr("hunter2")));
  EXPECT_THAT(ErrorOf("sasl.pasword=hunter2"), Not(HasSubstr("hunter2")));
}

}  // namespace
}  // namespace paramd
