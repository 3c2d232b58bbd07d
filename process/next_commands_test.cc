#include "process/next_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paramd {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> CommandsOf(v1::JobConfig::Strategy strategy,
                                    const JobFlags& flags) {
  v1::JobConfig job;
  job.set_strategy(strategy);
  return NextCommands(flags, job, "runs/a job-1");
}

std::vector<std::string> CommandsOf(v1::JobConfig::Strategy strategy) {
  JobFlags flags;
  flags.job_path = "a job.json";
  return CommandsOf(strategy, flags);
}

TEST(NextCommandsTest, AJobWithServersGetsMoreProcesses) {
  EXPECT_THAT(CommandsOf(v1::JobConfig::PARAMETER_SERVER),
              ElementsAre("checkpoint inspect 'runs/a job-1'",
                          "local --job 'a job.json' --servers 3 --workers 4",
                          "local --job 'a job.json' --set "
                          "optimizer.learning_rate=0.01"));
}

TEST(NextCommandsTest, AJobOfWorkersAloneGetsNoServers) {
  EXPECT_EQ(CommandsOf(v1::JobConfig::MULTI_WORKER_MIRRORED)[1],
            "local --job 'a job.json' --workers 4");
}

TEST(NextCommandsTest, AJobOfOneProcessIsRunInOne) {
  for (const auto strategy :
       {v1::JobConfig::MIRRORED, v1::JobConfig::CENTRAL_STORAGE}) {
    EXPECT_THAT(CommandsOf(strategy),
                ElementsAre("checkpoint inspect 'runs/a job-1'",
                            "run --job 'a job.json' --replicas 4",
                            "run --job 'a job.json' --set "
                            "optimizer.learning_rate=0.01"));
  }
  EXPECT_EQ(CommandsOf(v1::JobConfig::ONE_DEVICE)[1],
            "run --job 'a job.json' --strategy central_storage --replicas 2");
}

TEST(NextCommandsTest, AStrategyThatAFlagChoseIsGivenAgain) {
  JobFlags flags;
  flags.job_path = "job.json";
  flags.settings = {{"strategy", "mirrored"}, {"replicas", "2"}};
  EXPECT_EQ(CommandsOf(v1::JobConfig::MIRRORED, flags)[1],
            "run --job job.json --strategy mirrored --replicas 4");
  flags.settings = {{"strategy", "one_device"}};
  EXPECT_EQ(CommandsOf(v1::JobConfig::ONE_DEVICE, flags)[1],
            "run --job job.json --strategy central_storage --replicas 2");
}

}  // namespace
}  // namespace paramd
