#include "config/configuration.h"

#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ConfigurationTest : public ::testing::Test {
 protected:
  ConfigurationTest() {
    job_.file = absl::StrCat(
        ::testing::TempDir(), "/",
        ::testing::UnitTest::GetInstance()->current_test_info()->name(),
        ".json");
    std::ofstream(*job_.file) << R"({
      "name": "a", "input": {"format": "idx", "directory": "/no/such"},
      "model": {"layers": [{"dense": 10}], "loss": "softmax_cross_entropy"},
      "optimizer": {"sgd": {}, "learning_rate": 0.1}})";
    cluster_.cluster = "ps=p:1 worker=a:1,b:1";
    cluster_.task_type = "ps";
    cluster_.task_index = "0";
  }

  std::string Message() {
    return std::string(LoadConfiguration(job_, cluster_).status().message());
  }

  JobSources job_;
  ClusterSources cluster_;
};

TEST_F(ConfigurationTest, AServerNeedsNoInput) {
  const auto all = LoadConfiguration(job_, cluster_);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->job.config.name(), "a");
  EXPECT_TRUE(all->cluster.is_ps());
}

TEST_F(ConfigurationTest, WhoTrainsNeedsInput) {
  cluster_.task_type = "worker";
  EXPECT_THAT(Message(), HasSubstr("there is no directory \"/no/such\""));
  cluster_ = ClusterSources();
  EXPECT_THAT(Message(), HasSubstr("there is no directory \"/no/such\""));
}

TEST_F(ConfigurationTest, MistakesOfJobAndClusterAreSaidAtOnce) {
  cluster_.task_index = "1";
  job_.settings = {{"epoch", "1"}};
  EXPECT_EQ(Message(),
            "--epoch: epoch: unknown key; did you mean 'epochs'?\n"
            "--task_index: is 1, but 'ps' has 1 task, numbered from 0");
}

TEST_F(ConfigurationTest, AJobThatCannotBeReadSaysNothingOfServers) {
  cluster_.cluster = "worker=a:1,b:1";
  cluster_.task_type = "worker";
  job_.settings = {{"epoch", "1"}};
  EXPECT_THAT(Message(), Not(HasSubstr("'ps'")));
}

TEST_F(ConfigurationTest, AMistakeOfOneOfThemIsEnough) {
  cluster_.task_index = "1";
  EXPECT_EQ(Message(),
            "--task_index: is 1, but 'ps' has 1 task, numbered from 0");
}

TEST_F(ConfigurationTest, AClusterWithoutServersNamesTheJobsStrategy) {
  cluster_.cluster = "worker=a:1,b:1";
  cluster_.task_type = "worker";
  job_.settings = {{"input.directory", ::testing::TempDir()},
                   {"input.train_images", *job_.file},
                   {"input.train_labels", *job_.file},
                   {"input.test_images", *job_.file},
                   {"input.test_labels", *job_.file}};
  cluster_.strategy = "x";
  EXPECT_THAT(Message(),
              HasSubstr("the strategy 'parameter_server' trains through"));
}

}  // namespace
}  // namespace paramd
