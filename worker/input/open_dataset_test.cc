#include "worker/input/open_dataset.h"

#include <filesystem>
#include <string>

#include "gtest/gtest.h"

#include "worker/input/testing/idx_test_files.h"

namespace paramd {
namespace {

v1::InputConfig Config() {
  const std::string path =
      WriteTestFile("train-images", IdxBytes({3, 1, 1}, {1, 2, 3}));
  WriteTestFile("train-labels", IdxBytes({3}, {0, 1, 2}));
  WriteTestFile("test-images", IdxBytes({2, 1, 1}, {1, 2}));
  WriteTestFile("test-labels", IdxBytes({2}, {0, 1}));
  v1::InputConfig config;
  config.set_format(v1::InputConfig::IDX);
  config.set_directory(std::filesystem::path(path).parent_path());
  config.set_train_images("train-images");
  config.set_train_labels("train-labels");
  config.set_test_images("test-images");
  config.set_test_labels("test-labels");
  return config;
}

TEST(OpenDatasetTest, FilesAreFoundInTheDirectory) {
  const auto training = OpenTrainingData(Config());
  ASSERT_TRUE(training.ok()) << training.status();
  EXPECT_EQ((*training)->size(), 3u);
}

TEST(OpenDatasetTest, AnAbsoluteNameDoesNotNeedTheDirectory) {
  v1::InputConfig config = Config();
  config.set_train_images(config.directory() + "/train-images");
  config.set_train_labels(config.directory() + "/train-labels");
  config.set_directory("/nowhere");
  EXPECT_TRUE(OpenTrainingData(config).ok());
}

TEST(OpenDatasetTest, TestDataHasTheClassesOfTheTrainingData) {
  const auto test = OpenTestData(Config(), InputSpec{{1, 1}, 3});
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ((*test)->size(), 2u);
  EXPECT_EQ((*test)->spec().classes, 3u);
}

TEST(OpenDatasetTest, TestDataOfAnotherShapeIsRefused) {
  EXPECT_EQ(OpenTestData(Config(), InputSpec{{28, 28}, 3}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(OpenDatasetTest, AnUnknownFormatIsRefused) {
  v1::InputConfig config = Config();
  config.clear_format();
  EXPECT_EQ(
      OpenTrainingData(config).status(),
      absl::InvalidArgumentError("the input has no format; \"idx\" is known"));
}

TEST(OpenDatasetTest, AMissingNameIsRefused) {
  v1::InputConfig config = Config();
  config.clear_train_labels();
  EXPECT_EQ(
      OpenTrainingData(config).status(),
      absl::InvalidArgumentError("the input names no images or no labels"));
}

}  // namespace
}  // namespace paramd
