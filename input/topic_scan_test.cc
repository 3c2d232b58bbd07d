#include "input/topic_scan.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "input/testing/fake_topic.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kafka = v1::InputSource::Kafka;

class TopicScanTest : public ::testing::Test {
 protected:
  TopicScanTest() {
    config_.set_topic("clicks");
    config_.set_epoch_messages(100);
  }

  void Add(uint32_t partition, int messages) {
    for (int i = 0; i < messages; ++i) topic_.Add(partition, "m");
  }
  // Scans, and if that found something knows it from now on.
  absl::StatusOr<v1::ScanInputResult> Scan() {
    auto result = ScanTopic(config_, request_, now_, nullptr, &topic_);
    if (!result.ok()) return result;
    for (const auto& found : result->found().partitions()) {
      bool is_new = true;
      for (auto& known : *request_.mutable_partitions()) {
        if (known.number() != found.number()) continue;
        known = found;
        is_new = false;
      }
      if (is_new) *request_.add_partitions() = found;
    }
    request_.set_examples(request_.examples() + result->found().examples());
    return result;
  }
  std::string Message() { return std::string(Scan().status().message()); }
  // "0:[5, 9)" of each partition that was found.
  static std::vector<std::string> Ranges(
      const absl::StatusOr<v1::ScanInputResult>& result) {
    std::vector<std::string> ranges;
    for (const auto& one : result->found().partitions()) {
      ranges.push_back(
          absl::StrCat(one.number(), ":[", one.begin(), ", ", one.end(), ")"));
    }
    return ranges;
  }

  FakeTopic topic_{2};
  Kafka config_;
  v1::ScanInput request_;
  absl::Time now_ = absl::FromUnixMillis(100'000);
};

TEST_F(TopicScanTest, TheFirstLookOnlySaysWhereTheRunBegins) {
  Add(0, 3);
  topic_.Delete(0, 1);
  const auto first = Scan();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(Ranges(first), ElementsAre("0:[1, 1)", "1:[0, 0)"));
  EXPECT_EQ(first->found().examples(), 0u);
  EXPECT_TRUE(first->more());
  EXPECT_FALSE(first->ended());
}

TEST_F(TopicScanTest, AnEpochIsWhatCameSinceTheLastOne) {
  ASSERT_TRUE(Scan().ok());
  EXPECT_THAT(Ranges(Scan()), IsEmpty());
  Add(0, 3);
  auto found = Scan();
  EXPECT_THAT(Ranges(found), ElementsAre("0:[0, 3)"));
  EXPECT_EQ(found->found().examples(), 3u);
  EXPECT_FALSE(found->more());
  Add(0, 1);
  Add(1, 2);
  found = Scan();
  EXPECT_THAT(Ranges(found), ElementsAre("0:[3, 4)", "1:[0, 2)"));
  EXPECT_EQ(found->found().examples(), 3u);
  EXPECT_THAT(Ranges(Scan()), IsEmpty());
}

TEST_F(TopicScanTest, OffsetsWithoutAMessageArePartOfAnEpoch) {
  ASSERT_TRUE(Scan().ok());
  Add(0, 1);
  topic_.AddGap(0, 4);
  EXPECT_THAT(Ranges(Scan()), ElementsAre("0:[0, 5)"));
}

TEST_F(TopicScanTest, AnEpochSharesItsMessagesAmongPartitions) {
  config_.set_epoch_messages(10);
  ASSERT_TRUE(Scan().ok());
  Add(0, 30);
  Add(1, 2);
  auto found = Scan();
  EXPECT_THAT(Ranges(found), ElementsAre("0:[0, 8)", "1:[0, 2)"));
  EXPECT_EQ(found->found().examples(), 10u);
  EXPECT_TRUE(found->more());
  Add(1, 30);
  found = Scan();
  EXPECT_THAT(Ranges(found), ElementsAre("0:[8, 13)", "1:[2, 7)"));
}

TEST_F(TopicScanTest, AnEpochOfFewerMessagesThanPartitionsHasSoMany) {
  config_.set_epoch_messages(1);
  ASSERT_TRUE(Scan().ok());
  Add(0, 1);
  Add(1, 1);
  auto found = Scan();
  EXPECT_EQ(found->found().examples(), 1u);
  EXPECT_TRUE(found->more());
  found = Scan();
  EXPECT_EQ(found->found().examples(), 1u);
  EXPECT_FALSE(found->more());
  EXPECT_THAT(Ranges(Scan()), IsEmpty());
}

// ---- where it begins and ends -----------------------------------------------

TEST_F(TopicScanTest, ARunBeginsBehindTheLatestMessages) {
  config_.set_from(Kafka::FROM_LATEST);
  Add(0, 3);
  EXPECT_THAT(Ranges(Scan()), ElementsAre("0:[3, 3)", "1:[0, 0)"));
}

TEST_F(TopicScanTest, APartitionThatWasAddedLaterIsReadFromItsBegin) {
  config_.set_from(Kafka::FROM_LATEST);
  ASSERT_TRUE(Scan().ok());
  topic_.SetPartitions(3);
  Add(2, 4);
  EXPECT_THAT(Ranges(Scan()), ElementsAre("2:[0, 0)"));
  EXPECT_THAT(Ranges(Scan()), ElementsAre("2:[0, 4)"));
}

TEST_F(TopicScanTest, ARunBeginsAtOffsetsThatAreGiven) {
  Add(0, 9);
  Add(1, 9);
  config_.add_offsets(7);
  EXPECT_THAT(Ranges(Scan()), ElementsAre("0:[7, 7)", "1:[0, 0)"));
}

TEST_F(TopicScanTest, OffsetsThatDoNotSuitTheTopicAreRefused) {
  config_.add_offsets(1);
  EXPECT_EQ(Message(),
            "input.train.kafka.offsets[0] is 1; topic 'clicks' partition 0 "
            "ends at offset 0");
  config_.add_offsets(0);
  config_.add_offsets(0);
  EXPECT_EQ(Message(),
            "input.train.kafka.offsets has 3 offsets; topic 'clicks' has 2 "
            "partitions");
  EXPECT_TRUE(absl::IsInvalidArgument(Scan().status()));
}

TEST_F(TopicScanTest, TheInputEndsWhereTheTopicEndedWhenTheRunBegan) {
  config_.set_until(Kafka::UNTIL_LATEST);
  Add(0, 3);
  const auto first = Scan();
  EXPECT_EQ(first->found().partitions(0).last(), 3u);
  Add(0, 5);
  Add(1, 5);
  const auto found = Scan();
  EXPECT_THAT(Ranges(found), ElementsAre("0:[0, 3)"));
  EXPECT_TRUE(found->ended());
  const auto none = Scan();
  EXPECT_THAT(Ranges(none), IsEmpty());
  EXPECT_TRUE(none->ended());
}

TEST_F(TopicScanTest, AnEmptyTopicEndsAtOnceWhereItsLatestIsTheEnd) {
  config_.set_until(Kafka::UNTIL_LATEST);
  EXPECT_FALSE(Scan()->ended());
  EXPECT_TRUE(Scan()->ended());
}

TEST_F(TopicScanTest, TheInputEndsAfterSoManyMessages) {
  config_.set_max_messages(4);
  ASSERT_TRUE(Scan().ok());
  Add(0, 3);
  auto found = Scan();
  EXPECT_EQ(found->found().examples(), 3u);
  EXPECT_FALSE(found->ended());
  Add(0, 3);
  found = Scan();
  EXPECT_EQ(found->found().examples(), 1u);
  EXPECT_TRUE(found->ended());
  EXPECT_THAT(Ranges(Scan()), IsEmpty());
  EXPECT_TRUE(Scan()->ended());
}

// ---- labels that come later -------------------------------------------------

class JoinedScanTest : public TopicScanTest {
 protected:
  JoinedScanTest() {
    config_.mutable_join()->set_window_ms(10'000);
    config_.mutable_join()->set_window_messages(1000);
  }
  void AddAt(uint32_t partition, int64_t seconds) {
    topic_.AddKeyed(partition, "key", seconds * 1000, "m");
  }
  // "0:[0, 7)" of each partition: where clicks are looked for.
  static std::vector<std::string> Clicks(
      const absl::StatusOr<v1::ScanInputResult>& result) {
    std::vector<std::string> ranges;
    for (const auto& one : result->found().partitions()) {
      ranges.push_back(absl::StrCat(one.number(), ":[", one.clicks_begin(),
                                    ", ", one.clicks_end(), ")"));
    }
    return ranges;
  }
};

TEST_F(JoinedScanTest, AMessageIsFoundOnceItsWindowHasPassed) {
  ASSERT_TRUE(Scan().ok());
  for (const int64_t seconds : {80, 89, 90, 95}) AddAt(0, seconds);
  auto found = Scan();  // At 100 s.
  EXPECT_THAT(Ranges(found), ElementsAre("0:[0, 2)"));
  EXPECT_THAT(Clicks(found), ElementsAre("0:[0, 4)"));
  EXPECT_EQ(found->held(), 2u);
  EXPECT_FALSE(found->more());
  found = Scan();
  EXPECT_THAT(Ranges(found), IsEmpty());
  EXPECT_EQ(found->held(), 2u);
  now_ += absl::Seconds(5);
  AddAt(0, 105);
  found = Scan();
  EXPECT_THAT(Ranges(found), ElementsAre("0:[2, 3)"));
  EXPECT_THAT(Clicks(found), ElementsAre("0:[0, 5)"));
  EXPECT_EQ(found->held(), 2u);
  now_ += absl::Minutes(1);
  found = Scan();
  EXPECT_THAT(Ranges(found), ElementsAre("0:[3, 5)"));
  EXPECT_EQ(found->held(), 0u);
}

TEST_F(JoinedScanTest, SoManyMessagesBehindItEndAWindow) {
  config_.mutable_join()->set_window_messages(3);
  ASSERT_TRUE(Scan().ok());
  for (int i = 0; i < 10; ++i) AddAt(0, 99);
  auto found = Scan();
  EXPECT_THAT(Ranges(found), ElementsAre("0:[0, 7)"));
  EXPECT_THAT(Clicks(found), ElementsAre("0:[0, 10)"));
  for (int i = 0; i < 10; ++i) AddAt(0, 99);
  found = Scan();
  EXPECT_THAT(Ranges(found), ElementsAre("0:[7, 17)"));
  EXPECT_THAT(Clicks(found), ElementsAre("0:[4, 20)"));
}

TEST_F(JoinedScanTest, AnEpochThatIsCutLooksNoFurtherThanItsWindow) {
  config_.mutable_join()->set_window_messages(2);
  config_.set_epoch_messages(4);
  ASSERT_TRUE(Scan().ok());
  for (int i = 0; i < 10; ++i) AddAt(0, 0);
  EXPECT_THAT(Clicks(Scan()), ElementsAre("0:[0, 6)"));
  topic_.Delete(0, 3);
  const auto found = Scan();
  EXPECT_THAT(Ranges(found), ElementsAre("0:[4, 8)"));
  EXPECT_THAT(Clicks(found), ElementsAre("0:[3, 10)"));
}

TEST_F(JoinedScanTest, TheEndOfTheInputWaitsForItsClicks) {
  config_.set_until(Kafka::UNTIL_LATEST);
  AddAt(0, 80);
  AddAt(0, 99);
  ASSERT_TRUE(Scan().ok());
  AddAt(0, 100);
  auto found = Scan();
  EXPECT_THAT(Ranges(found), ElementsAre("0:[0, 1)"));
  EXPECT_EQ(found->held(), 1u);
  EXPECT_FALSE(found->ended());
  now_ += absl::Seconds(10);
  found = Scan();
  EXPECT_THAT(Ranges(found), ElementsAre("0:[1, 2)"));
  EXPECT_THAT(Clicks(found), ElementsAre("0:[0, 3)"));
  EXPECT_TRUE(found->ended());
}

// The epoch has a partition without an offset, which is no mistake.
TEST_F(JoinedScanTest, WhatWasDeletedUpToTheEndIsEnclosedByItsClicks) {
  config_.set_until(Kafka::UNTIL_LATEST);
  config_.set_on_gone(Kafka::ON_GONE_SKIP);
  AddAt(0, 80);
  AddAt(0, 80);
  AddAt(1, 80);
  ASSERT_TRUE(Scan().ok());
  for (int i = 0; i < 3; ++i) AddAt(0, 80);
  topic_.Delete(0, 4);
  const auto found = Scan();
  EXPECT_THAT(Ranges(found), ElementsAre("0:[2, 2)", "1:[0, 1)"));
  EXPECT_THAT(Clicks(found), ElementsAre("0:[2, 5)", "1:[0, 1)"));
  EXPECT_EQ(found->found().partitions(0).gone(), 2u);
  EXPECT_TRUE(found->ended());
}

TEST_F(JoinedScanTest, AClockThatGoesBackGivesNothingAway) {
  ASSERT_TRUE(Scan().ok());
  AddAt(0, 80);
  AddAt(0, 81);
  ASSERT_EQ(Scan()->found().examples(), 2u);
  now_ -= absl::Minutes(1);
  AddAt(0, 82);
  const auto found = Scan();
  EXPECT_THAT(Ranges(found), IsEmpty());
  EXPECT_EQ(found->held(), 1u);
}

// ---- what is gone -----------------------------------------------------------

TEST_F(TopicScanTest, MessagesThatWereDeletedBeforeTheyWereFoundAreAnError) {
  ASSERT_TRUE(Scan().ok());
  Add(1, 9);
  topic_.Delete(1, 5);
  EXPECT_EQ(Message(),
            "topic 'clicks' has deleted offsets 0 to 4 of partition 1 before "
            "they were found; to go on without them, give input.train.kafka "
            "\"on_gone\": \"skip\"");
  EXPECT_TRUE(absl::IsFailedPrecondition(Scan().status()));
}

TEST_F(TopicScanTest, DeletedMessagesAreSkippedAndCounted) {
  config_.set_on_gone(Kafka::ON_GONE_SKIP);
  ASSERT_TRUE(Scan().ok());
  Add(1, 9);
  topic_.Delete(1, 5);
  const auto found = Scan();
  EXPECT_THAT(Ranges(found), ElementsAre("1:[5, 9)"));
  EXPECT_EQ(found->found().partitions(0).gone(), 5u);
  EXPECT_EQ(found->found().examples(), 4u);
}

TEST_F(TopicScanTest, WhereAllWereDeletedOnlyThatIsSaid) {
  config_.set_on_gone(Kafka::ON_GONE_SKIP);
  ASSERT_TRUE(Scan().ok());
  Add(1, 9);
  topic_.Delete(1, 9);
  const auto found = Scan();
  EXPECT_THAT(Ranges(found), ElementsAre("1:[9, 9)"));
  EXPECT_EQ(found->found().partitions(0).gone(), 9u);
  EXPECT_EQ(found->found().examples(), 0u);
  EXPECT_THAT(Ranges(Scan()), IsEmpty());
}

TEST_F(TopicScanTest, OffsetsBeforeTheFirstMessageAreGone) {
  Add(0, 9);
  topic_.Delete(0, 5);
  config_.add_offsets(2);
  EXPECT_THAT(Message(),
              HasSubstr("has deleted offsets 2 to 4 of partition 0"));
  config_.set_on_gone(Kafka::ON_GONE_SKIP);
  EXPECT_THAT(Ranges(Scan()), ElementsAre("0:[5, 5)", "1:[0, 0)"));
}

TEST_F(TopicScanTest, ATopicWithFewerPartitionsThanBeforeIsAnother) {
  ASSERT_TRUE(Scan().ok());
  Add(1, 3);
  ASSERT_TRUE(Scan().ok());
  topic_.SetPartitions(1);
  EXPECT_EQ(Message(),
            "topic 'clicks' has 1 partitions; the run has read partition 1 up "
            "to offset 3: it is another topic");
  EXPECT_TRUE(absl::IsFailedPrecondition(Scan().status()));
}

TEST_F(TopicScanTest, APartitionThatEndsBeforeWhatWasFoundIsAnother) {
  ASSERT_TRUE(Scan().ok());
  Add(1, 3);
  ASSERT_TRUE(Scan().ok());
  topic_.Truncate(1, 2);
  EXPECT_EQ(Message(),
            "topic 'clicks' partition 1 ends at offset 2; the run has found "
            "messages up to offset 3: it is another topic, or has lost them");
}

TEST_F(TopicScanTest, WhereNobodyAnswersThatIsSaid) {
  topic_.SetError(absl::UnavailableError("no answer"));
  EXPECT_TRUE(absl::IsUnavailable(Scan().status()));
}

}  // namespace
}  // namespace paramd
