#include "input/taught_labels.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "base/crc32c.h"
#include "input/combined_source.h"
#include "input/order_stages.h"
#include "input/pipeline.h"
#include "input/prefetcher.h"
#include "input/testing/fake_source.h"
#include "input/testing/idx_test_files.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kFakes = 10;
constexpr uint32_t kFakeClasses = 3;

// What the teacher says of example i of a FakeSource; no two are alike.
std::vector<float> AnswerTo(uint64_t i) {
  const float first = 0.0625f * static_cast<float>(i);
  return {first, 0.25f * (1 - first), 0.75f * (1 - first)};
}

class TaughtLabelsTest : public ::testing::Test {
 protected:
  static absl::StatusOr<std::unique_ptr<Pipeline>> Training(
      const std::string& stages, uint64_t size = kFakes) {
    v1::InputConfig config;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(stages, &config));
    return Pipeline::Create(std::make_unique<FakeSource>(size), config,
                            {.seed = 3, .training = true, .batch = 4});
  }

  // A file of those of the examples behind all of `stages`, by their places
  // there, of which `left_out` says nothing.
  std::string Write(const std::string& stages = "",
                    std::vector<uint64_t> left_out = {}) {
    v1::InputConfig config;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(stages, &config));
    const auto labelled = *Pipeline::Create(
        std::make_unique<FakeSource>(kFakes), config, {.training = false});
    const Stage& examples = labelled->examples();
    LabelFileHeader header;
    std::string records;
    for (uint64_t place = 0; place < examples.size(); ++place) {
      if (std::find(left_out.begin(), left_out.end(), place) !=
          left_out.end()) {
        continue;
      }
      AppendLabelRecord(static_cast<uint32_t>(place), 2,
                        AnswerTo(examples.IndexAt({0, place})), &records);
      ++header.records;
    }
    header.examples = examples.size();
    header.classes = kFakeClasses;
    header.data = LabelledDataKey({}, examples);
    header.model = "0123456789abcdef";
    header.records_crc32c = Crc32c(absl::MakeConstSpan(
        reinterpret_cast<const std::byte*>(records.data()), records.size()));
    return WriteTestFile(absl::StrCat("taught-", number_++),
                         EncodeLabelHeader(header) + records);
  }

  // Batches of two epochs have what the teacher says of each of their examples.
  static void ExpectTaught(const std::string& stages, const std::string& path) {
    const auto training = Training(stages);
    ASSERT_TRUE(training.ok()) << training.status();
    auto taught = TaughtLabels::Open(path, **training, 1);
    ASSERT_TRUE(taught.ok()) << taught.status();
    std::vector<std::unique_ptr<const TaughtLabels>> all;
    all.push_back(*std::move(taught));
    (*training)->Teach(std::move(all));
    Batch batch;
    for (const uint64_t epoch : {0, 1}) {
      const Portion whole{epoch, 0, (*training)->size()};
      const absl::Status read = (*training)->Read(whole, &batch);
      ASSERT_TRUE(read.ok()) << read;
      ASSERT_EQ(batch.taught.size(), 1u);
      // The image of a FakeSource is the example's number.
      const auto images = batch.Find("image")->values<float>();
      const auto said = batch.taught[0].values<float>();
      ASSERT_EQ(said.size(), batch.size() * kFakeClasses);
      for (uint64_t i = 0; i < batch.size(); ++i) {
        const auto number = static_cast<uint64_t>(images[i]);
        EXPECT_EQ(std::vector<float>(said.begin() + i * kFakeClasses,
                                     said.begin() + (i + 1) * kFakeClasses),
                  AnswerTo(number))
            << stages << " example " << number;
      }
    }
  }

  static void Teach(const std::string& path, Pipeline* training) {
    auto taught = TaughtLabels::Open(path, *training, 1);
    ASSERT_TRUE(taught.ok()) << taught.status();
    std::vector<std::unique_ptr<const TaughtLabels>> all;
    all.push_back(*std::move(taught));
    training->Teach(std::move(all));
  }

  static std::string ErrorOf(const std::string& stages, const std::string& path,
                             uint64_t size = kFakes) {
    const auto training = Training(stages, size);
    EXPECT_TRUE(training.ok()) << training.status();
    const auto taught = TaughtLabels::Open(path, **training, 1);
    EXPECT_EQ(taught.status().code(), absl::StatusCode::kInvalidArgument)
        << taught.status();
    return std::string(taught.status().message());
  }

 private:
  int number_ = 0;
};

constexpr char kTakeFive[] = "stages { take { examples: 5 } } ";
constexpr char kSkipTwo[] = "stages { skip { examples: 2 } } ";
constexpr char kShuffle[] = "stages { shuffle {} } ";
TEST_F(TaughtLabelsTest, ExamplesFindTheirsBehindAnyStages) {
  const std::string all = Write();
  for (const char* const stages :
       {"", kTakeFive, kSkipTwo, kShuffle, "stages { repeat { times: 2 } } ",
        "stages { shuffle {} } stages { take { examples: 3 } } "
        "stages { cache { max_mb: 1 } } stages { repeat { times: 2 } }"}) {
    ExpectTaught(stages, all);
  }
  ExpectTaught(absl::StrCat(kSkipTwo, kTakeFive, kShuffle), all);
}

TEST_F(TaughtLabelsTest, LabelsOfWhatALaterStageLeavesAreFound) {
  ExpectTaught(absl::StrCat(kSkipTwo, kShuffle), Write(kSkipTwo));
  ExpectTaught(absl::StrCat(kSkipTwo, kTakeFive, kShuffle), Write(kSkipTwo));
  ExpectTaught(absl::StrCat(kSkipTwo, kTakeFive, kShuffle),
               Write(absl::StrCat(kSkipTwo, kTakeFive)));
  ExpectTaught(absl::StrCat("stages { take { examples: 3 } }", kShuffle),
               Write(kTakeFive));
}

TEST_F(TaughtLabelsTest, LabelsOfOtherExamplesAreRefused) {
  const std::string all = Write();
  EXPECT_THAT(ErrorOf(kShuffle, all, 8),
              HasSubstr("' is of 10 examples, and here are 8: label these"));
  EXPECT_THAT(ErrorOf(kTakeFive, Write(kSkipTwo)),
              HasSubstr("' is of 8 examples, and here are 10: label these"));
  const std::string last = Write("stages { skip { examples: 5 } }");
  EXPECT_THAT(ErrorOf(kTakeFive, last),
              HasSubstr("' is of other examples than these, or of these in "
                        "another order"));
  EXPECT_THAT(ErrorOf("stages { window { size: 2 shift: 2 stride: 1 } }", all),
              HasSubstr("the stage window makes one of several"));
  EXPECT_THAT(ErrorOf("", "/nowhere.records"),
              HasSubstr("there is no file '/nowhere.records'"));
}

TEST_F(TaughtLabelsTest, AnExampleThatTheFileLeavesOutIsNamed) {
  const std::string path = Write("", {1, 7});
  EXPECT_THAT(ErrorOf(kShuffle, path),
              HasSubstr(absl::StrCat("'", path, "' says nothing of ")));
  EXPECT_THAT(ErrorOf("", Write(kTakeFive)), HasSubstr("says nothing of "));
  // Nobody asks of these.
  ExpectTaught("stages { take { examples: 1 } }", path);
  ExpectTaught("stages { skip { examples: 8 } } stages { shuffle {} }", path);
}

TEST_F(TaughtLabelsTest, AnExampleOfALaterEpochThatIsLeftOutIsNamedThen) {
  const auto training =
      Training("stages { shuffle {} } stages { take { examples: 1 } }");
  ASSERT_TRUE(training.ok()) << training.status();
  const uint64_t first = (*training)->examples().IndexAt({0, 0});
  uint64_t epoch = 1;
  while ((*training)->examples().IndexAt({epoch, 0}) == first) ++epoch;
  const uint64_t later = (*training)->examples().IndexAt({epoch, 0});
  auto taught = TaughtLabels::Open(Write("", {later}), **training, 1);
  ASSERT_TRUE(taught.ok()) << taught.status();
  std::vector<std::unique_ptr<const TaughtLabels>> all;
  all.push_back(*std::move(taught));
  (*training)->Teach(std::move(all));
  Batch batch;
  EXPECT_TRUE((*training)->Read({0, 0, 1}, &batch).ok());
  const absl::Status status = (*training)->Read({epoch, 0, 1}, &batch);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("says nothing of ",
                                     (*training)->source().Where(later))));
}

TEST_F(TaughtLabelsTest, WindowsOfASourceWithinAreRefusedToo) {
  v1::InputConfig windows;
  windows.add_stages()->mutable_window()->set_size(2);
  Parts parts;
  parts.push_back(*Pipeline::Create(std::make_unique<FakeSource>(kFakes),
                                    windows, {.is_part = true}));
  auto sampled = MakeSampled(std::move(parts), {}, false, 1);
  ASSERT_TRUE(sampled.ok()) << sampled.status();
  const auto training = Pipeline::Create(*std::move(sampled), v1::InputConfig(),
                                         {.seed = 3, .batch = 4});
  ASSERT_TRUE(training.ok()) << training.status();
  const auto taught = TaughtLabels::Open(Write(), **training, 1);
  EXPECT_THAT(std::string(taught.status().message()),
              HasSubstr("the stage window makes one of several"));
}

// So that a worker that has read another file than the chief is refused.
TEST_F(TaughtLabelsTest, WhatIsTaughtTellsDataFromOthers) {
  const auto sum_of = [&](const std::string& path) {
    const auto training = *Training(kTakeFive);
    if (!path.empty()) Teach(path, training.get());
    return training->Describe().labels_crc32c();
  };
  const uint32_t sum = sum_of(Write());
  EXPECT_EQ(sum_of(Write()), sum);
  EXPECT_NE(sum_of(""), sum);
  EXPECT_NE(sum_of(Write("", {7})), sum);
}

TEST_F(TaughtLabelsTest, WhatIsTaughtTakesItsPartOfTheMemory) {
  const auto training = *Training("");
  // Of ten examples: an image and a label, twice, and three probabilities.
  const Prefetcher::Options options = {
      .batch_size = 10, .depth = 5, .memory_bytes = 2 * 10 * (16 + 12)};
  EXPECT_EQ(Prefetcher(*training, options).figures().depth, 3u);
  Teach(Write(), training.get());
  EXPECT_EQ(Prefetcher(*training, options).figures().depth, 2u);
}

TEST_F(TaughtLabelsTest, ATemperatureIsThatOfTheOutputs) {
  const std::vector<double> z = {1.5, -2, 7};
  const auto softmax = [&](double temperature) {
    std::vector<double> p;
    double sum = 0;
    for (const double one : z)
      sum += p.emplace_back(std::exp(one / temperature));
    for (double& one : p) one /= sum;
    return p;
  };
  std::vector<float> plain;
  for (const double one : softmax(1)) plain.push_back(static_cast<float>(one));
  std::string records;
  for (uint32_t i = 0; i < 2; ++i) {
    // The second one is sure.
    AppendLabelRecord(i, 2, i == 0 ? plain : std::vector<float>{0, 0, 1},
                      &records);
  }
  const SourceStage source(std::make_unique<FakeSource>(2));
  LabelFileHeader header;
  header.examples = header.records = 2;
  header.classes = kFakeClasses;
  header.data = LabelledDataKey({}, source);
  header.model = "a";
  header.records_crc32c = Crc32c(absl::MakeConstSpan(
      reinterpret_cast<const std::byte*>(records.data()), records.size()));
  const std::string path =
      WriteTestFile("tempered", EncodeLabelHeader(header) + records);
  const auto training = Training("", 2);
  ASSERT_TRUE(training.ok()) << training.status();
  std::vector<float> said(kFakeClasses);
  for (const double temperature : {0.5, 1.0, 2.0, 5.0, 1000.0}) {
    const auto taught = TaughtLabels::Open(path, **training, temperature);
    ASSERT_TRUE(taught.ok()) << taught.status();
    const ExampleNames& names = (*training)->source();
    ASSERT_TRUE((*taught)->Read(0, names, absl::MakeSpan(said)).ok());
    const std::vector<double> wanted = softmax(temperature);
    for (size_t c = 0; c < said.size(); ++c) {
      EXPECT_NEAR(said[c], wanted[c], 5e-7 * wanted[c]) << temperature;
    }
    ASSERT_TRUE((*taught)->Read(1, names, absl::MakeSpan(said)).ok());
    EXPECT_THAT(said, ElementsAre(0, 0, 1));
    if (temperature != 1) continue;
    ASSERT_TRUE((*taught)->Read(0, names, absl::MakeSpan(said)).ok());
    EXPECT_EQ(said, plain);
  }
}

TEST_F(TaughtLabelsTest, AMicroBatchHasWhatIsSaidOfItsExamples) {
  const auto training = Training("stages { batch {} }");
  ASSERT_TRUE(training.ok()) << training.status();
  auto taught = TaughtLabels::Open(Write(), **training, 1);
  ASSERT_TRUE(taught.ok()) << taught.status();
  std::vector<std::unique_ptr<const TaughtLabels>> all;
  all.push_back(*std::move(taught));
  (*training)->Teach(std::move(all));
  Batch batch;
  ASSERT_TRUE((*training)->Read({0, 0, 6}, &batch).ok());
  Batch part;
  part.CopyExamples(batch, 4, 6);
  ASSERT_EQ(part.taught.size(), 1u);
  std::vector<float> wanted = AnswerTo(batch.indices[4]);
  for (const float one : AnswerTo(batch.indices[5])) wanted.push_back(one);
  const auto said = part.taught[0].values<float>();
  EXPECT_EQ(std::vector<float>(said.begin(), said.end()), wanted);
}

}  // namespace
}  // namespace paramd
