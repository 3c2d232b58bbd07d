#include "config/strategy.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::JobConfig JobOf(v1::JobConfig::Strategy strategy, uint32_t replicas = 1) {
  v1::JobConfig job;
  job.set_strategy(strategy);
  job.set_replicas(replicas);
  job.set_staleness(strategy == v1::JobConfig::PARAMETER_SERVER ? "async"
                                                                : "sync");
  return job;
}

ClusterSpec ClusterOf(size_t ps, size_t workers) {
  ClusterSpec cluster;
  cluster.standalone = false;
  cluster.ps.assign(ps, "p:1");
  cluster.workers.assign(workers, "w:1");
  return cluster;
}

std::vector<std::string> Wrong(const v1::JobConfig& job) {
  std::vector<std::string> paths;
  CheckStrategySettings(
      job, [&](const std::string& path, auto) { paths.push_back(path); });
  return paths;
}

std::string Misfit(v1::JobConfig::Strategy strategy,
                   const ClusterSpec& cluster) {
  return std::string(CheckStrategyFits(JobOf(strategy), cluster).message());
}

TEST(StrategyTest, HasTheNameOfTheJobFile) {
  EXPECT_EQ(StrategyName(v1::JobConfig::CENTRAL_STORAGE), "central_storage");
  EXPECT_EQ(StrategyName(v1::JobConfig::STRATEGY_UNSPECIFIED),
            "parameter_server");
}

TEST(StrategyTest, OnlySomeHaveSeveralReplicas) {
  EXPECT_THAT(Wrong(JobOf(v1::JobConfig::ONE_DEVICE, 2)),
              ElementsAre("replicas"));
  EXPECT_THAT(Wrong(JobOf(v1::JobConfig::MULTI_WORKER_MIRRORED, 2)),
              ElementsAre("replicas"));
  EXPECT_THAT(Wrong(JobOf(v1::JobConfig::PARAMETER_SERVER, 2)), IsEmpty());
  EXPECT_THAT(Wrong(JobOf(v1::JobConfig::MIRRORED, 2)), IsEmpty());
  EXPECT_THAT(Wrong(JobOf(v1::JobConfig::CENTRAL_STORAGE, 2)), IsEmpty());
}

TEST(StrategyTest, AModelOfAProgramHasReplicasAsAnyOther) {
  for (const v1::JobConfig::Strategy strategy :
       {v1::JobConfig::ONE_DEVICE, v1::JobConfig::MULTI_WORKER_MIRRORED,
        v1::JobConfig::PARAMETER_SERVER, v1::JobConfig::MIRRORED,
        v1::JobConfig::CENTRAL_STORAGE}) {
    v1::JobConfig job = JobOf(strategy, 2);
    const std::vector<std::string> built_in = Wrong(job);
    job.mutable_model()->set_custom(true);
    EXPECT_EQ(Wrong(job), built_in) << StrategyName(strategy);
  }
}

TEST(StrategyTest, APushOfSeveralReplicasIsOfOneGradientOfEach) {
  v1::JobConfig job = JobOf(v1::JobConfig::PARAMETER_SERVER, 2);
  job.set_push_every(4);
  EXPECT_THAT(Wrong(job), ElementsAre("push_every"));
  job.set_replicas(1);
  EXPECT_THAT(Wrong(job), IsEmpty());
}

TEST(StrategyTest, WithoutServersEveryStepIsTheSumOfAll) {
  v1::JobConfig job = JobOf(v1::JobConfig::MIRRORED);
  job.set_staleness("8");
  job.set_push_every(2);
  job.set_backup_workers(1);
  EXPECT_THAT(Wrong(job),
              ElementsAre("staleness", "push_every", "backup_workers"));
  job.set_strategy(v1::JobConfig::PARAMETER_SERVER);
  EXPECT_THAT(Wrong(job), IsEmpty());
}

TEST(StrategyTest, StagesOfWorkersFitTheirPipelines) {
  v1::JobConfig job = JobOf(v1::JobConfig::PARAMETER_SERVER);
  job.mutable_pipeline()->set_stages(3);
  ClusterSpec cluster = ClusterOf(1, 2);
  const auto misfit = [&] {
    return std::string(CheckStrategyFits(job, cluster).message());
  };
  cluster.stages = {"a:1", "b:1", "c:1", "d:1"};
  EXPECT_EQ(misfit(), "");
  EXPECT_EQ(cluster.stages_of_a_worker(), 2u);
  cluster.stages.resize(3);
  EXPECT_THAT(misfit(), HasSubstr("has 3 stage tasks for 2 workers; each"));
  cluster.stages.resize(6);
  EXPECT_THAT(misfit(), HasSubstr("3 for each worker, and the pipeline is on 3 "
                                  "devices, the last of which is the worker "
                                  "itself; list at most 2"));
  cluster.stages.resize(2);
  job.mutable_pipeline()->set_schedule(v1::PipelineConfig::SCHEDULE_2BW);
  EXPECT_THAT(misfit(), HasSubstr("a pipeline without a flush"));
  job.mutable_pipeline()->clear_schedule();
  job.set_replicas(2);
  EXPECT_THAT(misfit(), HasSubstr("replicas is 2"));
  job.set_replicas(1);
  job.mutable_model()->set_custom(true);
  EXPECT_THAT(misfit(), HasSubstr("the model is custom"));
  // Who reads checkpoints, whatever it is told of others.
  cluster.self.type = TaskType::kEvaluator;
  EXPECT_EQ(misfit(), "");
}

TEST(StrategyTest, MirroredWorkersHaveNoStagesElsewhere) {
  ClusterSpec cluster = ClusterOf(0, 2);
  cluster.stages = {"a:1", "b:1"};
  EXPECT_THAT(Misfit(v1::JobConfig::MULTI_WORKER_MIRRORED, cluster),
              HasSubstr("has 2 stage tasks"));
}

TEST(StrategyTest, AStrategyThatDoesNotFitNamesOneThatDoes) {
  EXPECT_EQ(Misfit(v1::JobConfig::MIRRORED, ClusterSpec()), "");
  EXPECT_EQ(Misfit(v1::JobConfig::PARAMETER_SERVER, ClusterOf(1, 2)), "");
  EXPECT_THAT(Misfit(v1::JobConfig::MIRRORED, ClusterOf(0, 2)),
              HasSubstr("has 2 workers; choose \"multi_worker_mirrored\""));
  EXPECT_THAT(Misfit(v1::JobConfig::CENTRAL_STORAGE, ClusterOf(1, 2)),
              HasSubstr("has 1 ps tasks; choose \"parameter_server\""));
}

}  // namespace
}  // namespace paramd
