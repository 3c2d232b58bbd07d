#include "cli/main.h"

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(MainTest, TheJobsModelIsMadeByTheGivenFactory) {
  const std::string job = ::testing::TempDir() + "/job.json";
  std::ofstream(job) << R"({"name": "own", "epochs": 1,
      "input": {"train": {"synthetic": {"examples": 8, "features": ["x"]}}},
      "model": {"layers": [{"dense": 1}], "loss": "mean_squared_error"},
      "optimizer": {"sgd": {}, "learning_rate": 0.1}})";
  std::string flag = "--job=" + job;
  std::string words[] = {"paramd", "model", "print"};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(),
                  flag.data()};
  std::string name;
  const int exit_code =
      Main(4, argv, [&name](const v1::JobConfig& config, const InputSpec&) {
        name = config.name();
        return absl::InvalidArgumentError("no such model here");
      });
  EXPECT_EQ(name, "own");
  EXPECT_EQ(exit_code, 2);
}

}  // namespace
}  // namespace paramd
