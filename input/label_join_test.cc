#include "input/label_join.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "input/testing/fake_topic.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kAllOffsets = uint64_t{1} << 62;

class LabelJoinTest : public ::testing::Test {
 protected:
  LabelJoinTest() {
    config_.set_topic("clicks");
    auto* const join = config_.mutable_join();
    join->set_click("click");
    join->set_label("label");
    join->set_window_ms(1000);
    join->set_window_messages(100);
    spec_.features = {
        {.name = "ad", .dims = {}},
        {.name = "label", .dtype = DType::kInt32, .dims = {}, .classes = 2}};
  }

  void AddExample(const std::string& key, int64_t time_ms = 0) {
    topic_.AddKeyed(0, key, time_ms, "7,0");
    ++end_;
  }
  void AddClick(const std::string& key, int64_t time_ms = 0) {
    topic_.AddKeyed(0, key, time_ms, "click,0");
    ++end_;
  }
  std::unique_ptr<LabelJoin> Open() {
    auto join = LabelJoin::Create(config_, spec_, &topic_);
    EXPECT_TRUE(join.ok()) << join.status();
    return *std::move(join);
  }
  std::string ErrorOfOpen() {
    return std::string(
        LabelJoin::Create(config_, spec_, &topic_).status().message());
  }
  absl::StatusOr<std::vector<LabelJoin::Fate>> Join(
      LabelJoin* join, uint64_t begin, uint64_t end,
      uint64_t clicks_end = kAllOffsets) {
    const auto messages = topic_.Read(0, begin, end);
    return join->Join({.partition = 0,
                       .begin = begin,
                       .end = end,
                       .clicks_begin = clicks_begin_,
                       .clicks_end = std::min(clicks_end, end_)},
                      *messages);
  }
  // A letter for each: an example is 0 or 1, a click joined, late or stray.
  std::string Letters(LabelJoin* join, uint64_t begin, uint64_t end,
                      uint64_t clicks_end = kAllOffsets) {
    const auto fates = Join(join, begin, end, clicks_end);
    EXPECT_TRUE(fates.ok()) << fates.status();
    std::string letters;
    for (const LabelJoin::Fate fate : *fates) {
      letters += "01jls-"[static_cast<int>(fate)];
    }
    return letters;
  }

  FakeTopic topic_{1};
  v1::InputSource::Kafka config_;
  InputSpec spec_;
  uint64_t clicks_begin_ = 0;
  uint64_t end_ = 0;  // Of the partition.
};

struct Event {
  const char* key;
  int64_t time_ms;
  bool is_click;
};

struct Order {
  const char* what;
  std::vector<Event> events;
  const char* letters;
};

const std::vector<Order>& Orders() {
  static const auto* const orders = new std::vector<Order>{
      {"a click behind its example", {{"a", 0, false}, {"a", 9, true}}, "1j"},
      {"no click", {{"a", 0, false}, {"b", 9, false}}, "00"},
      {"keys do not mix",
       {{"a", 0, false}, {"b", 0, false}, {"b", 9, true}},
       "01j"},
      {"at the end of the window", {{"a", 0, false}, {"a", 1000, true}}, "1j"},
      {"too late", {{"a", 0, false}, {"a", 1001, true}}, "0l"},
      {"a click before its example",
       {{"a", 0, true}, {"a", 1000, false}},
       "j1"},
      {"a click long before", {{"a", 0, true}, {"a", 1001, false}}, "l0"},
      {"times that are not in order",
       {{"a", 5000, false}, {"b", 9000, false}, {"a", 4500, true}},
       "10j"},
      {"an example that was sent twice",
       {{"a", 0, false}, {"a", 5, false}, {"a", 9, true}},
       "11j"},
      {"a click that was sent twice",
       {{"a", 0, false}, {"a", 5, true}, {"a", 5, true}},
       "1jj"},
      {"a click of the second example of a key",
       {{"a", 0, false}, {"a", 1000, false}, {"a", 1500, true}},
       "01j"},
      {"one click in time and one too late",
       {{"a", 0, false}, {"a", 10, true}, {"a", 3000, true}},
       "1jl"},
      {"a click without an example", {{"b", 0, true}, {"a", 0, false}}, "s0"},
      {"times that are not known", {{"a", -1, false}, {"a", -1, true}}, "1j"},
      {"times as no clock has them",
       {{"a", INT64_MIN, false}, {"a", INT64_MAX, true}},
       "0l"},
  };
  return *orders;
}

TEST_F(LabelJoinTest, EachOrderOfMessagesHasItsLabels) {
  for (const Order& order : Orders()) {
    topic_ = FakeTopic(1);
    end_ = 0;
    for (const Event& event : order.events) {
      event.is_click ? AddClick(event.key, event.time_ms)
                     : AddExample(event.key, event.time_ms);
    }
    EXPECT_EQ(Letters(Open().get(), 0, end_), order.letters) << order.what;
  }
}

// Whoever comes after a kill, and wherever it begins to read.
TEST_F(LabelJoinTest, EachMessageHasTheSameLabelReadByItself) {
  for (const Order& order : Orders()) {
    topic_ = FakeTopic(1);
    end_ = 0;
    for (const Event& event : order.events) {
      event.is_click ? AddClick(event.key, event.time_ms)
                     : AddExample(event.key, event.time_ms);
    }
    const auto one = Open();
    std::string by_one;
    std::string by_many;
    for (uint64_t i = end_; i-- > 0;) {
      by_one = Letters(one.get(), i, i + 1) + by_one;
      by_many = Letters(Open().get(), i, i + 1) + by_many;
    }
    EXPECT_EQ(by_one, order.letters) << order.what;
    EXPECT_EQ(by_many, order.letters) << order.what;
  }
}

TEST_F(LabelJoinTest, AWindowHasSoManyMessages) {
  config_.mutable_join()->set_window_messages(3);
  AddExample("a");
  AddExample("b");
  AddExample("c");
  AddClick("a");
  AddExample("d");
  AddClick("b");
  EXPECT_EQ(Letters(Open().get(), 0, 6), "100j0s");
}

TEST_F(LabelJoinTest, AWindowMaySpanWhatIsFetchedAtOnce) {
  config_.mutable_join()->set_window_messages(20000);
  AddExample("a");
  for (int i = 0; i < 15000; ++i) AddExample("b");
  AddClick("a");
  EXPECT_EQ(Letters(Open().get(), 0, 2), "10");
  EXPECT_EQ(Letters(Open().get(), 15001, 15002), "j");
}

TEST_F(LabelJoinTest, ClicksBehindWhatTheChiefSawDoNotCount) {
  AddExample("a");
  AddExample("b");
  AddClick("a");
  const auto join = Open();
  EXPECT_EQ(Letters(join.get(), 0, 1, /*clicks_end=*/2), "0");
  EXPECT_EQ(Letters(join.get(), 0, 1, /*clicks_end=*/3), "1");
  EXPECT_EQ(Letters(join.get(), 0, 1, /*clicks_end=*/2), "0");
}

TEST_F(LabelJoinTest, MessagesAroundAreFetchedOnce) {
  for (int i = 0; i < 9000; ++i) AddExample("a");
  const auto join = Open();
  Letters(join.get(), 4000, 4001);
  const int reads = topic_.reads();
  EXPECT_EQ(reads, 3) << "its own, and two chunks";
  Letters(join.get(), 4001, 4002);
  EXPECT_EQ(topic_.reads(), reads + 1) << "its own";
}

TEST_F(LabelJoinTest, RangesByTurnsFetchWhatIsAroundThemOnce) {
  for (int i = 0; i < 300; ++i) AddExample("a");
  const auto join = Open();
  const LabelJoin::Range first = {.begin = 0, .end = 100, .clicks_end = 150};
  const LabelJoin::Range second = {
      .begin = 150, .end = 250, .clicks_begin = 50, .clicks_end = 300};
  const auto ones = topic_.Read(0, 0, 100);
  const auto others = topic_.Read(0, 150, 250);
  const int reads = topic_.reads();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(join->Join(first, *ones).ok());
    ASSERT_TRUE(join->Join(second, *others).ok());
  }
  EXPECT_EQ(topic_.reads(), reads + 3);
}

TEST_F(LabelJoinTest, AFloodOfClicksIsOneLabel) {
  config_.mutable_join()->set_window_messages(100000);
  AddExample("a");
  for (int i = 0; i < 20000; ++i) AddClick("a", i);
  EXPECT_EQ(Letters(Open().get(), 0, 20001),
            "1" + std::string(1001, 'j') + std::string(18999, 'l'));
}

TEST_F(LabelJoinTest, AFloodOfOneKeyHasALabelEach) {
  config_.mutable_join()->set_window_messages(100000);
  std::string expected;
  for (int i = 0; i < 3000; ++i) {
    AddExample("a", i);
    AddClick("a", i);
    expected += "1j";
  }
  EXPECT_EQ(Letters(Open().get(), 0, 6000), expected);
}

TEST_F(LabelJoinTest, OffsetsWithoutAMessageAreNotInTheWay) {
  AddExample("a");
  topic_.AddGap(0, 5);
  end_ += 5;
  AddClick("a");
  EXPECT_EQ(Letters(Open().get(), 0, 7), "1j");
}

TEST_F(LabelJoinTest, AMessageWithoutAKeyIsSaid) {
  topic_.Add(0, "7,0");
  topic_.Add(0, "click,0");
  end_ = 2;
  AddExample("a");
  EXPECT_EQ(Letters(Open().get(), 0, 3), "--0");
}

TEST_F(LabelJoinTest, DeletedMessagesAroundAreAnErrorUnlessTheJobSkipsThem) {
  AddClick("a");
  AddExample("a");
  topic_.Delete(0, 1);
  const auto gone = Join(Open().get(), 1, 2);
  EXPECT_TRUE(absl::IsFailedPrecondition(gone.status())) << gone.status();
  EXPECT_THAT(std::string(gone.status().message()),
              HasSubstr("has deleted offsets 0 to 0 of partition 0"));
  config_.set_on_gone(v1::InputSource::Kafka::ON_GONE_SKIP);
  EXPECT_EQ(Letters(Open().get(), 1, 2), "0");
  config_.set_on_gone(v1::InputSource::Kafka::ON_GONE_FAIL);
  clicks_begin_ = 1;
  EXPECT_EQ(Letters(Open().get(), 1, 2), "0") << "the chief saw none before";
}

TEST_F(LabelJoinTest, WhatCanNotBeReadIsReadLater) {
  AddExample("a");
  AddClick("a");
  const auto join = Open();
  const auto messages = topic_.Read(0, 0, 1);
  const LabelJoin::Range range = {.begin = 0, .end = 1, .clicks_end = 2};
  topic_.SetError(absl::CancelledError("the process ends"));
  EXPECT_TRUE(absl::IsCancelled(join->Join(range, *messages).status()));
  topic_.SetError(absl::OkStatus());
  EXPECT_EQ(Letters(join.get(), 0, 2), "1j");
}

TEST_F(LabelJoinTest, TheLabelIsAFeatureOfOneValue) {
  config_.mutable_join()->set_label("click");
  EXPECT_EQ(ErrorOfOpen(),
            "input.train.kafka.join.label is 'click', which examples do not "
            "have; they have 'ad', 'label'");
  config_.mutable_join()->set_label("label");
  spec_.features[1].dims = {2};
  EXPECT_EQ(ErrorOfOpen(),
            "input.train.kafka.join.label is 'label', which is not a single "
            "value that can be 0 and 1");
  spec_.features[1].dims = {1};
  EXPECT_EQ(ErrorOfOpen(), "");
  spec_.features[1].classes = 1;
  EXPECT_THAT(ErrorOfOpen(), HasSubstr("is not a single value"));
}

TEST_F(LabelJoinTest, TheLabelIsSetWhateverItsType) {
  const auto join = Open();
  Example example;
  example.values.resize(2);
  example.values[0].Reset(DType::kFloat32, {});
  example.values[0].values<float>()[0] = 7;
  example.values[1].Reset(DType::kInt32, {});
  join->SetLabel(true, &example);
  EXPECT_EQ(example.values[1].values<int32_t>()[0], 1);
  join->SetLabel(false, &example);
  EXPECT_EQ(example.values[1].values<int32_t>()[0], 0);
  example.values[1].Reset(DType::kFloat32, {1});
  join->SetLabel(true, &example);
  EXPECT_EQ(example.values[1].values<float>()[0], 1);
  EXPECT_EQ(example.values[0].values<float>()[0], 7);
}

}  // namespace
}  // namespace paramd
