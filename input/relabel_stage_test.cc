#include "input/relabel_stage.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "base/crc32c.h"
#include "input/order_stages.h"
#include "input/pipeline.h"
#include "input/testing/fake_source.h"
#include "input/testing/idx_test_files.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// (example, label); its probability is 1.
using Chosen = std::vector<std::pair<uint32_t, uint32_t>>;

class RelabelStageTest : public ::testing::Test {
 protected:
  // Of ten examples of a FakeSource.
  std::string Write(const Chosen& labels, uint32_t classes = 10,
                    uint64_t examples = 10) {
    const SourceStage source(std::make_unique<FakeSource>(10));
    std::string records;
    for (const auto& [example, label] : labels) {
      std::vector<float> probabilities(classes);
      probabilities[label] = 1;
      AppendLabelRecord(example, label, probabilities, &records);
    }
    LabelFileHeader header;
    header.examples = examples;
    header.records = labels.size();
    header.classes = classes;
    header.data = LabelledDataKey({}, source);
    header.model = "0123456789abcdef";
    header.records_crc32c = Crc32c(absl::MakeConstSpan(
        reinterpret_cast<const std::byte*>(records.data()), records.size()));
    return WriteTestFile(absl::StrCat("labels-", number_++),
                         EncodeLabelHeader(header) + records);
  }

  static absl::StatusOr<std::unique_ptr<Pipeline>> Open(
      const std::string& stages, uint64_t size = 10) {
    v1::InputConfig config;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(stages, &config));
    return Pipeline::Create(std::make_unique<FakeSource>(size), config,
                            {.seed = 1, .training = true, .batch = 2});
  }

  static std::string ErrorOf(const std::string& stages, uint64_t size = 10) {
    const auto pipeline = Open(stages, size);
    EXPECT_EQ(pipeline.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(pipeline.status().message());
  }

  static std::string Relabel(const std::string& path,
                             const std::string& more = "") {
    return absl::StrCat("stages { relabel { file: '", path, "' ", more, "} }");
  }

 private:
  int number_ = 0;
};

TEST_F(RelabelStageTest, ExamplesAreThoseOfTheFileWithItsLabels) {
  const auto pipeline = Open(Relabel(Write({{7, 3}, {7, 3}, {2, 9}})));
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  ASSERT_EQ((*pipeline)->size(), 3u);
  std::vector<float> images;
  std::vector<int32_t> labels;
  Example example;
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE((*pipeline)->ReadExample(5, i, &example).ok());
    images.push_back(example.values[0].values<float>()[0]);
    labels.push_back(example.values[1].values<int32_t>()[0]);
  }
  EXPECT_THAT(images, ElementsAre(7, 7, 2));
  EXPECT_THAT(labels, ElementsAre(3, 3, 9));
  // A run that goes on with other labels is noticed.
  const auto other = Open(Relabel(Write({{7, 3}, {7, 3}, {2, 8}})));
  ASSERT_TRUE(other.ok());
  EXPECT_NE((*pipeline)->Describe().labels_crc32c(),
            (*other)->Describe().labels_crc32c());
}

TEST_F(RelabelStageTest, AFilterSeesTheNewLabels) {
  const auto pipeline =
      Open(Relabel(Write({{7, 3}, {2, 9}})) +
           "stages { filter { feature: 'label' min: 9 max: 9 } }");
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  ASSERT_EQ((*pipeline)->size(), 1u);
  Example example;
  ASSERT_TRUE((*pipeline)->ReadExample(0, 0, &example).ok());
  EXPECT_EQ(example.values[0].values<float>()[0], 2);
}

TEST_F(RelabelStageTest, AVectorGetsTheProbabilities) {
  const auto pipeline = Open("stages { one_hot { feature: 'label' } }" +
                             Relabel(Write({{4, 6}})));
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  Example example;
  ASSERT_TRUE((*pipeline)->ReadExample(0, 0, &example).ok());
  EXPECT_THAT(example.values[1].values<float>(),
              ElementsAre(0, 0, 0, 0, 0, 0, 1, 0, 0, 0));
}

TEST_F(RelabelStageTest, ExamplesWithoutALabelGetOne) {
  const auto pipeline = Open(Relabel(Write({{4, 6}}), "feature: 'guess'"));
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  const FeatureSpec* const guess = (*pipeline)->spec().Find("guess");
  ASSERT_NE(guess, nullptr);
  EXPECT_EQ(guess->classes, 10u);
  Example example;
  ASSERT_TRUE((*pipeline)->ReadExample(0, 0, &example).ok());
  EXPECT_EQ(example.values[1].values<int32_t>()[0], 4);
  EXPECT_EQ(example.values[2].values<int32_t>()[0], 6);
}

TEST_F(RelabelStageTest, WithoutAFileExamplesStayAsTheyAre) {
  const auto pipeline = Open("stages { relabel {} }");
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  EXPECT_EQ((*pipeline)->size(), 10u);
  Example example;
  ASSERT_TRUE((*pipeline)->ReadExample(0, 7, &example).ok());
  EXPECT_EQ(example.values[1].values<int32_t>()[0], 7);
}

TEST_F(RelabelStageTest, EvaluationKeepsItsLabels) {
  v1::InputConfig config;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(Relabel("/nowhere"),
                                                            &config));
  const auto pipeline = Pipeline::Create(std::make_unique<FakeSource>(10),
                                         config, {.training = false});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  EXPECT_EQ((*pipeline)->size(), 10u);
}

TEST_F(RelabelStageTest, WhatIsOfOtherExamplesIsRefused) {
  const std::string file = Write({{4, 6}});
  EXPECT_THAT(ErrorOf(Relabel(file), 12),
              HasSubstr("is of 10 examples, and here are 12"));
  EXPECT_THAT(ErrorOf("stages { skip { examples: 2 } }" + Relabel(file), 12),
              HasSubstr("is of other examples than these"));
  EXPECT_THAT(ErrorOf(Relabel(file, "model: 'other'")),
              HasSubstr("is of the model 0123456789abcdef, not of other"));
  EXPECT_THAT(ErrorOf(Relabel(Write({{4, 3}}, /*classes=*/4))),
              HasSubstr("has 4 classes, and 'label' is one int32 of 10 "
                        "classes"));
  EXPECT_THAT(ErrorOf("stages { one_hot { feature: 'label' } }" +
                      Relabel(Write({{4, 3}}, /*classes=*/4))),
              HasSubstr("has 4 classes, and 'label' is float32 10"));
  EXPECT_THAT(ErrorOf(Relabel(file, "feature: 'image'")),
              HasSubstr("has 10 classes, and 'image' is float32 1"));
  EXPECT_THAT(ErrorOf(Relabel(Write({}))), HasSubstr("names no example"));
}

TEST_F(RelabelStageTest, ItStandsBeforeWhatMixesExamples) {
  const std::string relabel = Relabel(Write({{4, 6}}));
  EXPECT_THAT(ErrorOf("stages { shuffle {} }" + relabel),
              HasSubstr("comes after a stage that shuffles or repeats"));
  EXPECT_THAT(ErrorOf("stages { repeat { times: 2 } }" + relabel),
              HasSubstr("comes after a stage that shuffles or repeats"));
  EXPECT_TRUE(Open(relabel + "stages { shuffle {} }").ok());
}

}  // namespace
}  // namespace paramd
