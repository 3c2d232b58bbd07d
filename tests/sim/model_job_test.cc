#include "tests/sim/model_job.h"

#include <filesystem>
#include <string>

#include "gtest/gtest.h"

#include "input/testing/idx_test_files.h"

namespace paramd {
namespace {

// A job file beside its data: three examples to train on, two to test.
std::string WriteJob(const std::string& layers) {
  WriteTestFile("train-images", IdxBytes({3, 1, 2}, {1, 2, 3, 4, 5, 6}));
  WriteTestFile("train-labels", IdxBytes({3}, {0, 1, 2}));
  WriteTestFile("test-images", IdxBytes({2, 1, 2}, {1, 2, 3, 4}));
  const std::string directory =
      std::filesystem::path(WriteTestFile("test-labels", IdxBytes({2}, {0, 1})))
          .parent_path();
  return WriteTestFile("job.json", R"({
    "name": "three", "epochs": 4,
    "input": {"format": "idx", "directory": ")" +
                                       directory + R"(",
              "train_images": "train-images", "train_labels": "train-labels",
              "test_images": "test-images", "test_labels": "test-labels"},
    "model": {"layers": [)" + layers + R"(], "loss": "softmax_cross_entropy"},
    "optimizer": {"sgd": {}, "learning_rate": 0.1}
  })");
}

TEST(ModelJobTest, AJobFileComesWithItsData) {
  const auto job = LoadModelJob(WriteJob(R"("flatten", {"dense": 3})"), 3);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->config.epochs(), 4u);
  EXPECT_EQ(job->config.batch_per_replica(), 32u) << "the default";
  EXPECT_EQ(job->servers, 3u);
  EXPECT_EQ(job->training->size(), 3u);
  EXPECT_EQ(job->test->size(), 2u);
}

TEST(ModelJobTest, ItsFlagsSayItAgain) {
  const std::string path = WriteJob(R"("flatten", {"dense": 3})");
  const auto job = LoadModelJob(path, 3);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->flags, "--job=" + path + " --servers=3");
  EXPECT_EQ(DrawnModelJob().flags, "--workload=model");
}

TEST(ModelJobTest, AFileThatIsMissingIsNamed) {
  const auto job = LoadModelJob("nowhere.json", 1);
  ASSERT_FALSE(job.ok());
  EXPECT_NE(job.status().message().find("nowhere.json"), std::string::npos)
      << job.status();
}

TEST(ModelJobTest, LayersThatDoNotFitTheDataAreRefused) {
  const auto job = LoadModelJob(WriteJob(R"({"dense": 3})"), 1);
  ASSERT_FALSE(job.ok());
  EXPECT_NE(job.status().message().find("dense"), std::string::npos)
      << job.status();
}

}  // namespace
}  // namespace paramd
