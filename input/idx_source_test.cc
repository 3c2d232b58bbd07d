#include "input/idx_source.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "input/testing/idx_test_files.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;

// Three images of 1x2 with the labels 0, 4, 2.
std::string Images() {
  return WriteTestFile("images", IdxBytes({3, 1, 2}, {0, 255, 51, 0, 1, 2}));
}
std::string Labels() {
  return WriteTestFile("labels", IdxBytes({3}, {0, 4, 2}));
}

void ExpectInvalid(const absl::StatusOr<std::unique_ptr<IdxSource>>& dataset,
                   const std::string& message) {
  EXPECT_EQ(dataset.status(), absl::InvalidArgumentError(message));
}

TEST(IdxSourceTest, TheSpecIsWhatTheFilesHold) {
  const auto dataset = IdxSource::Open(Images(), Labels());
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->size(), 3u);
  EXPECT_THAT((*dataset)->spec().Find("image")->dims, ElementsAre(1, 2));
  EXPECT_EQ((*dataset)->spec().Find("label")->classes, 5u);
}

TEST(IdxSourceTest, ExamplesAreReadAsFractions) {
  const auto dataset = IdxSource::Open(Images(), Labels());
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  Example example;
  ASSERT_TRUE((*dataset)->Read(2, &example).ok());
  EXPECT_THAT(example.values[1].values<int32_t>(), ElementsAre(2));
  EXPECT_THAT(example.values[0].values<float>(),
              ElementsAre(1 / 255.0f, 2 / 255.0f));
  ASSERT_TRUE((*dataset)->Read(0, &example).ok());
  EXPECT_THAT(example.values[1].values<int32_t>(), ElementsAre(0));
  EXPECT_THAT(example.values[0].values<float>(), ElementsAre(0, 1));
}

TEST(IdxSourceTest, OneOtherLabelOrPixelMakesItAnotherDataSet) {
  const auto describe = [](const std::string& images,
                           const std::string& labels) {
    return (*IdxSource::Open(images, labels))->Describe();
  };
  const v1::DataSet data = describe(Images(), Labels());
  EXPECT_EQ(data.examples(), 3u);
  EXPECT_THAT(data.example_shape(), ElementsAre(1, 2));
  EXPECT_EQ(data.example_type(), "uint8");
  EXPECT_EQ(data.classes(), 5u);
  const v1::DataSet relabelled =
      describe(Images(), WriteTestFile("other", IdxBytes({3}, {4, 0, 2})));
  EXPECT_EQ(relabelled.examples_crc32c(), data.examples_crc32c());
  EXPECT_NE(relabelled.labels_crc32c(), data.labels_crc32c());
  const v1::DataSet redrawn = describe(
      WriteTestFile("drawn", IdxBytes({3, 1, 2}, {0, 255, 51, 0, 1, 3})),
      Labels());
  EXPECT_NE(redrawn.examples_crc32c(), data.examples_crc32c());
  EXPECT_EQ(redrawn.labels_crc32c(), data.labels_crc32c());
}

TEST(IdxSourceTest, AnotherNumberOfLabelsIsRefused) {
  const std::string labels = WriteTestFile("few", IdxBytes({2}, {0, 1}));
  ExpectInvalid(IdxSource::Open(Images(), labels),
                absl::StrCat("'", Images(), "' has 3 images, but '", labels,
                             "' has 2 labels"));
}

TEST(IdxSourceTest, ALabelBeyondTheExpectedClassesIsRefused) {
  ExpectInvalid(IdxSource::Open(Images(), Labels(), LabelledImages({1, 2}, 4)),
                absl::StrCat("'", Labels(),
                             "' gives example 1 the label 4; labels must be "
                             "below 4"));
}

TEST(IdxSourceTest, ImagesOfAnotherShapeThanExpectedAreRefused) {
  ExpectInvalid(IdxSource::Open(Images(), Labels(), LabelledImages({2, 2}, 5)),
                absl::StrCat("'", Images(),
                             "' has images of 1x2; those trained on have 2x2"));
}

TEST(IdxSourceTest, TheExpectedClassesAreKept) {
  const auto dataset =
      IdxSource::Open(Images(), Labels(), LabelledImages({1, 2}, 10));
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->spec().Find("label")->classes, 10u);
}

TEST(IdxSourceTest, AFileThatCannotBeReadIsNamed) {
  const auto dataset = IdxSource::Open("/nowhere/images", Labels());
  EXPECT_EQ(dataset.status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace paramd
