#include "worker/input/idx_dataset.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "worker/input/testing/idx_test_files.h"

namespace paramd {
namespace {

using testing::ElementsAre;

// Three images of 1x2 with the labels 0, 4, 2.
std::string Images() {
  return WriteTestFile("images", IdxBytes({3, 1, 2}, {0, 255, 51, 0, 1, 2}));
}
std::string Labels() {
  return WriteTestFile("labels", IdxBytes({3}, {0, 4, 2}));
}

void ExpectInvalid(const absl::StatusOr<std::unique_ptr<IdxDataset>>& dataset,
                   const std::string& message) {
  EXPECT_EQ(dataset.status(), absl::InvalidArgumentError(message));
}

TEST(IdxDatasetTest, TheSpecIsWhatTheFilesHold) {
  const auto dataset = IdxDataset::Open(Images(), Labels());
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->size(), 3u);
  EXPECT_THAT((*dataset)->spec().example_shape, ElementsAre(1, 2));
  EXPECT_EQ((*dataset)->spec().classes, 5u);
}

TEST(IdxDatasetTest, ExamplesAreReadInTheOrderAskedForAsFractions) {
  const auto dataset = IdxDataset::Open(Images(), Labels());
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  Batch batch;
  batch.examples.assign(100, 9);
  ASSERT_TRUE((*dataset)->Read({2u, 0u}, &batch).ok());
  EXPECT_THAT(batch.labels, ElementsAre(2, 0));
  EXPECT_THAT(batch.examples, ElementsAre(1 / 255.0f, 2 / 255.0f, 0, 1));
}

TEST(IdxDatasetTest, OneOtherLabelOrPixelMakesItAnotherDataSet) {
  const auto describe = [](const std::string& images,
                           const std::string& labels) {
    return (*IdxDataset::Open(images, labels))->Describe();
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

TEST(IdxDatasetTest, AnotherNumberOfLabelsIsRefused) {
  const std::string labels = WriteTestFile("few", IdxBytes({2}, {0, 1}));
  ExpectInvalid(IdxDataset::Open(Images(), labels),
                absl::StrCat("'", Images(), "' has 3 images, but '", labels,
                             "' has 2 labels"));
}

TEST(IdxDatasetTest, ALabelBeyondTheExpectedClassesIsRefused) {
  ExpectInvalid(IdxDataset::Open(Images(), Labels(), InputSpec{{1, 2}, 4}),
                absl::StrCat("'", Labels(),
                             "' gives example 1 the label 4; labels must be "
                             "below 4"));
}

TEST(IdxDatasetTest, ImagesOfAnotherShapeThanExpectedAreRefused) {
  ExpectInvalid(IdxDataset::Open(Images(), Labels(), InputSpec{{2, 2}, 5}),
                absl::StrCat("'", Images(),
                             "' has images of 1x2; those trained on have 2x2"));
}

TEST(IdxDatasetTest, TheExpectedClassesAreKept) {
  const auto dataset =
      IdxDataset::Open(Images(), Labels(), InputSpec{{1, 2}, 10});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->spec().classes, 10u);
}

TEST(IdxDatasetTest, AFileThatCannotBeReadIsNamed) {
  const auto dataset = IdxDataset::Open("/nowhere/images", Labels());
  EXPECT_EQ(dataset.status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace paramd
