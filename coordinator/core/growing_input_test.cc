#include "coordinator/core/growing_input.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/core/testing/part_bench.h"
#include "coordinator/core/testing/started_coordinator.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using testing::JobOptions;
using testing::PartBench;

constexpr uint32_t kPollMs = 1000;

CoordinatorOptions Following() {
  CoordinatorOptions options = JobOptions();
  options.job.set_epochs(5);
  options.job.mutable_input()->mutable_follow()->set_poll_ms(kPollMs);
  options.data.set_directory("/clicks");
  return options;
}

v1::ScanInputResult Found(const std::string& name, uint64_t examples) {
  v1::ScanInputResult result;
  result.mutable_found()->add_files()->set_name(name);
  result.mutable_found()->set_examples(examples);
  return result;
}

class GrowingInputTest : public ::testing::Test {
 protected:
  void Advance() {
    bench_.Do([&](Turn* turn) { growing_.Advance(turn); });
  }
  // Advances after a while.
  void Later(int64_t ms) {
    bench_.now = bench_.now + absl::Milliseconds(ms);
    Advance();
  }
  // What the last event asked for; null: nothing of this type.
  template <typename Head>
  const Head* Asked() const {
    if (bench_.out.ios.empty()) return nullptr;
    return dynamic_cast<const Head*>(bench_.out.ios.back().head.get());
  }
  template <typename Head>
  void End(const Head& head, absl::Status status = absl::OkStatus()) {
    bench_.End(bench_.out.ios.back().io, std::move(status), head);
  }
  // A scan finds this, and the log has it.
  void Find(const v1::ScanInputResult& result) {
    ASSERT_NE(Asked<v1::ScanInput>(), nullptr);
    End(result);
    ASSERT_NE(Asked<v1::AppendLog>(), nullptr);
    End(v1::LogEntry());
  }
  void TakeAll() {
    while (portions_.Take(0).has_value()) {
    }
  }

  PartBench bench_{Following()};
  Portions portions_{Epochs::Growing(bench_.options.job.epochs()), /*size=*/4};
  GrowingInput growing_{bench_.options, &portions_};
};

TEST_F(GrowingInputTest, WhatIsFoundIsAnEpochWhenTheLogHasIt) {
  Advance();
  ASSERT_NE(Asked<v1::ScanInput>(), nullptr);
  End(Found("a.csv", 6));
  const auto* append = Asked<v1::AppendLog>();
  ASSERT_NE(append, nullptr);
  EXPECT_EQ(append->entry().epoch_files().epoch(), 1u);
  EXPECT_EQ(append->entry().epoch_files().examples(), 6u);
  EXPECT_EQ(portions_.epochs().number(), 0u) << "the log may lack it";
  End(v1::LogEntry());
  EXPECT_EQ(portions_.epochs().number(), 1u);
  EXPECT_EQ(portions_.Take(0)->end(), 4u);
}

TEST_F(GrowingInputTest, AFileIsFoundOnce) {
  Advance();
  Find(Found("a.csv", 6));
  TakeAll();
  Later(kPollMs);
  ASSERT_NE(Asked<v1::ScanInput>(), nullptr);
  EXPECT_THAT(Asked<v1::ScanInput>()->known(), ElementsAre("a.csv"));
}

TEST_F(GrowingInputTest, NoMoreIsLookedForThanWillSoonBeHandedOut) {
  Advance();
  Find(Found("a.csv", 6));
  Later(10 * kPollMs);
  EXPECT_TRUE(bench_.out.ios.empty()) << "epoch 1 is untouched";
  portions_.Take(0);
  Later(0);
  EXPECT_NE(Asked<v1::ScanInput>(), nullptr);
}

TEST_F(GrowingInputTest, LooksAsOftenAsTheJobSays) {
  Advance();
  End(v1::ScanInputResult());
  Later(kPollMs - 1);
  EXPECT_TRUE(bench_.out.ios.empty());
  Later(1);
  EXPECT_NE(Asked<v1::ScanInput>(), nullptr);
  Later(10 * kPollMs);
  EXPECT_TRUE(bench_.out.ios.empty()) << "that look has not ended";
}

TEST_F(GrowingInputTest, WhereThereIsMoreItLooksAtOnce) {
  Advance();
  v1::ScanInputResult result = Found("a.csv", 4);
  result.set_more(true);
  Find(result);
  TakeAll();
  Later(0);
  EXPECT_NE(Asked<v1::ScanInput>(), nullptr);
}

TEST_F(GrowingInputTest, TheEndIsLoggedBehindTheLastFile) {
  Advance();
  v1::ScanInputResult result = Found("a.csv", 4);
  result.set_ended(true);
  Find(result);
  EXPECT_FALSE(portions_.epochs().complete());
  TakeAll();
  Later(0);
  v1::ScanInputResult none;
  none.set_ended(true);
  End(none);
  ASSERT_NE(Asked<v1::AppendLog>(), nullptr);
  EXPECT_EQ(Asked<v1::AppendLog>()->entry().epoch_files().epoch(), 2u);
  EXPECT_TRUE(Asked<v1::AppendLog>()->entry().epoch_files().files().empty());
  End(v1::LogEntry());
  EXPECT_TRUE(portions_.epochs().complete());
  Later(10 * kPollMs);
  EXPECT_TRUE(bench_.out.ios.empty());
}

TEST_F(GrowingInputTest, WhereNothingComesForLongTheInputEnds) {
  CoordinatorOptions options = Following();
  options.job.mutable_input()->mutable_follow()->set_idle_timeout_ms(2500);
  GrowingInput growing(options, &portions_);
  const auto look = [&](int64_t ms) {
    bench_.now = bench_.now + absl::Milliseconds(ms);
    bench_.Do([&](Turn* turn) { growing.Advance(turn); });
    ASSERT_NE(Asked<v1::ScanInput>(), nullptr);
    End(v1::ScanInputResult());
  };
  look(0);
  look(1000);
  look(1000);
  EXPECT_EQ(Asked<v1::AppendLog>(), nullptr) << "2 s";
  look(1000);
  ASSERT_NE(Asked<v1::AppendLog>(), nullptr) << "3 s";
  End(v1::LogEntry());
  EXPECT_TRUE(portions_.epochs().complete());
}

TEST_F(GrowingInputTest, WhatCanNotBeLookedThroughNowIsLookedThroughLater) {
  Advance();
  End(v1::ScanInputResult(), absl::UnavailableError("stale file handle"));
  EXPECT_FALSE(bench_.out.exited);
  ASSERT_EQ(bench_.out.notes.size(), 1u);
  EXPECT_EQ(bench_.out.notes[0].level, LogLevel::kWarning);
  Later(kPollMs);
  End(v1::ScanInputResult(), absl::UnavailableError("stale file handle"));
  EXPECT_TRUE(bench_.out.notes.empty()) << "it was said";
  Later(kPollMs);
  EXPECT_NE(Asked<v1::ScanInput>(), nullptr);
}

TEST_F(GrowingInputTest, AFileThatIsNoGoodEndsTheJob) {
  Advance();
  End(v1::ScanInputResult(), absl::DataLossError("'a.csv' line 3 is too long"));
  EXPECT_EQ(bench_.out.exit_status,
            absl::DataLossError("'a.csv' line 3 is too long"));
}

TEST_F(GrowingInputTest, WhatTheLogCanNotTakeEndsTheProcess) {
  Advance();
  End(Found("a.csv", 4));
  End(v1::LogEntry(), absl::AbortedError("another chief"));
  EXPECT_TRUE(bench_.out.exited);
  EXPECT_EQ(portions_.epochs().number(), 0u);
}

TEST_F(GrowingInputTest, ANewCoordinatorKnowsWhatTheLogHas) {
  v1::EpochFiles logged;
  logged.set_epoch(1);
  logged.add_files()->set_name("a.csv");
  logged.set_examples(4);
  growing_.Read(logged);
  EXPECT_EQ(portions_.epochs().ExamplesOf(1), 4u);
  TakeAll();
  Advance();
  EXPECT_THAT(Asked<v1::ScanInput>()->known(), ElementsAre("a.csv"));
  End(Found("b.csv", 3));
  EXPECT_EQ(Asked<v1::AppendLog>()->entry().epoch_files().epoch(), 2u);
}

TEST_F(GrowingInputTest, SaysWhatItWaitsFor) {
  EXPECT_TRUE(growing_.waits());
  EXPECT_EQ(growing_.waiting_for(), "new files in /clicks");
  Advance();
  Find(Found("a.csv", 4));
  EXPECT_FALSE(growing_.waits());
  const auto portion = portions_.Take(0);
  EXPECT_FALSE(growing_.waits()) << "it is not used";
  portions_.Finish(0, portion->id());
  EXPECT_TRUE(growing_.waits());
}

// ---- a topic ----------------------------------------------------------------

CoordinatorOptions OfTopic() {
  CoordinatorOptions options = Following();
  options.job.mutable_input()->mutable_train()->mutable_kafka()->set_topic(
      "clicks");
  return options;
}

v1::ScanInputResult FoundOf(uint32_t partition, uint64_t begin, uint64_t end) {
  v1::ScanInputResult result;
  auto* const found = result.mutable_found()->add_partitions();
  found->set_number(partition);
  found->set_begin(begin);
  found->set_end(end);
  result.mutable_found()->set_examples(end - begin);
  return result;
}

class GrowingTopicTest : public GrowingInputTest {
 protected:
  GrowingTopicTest() : topic_(OfTopic(), &portions_) {}

  void Look(int64_t ms) {
    bench_.now = bench_.now + absl::Milliseconds(ms);
    bench_.Do([&](Turn* turn) { topic_.Advance(turn); });
  }

  GrowingInput topic_;
};

TEST_F(GrowingTopicTest, WhereItBeginsIsLoggedBeforeAnythingIsHandedOut) {
  Look(0);
  ASSERT_NE(Asked<v1::ScanInput>(), nullptr);
  EXPECT_TRUE(Asked<v1::ScanInput>()->partitions().empty());
  v1::ScanInputResult where = FoundOf(3, 17, 17);
  where.set_more(true);
  Find(where);
  EXPECT_EQ(portions_.epochs().number(), 0u);
  EXPECT_FALSE(portions_.epochs().complete());
  EXPECT_EQ(topic_.partitions(), 1u);
  Look(0);
  ASSERT_EQ(Asked<v1::ScanInput>()->partitions_size(), 1);
  EXPECT_EQ(Asked<v1::ScanInput>()->partitions(0).end(), 17u);
  EXPECT_EQ(Asked<v1::ScanInput>()->examples(), 0u);
  End(FoundOf(3, 17, 20));
  EXPECT_EQ(Asked<v1::AppendLog>()->entry().epoch_files().epoch(), 1u);
  End(v1::LogEntry());
  EXPECT_EQ(portions_.epochs().ExamplesOf(1), 3u);
}

TEST_F(GrowingTopicTest, ANewCoordinatorGoesOnWhereTheLogEnds) {
  for (const auto& result :
       {FoundOf(0, 5, 5), FoundOf(0, 5, 9), FoundOf(0, 9, 11)}) {
    v1::EpochFiles logged = result.found();
    logged.set_epoch(logged.examples() == 2 ? 2 : 1);
    topic_.Read(logged);
  }
  EXPECT_EQ(portions_.epochs().number(), 2u);
  TakeAll();
  Look(0);
  ASSERT_EQ(Asked<v1::ScanInput>()->partitions_size(), 1);
  EXPECT_EQ(Asked<v1::ScanInput>()->partitions(0).end(), 11u);
  EXPECT_EQ(Asked<v1::ScanInput>()->examples(), 6u);
}

TEST_F(GrowingTopicTest, MessagesThatAreGoneAreCountedAndWarnedOf) {
  Look(0);
  v1::ScanInputResult found = FoundOf(1, 5, 9);
  found.mutable_found()->mutable_partitions(0)->set_gone(5);
  Find(found);
  EXPECT_EQ(topic_.gone_messages(), 5u);
  ASSERT_EQ(bench_.out.notes.size(), 2u);
  EXPECT_EQ(bench_.out.notes[0].level, LogLevel::kWarning);
}

TEST_F(GrowingTopicTest, SaysWhyItWaits) {
  EXPECT_EQ(topic_.waiting_for(), "new messages of topic 'clicks'");
  Look(0);
  End(v1::ScanInputResult(), absl::UnavailableError("connection refused"));
  EXPECT_EQ(topic_.waiting_for(),
            "new messages of topic 'clicks': connection refused");
  Look(kPollMs);
  Find(FoundOf(0, 0, 1));
  EXPECT_EQ(topic_.waiting_for(), "new messages of topic 'clicks'");
}

TEST_F(GrowingTopicTest, AnInputDoesNotEndWhileMessagesAreHeld) {
  CoordinatorOptions options = OfTopic();
  options.job.mutable_input()->mutable_follow()->set_idle_timeout_ms(2500);
  GrowingInput topic(options, &portions_);
  const auto look = [&](uint64_t held) {
    bench_.now = bench_.now + absl::Milliseconds(kPollMs);
    bench_.Do([&](Turn* turn) { topic.Advance(turn); });
    ASSERT_NE(Asked<v1::ScanInput>(), nullptr);
    v1::ScanInputResult result;
    result.set_held(held);
    End(result);
  };
  for (int i = 0; i < 10; ++i) look(3);
  EXPECT_EQ(Asked<v1::AppendLog>(), nullptr);
  EXPECT_EQ(topic.held_messages(), 3u);
  EXPECT_EQ(topic.waiting_for(),
            "new messages of topic 'clicks', or the clicks of those that are "
            "held");
  for (int i = 0; i < 10 && Asked<v1::AppendLog>() == nullptr; ++i) look(0);
  EXPECT_NE(Asked<v1::AppendLog>(), nullptr);
  EXPECT_EQ(topic.held_messages(), 0u);
  EXPECT_EQ(topic.waiting_for(), "new messages of topic 'clicks'");
}

TEST(WholeInputTest, AnInputThatIsAllThereIsNotLookedFor) {
  PartBench bench(JobOptions());
  Portions portions(Epochs(8, 2), 4);
  GrowingInput growing(bench.options, &portions);
  while (portions.Take(0).has_value()) {
  }
  bench.Do([&](Turn* turn) { growing.Advance(turn); });
  EXPECT_TRUE(bench.out.ios.empty());
  EXPECT_FALSE(growing.waits());
}

}  // namespace
}  // namespace paramd
